"""Deep strips: depthwise convolution of small planes, a channel in each lane.

Rows of three outputs leave most of a vector empty. Here a strip's cell is a vector, a number of each of as many channels as
there are lanes; the plan of _strips.pxd is the same, with vectors of one cell. Planes are turned on the way in and out.
Each sum is one chain over the taps, or for conv_weight over samples and cells. In float alone: twice the lanes.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from lean_nn_c._geometry cimport Geometry
from lean_nn_c._simd cimport LNN_BYTES, finish, turn
from lean_nn_c._strips cimport CONV_INPUT, Plan, Strips
from lean_nn_c._sweeps cimport gauge, lnn_fill_deep_f32, lnn_sweep_deep_f32
from lean_nn_c._tail cimport lnn_tail


cdef inline int64_t deep_bytes(const Geometry* g) noexcept nogil:
    """Turned planes of both sides, weights or sums, and what sums begin with."""
    return (g.cells + g.outs + g.taps + 1) * LNN_BYTES


cdef inline void deep_units(const Strips* s, const Geometry* g, const Plan* plan, float* strip, float* turned,
                            const float* source, const float* w, const float* b, const lnn_tail* tail, float* out,
                            int64_t first, int64_t stop) noexcept nogil:
    """Units first..stop of conv or conv_input; a unit is (vector of channels, sample)."""
    cdef bint back = s.kind == CONV_INPUT
    cdef int64_t cells = g.outs if back else g.cells, results = g.cells if back else g.outs
    cdef int64_t unit, k, plane, c = first // g.n * s.deep, sample = first % g.n
    cdef float* result = turned + cells * s.deep
    cdef float* weight = result + results * s.deep
    cdef float* start = weight + g.taps * s.deep
    for unit in range(first, stop):
        if unit == first or sample == 0:
            turn(w + c * g.taps, g.taps, s.deep, g.taps, weight, s.deep)
            if b != NULL:           # else what was cleared with the desk
                turn(b + c, 1, s.deep, 1, start, s.deep)
        plane = sample * g.c + c
        lnn_fill_deep_f32(&plan.copies, source + plane * cells, cells, turned, strip)
        for k in range(s.classes):
            lnn_sweep_deep_f32(plan.sweeps + k, weight, strip, start, result)
        turn(<const float*>result, s.deep, results, s.deep, out + plane * results, results)
        finish(tail, out + plane * results, s.deep * results)
        sample += 1
        if sample == g.n:
            sample = 0
            c += s.deep


cdef inline void deep_weights(const Strips* s, const Geometry* g, const Plan* plan, float* strip, float* turned,
                              const float* x, const float* y_bar, float* w_bar, int64_t first, int64_t stop) noexcept nogil:
    """w_bar of the vectors of channels first..stop, samples in order."""
    cdef float* y = turned + g.cells * s.deep
    cdef float* sums = y + g.outs * s.deep
    cdef int64_t unit, plane, n
    for unit in range(first, stop):
        memset(sums, 0, g.taps * LNN_BYTES)
        for n in range(g.n):
            plane = n * g.c + unit * s.deep
            lnn_fill_deep_f32(&plan.copies, x + plane * g.cells, g.cells, turned, strip)
            turn(y_bar + plane * g.outs, g.outs, s.deep, g.outs, y, s.deep)
            gauge(plan.sweeps, <const float*>strip, <const float*>y, 0, 1, sums)
        turn(<const float*>sums, s.deep, g.taps, s.deep, w_bar + unit * s.deep * g.taps, g.taps)
