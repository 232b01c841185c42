"""winograd.h for Cython, and where the tiles of one unit lie: how an image is cut into tiles and put together again.

Tiles are numbered row by row through all samples; a unit is as many as two vectors have lanes. Those of a unit that are
neighbours in a row of tiles form a run, which reads one patch of the image.
"""

from libc.stdint cimport int64_t

from lean_nn_c._types cimport real

cdef extern from "winograd.h" nogil:
    enum:
        LNN_BYTES
        LNN_WINO_VECTORS
        LNN_WINO_PANEL
    void lnn_wino_image_f32(int m, const float** p, Py_ssize_t pitch, float* out, Py_ssize_t step) noexcept
    void lnn_wino_image_f64(int m, const double** p, Py_ssize_t pitch, double* out, Py_ssize_t step) noexcept
    void lnn_wino_weight_f32(int m, int flip, Py_ssize_t filters, const float* w, Py_ssize_t next,
                             Py_ssize_t ahead, float* out, Py_ssize_t step) noexcept
    void lnn_wino_weight_f64(int m, int flip, Py_ssize_t filters, const double* w, Py_ssize_t next,
                             Py_ssize_t ahead, double* out, Py_ssize_t step) noexcept
    void lnn_wino_output_f32(int m, const float* t, Py_ssize_t step, float bias, float** p,
                             const int64_t* pitch, float* zero) noexcept
    void lnn_wino_output_f64(int m, const double* t, Py_ssize_t step, double bias, double** p,
                             const int64_t* pitch, double* zero) noexcept
    void lnn_wino_cotangent_f32(int m, const float** p, Py_ssize_t pitch, float* out, Py_ssize_t step) noexcept
    void lnn_wino_cotangent_f64(int m, const double** p, Py_ssize_t pitch, double* out, Py_ssize_t step) noexcept
    void lnn_wino_filter_f32(int m, const float* u, Py_ssize_t step, int add, float** p, float* zero) noexcept
    void lnn_wino_filter_f64(int m, const double* u, Py_ssize_t step, int add, double** p, double* zero) noexcept
    void lnn_wino_product_f32(int mr, int nv, Py_ssize_t kn, const float* u, Py_ssize_t ldu, const float* v, int add,
                              float* out) noexcept
    void lnn_wino_product_f64(int mr, int nv, Py_ssize_t kn, const double* u, Py_ssize_t ldu, const double* v, int add,
                              double* out) noexcept

cdef enum:
    MAX_WIDTH = 32              # tiles of a unit, at most (64-byte vectors of floats)
    MAX_PITCH = 8 * 32 + 8      # cells of a row of patches


cdef struct Plan:
    int m                       # outputs of a tile per axis: 4 or 2
    int points                  # (m + 2)^2
    bint flip                   # conv_input: filters turned by half a turn
    int64_t n, groups
    int64_t channels, rows      # of one group: summed over, produced
    int64_t in_y, in_x, out_y, out_x, pad_y, pad_x
    int64_t tiles_y, tiles_x, tiles, units
    int64_t width               # tiles of a unit
    int64_t w_row, w_channel    # steps of the weight


cdef struct Run:
    int64_t source, place       # first cell: in the image (of channel 0), in the row of patches
    int64_t rows, columns       # cells that exist


cdef struct Unit:
    int tiles, vectors, runs
    Run run[MAX_WIDTH]
    int64_t cell[MAX_WIDTH]     # a tile's place in the row of patches
    int64_t dest[MAX_WIDTH]     # and in the output (of row 0)
    int rows[MAX_WIDTH]         # outputs that exist
    int columns[MAX_WIDTH]


cdef inline int64_t patch_pitch(const Plan* p) noexcept nogil:
    return p.width * (p.m + 4) + 8


cdef inline void cut(const Plan* p, int64_t index, Unit* s) noexcept nogil:
    """The runs and tiles of unit `index`."""
    cdef int64_t tile = index * p.width, per_sample = p.tiles_y * p.tiles_x, x, y, sample, first, place = 0
    cdef int64_t low_y, low_x, count, i
    cdef Run* r
    s.tiles = <int>min(p.width, p.tiles - tile)
    s.vectors = <int>((s.tiles * LNN_WINO_VECTORS + p.width - 1) // p.width)
    s.runs = 0
    first = 0
    while first < s.tiles:
        sample = tile // per_sample
        y = tile % per_sample // p.tiles_x
        x = tile % p.tiles_x
        count = min(p.tiles_x - x, s.tiles - first)
        r = &s.run[s.runs]
        low_y = max(y * p.m - p.pad_y, 0)
        low_x = max(x * p.m - p.pad_x, 0)
        r.rows = max(min(y * p.m - p.pad_y + p.m + 2, p.in_y) - low_y, 0)
        r.columns = max(min((x + count) * p.m - p.pad_x + 2, p.in_x) - low_x, 0)
        r.source = (sample * p.groups * p.channels * p.in_y + low_y) * p.in_x + low_x
        r.place = place + (low_y - y * p.m + p.pad_y) * patch_pitch(p) + low_x - x * p.m + p.pad_x
        if r.rows == 0 or r.columns == 0:       # wholly in the padding
            r.rows = r.columns = r.source = r.place = 0
        for i in range(count):
            s.cell[first + i] = place + i * p.m
            s.dest[first + i] = (sample * p.groups * p.rows * p.out_y + y * p.m) * p.out_x + (x + i) * p.m
            s.rows[first + i] = <int>min(<int64_t>p.m, p.out_y - y * p.m)
            s.columns[first + i] = <int>min(<int64_t>p.m, p.out_x - (x + i) * p.m)
        place += count * p.m + 4
        first += count
        tile += count
        s.runs += 1
    for i in range(s.tiles, p.width):           # lanes without a tile: computed on what is there, never stored
        s.cell[i] = 0
        s.rows[i] = s.columns[i] = 0


cdef inline void copy_row(const real* source, int64_t count, real* to) noexcept nogil:
    """A short memcpy without the call."""
    cdef int64_t i
    for i in range(count):
        to[i] = source[i]


cdef inline void image(int m, const real** p, int64_t pitch, real* out, int64_t step) noexcept nogil:
    """out[xi*step + lane] = (B^T d B)[xi] of the tile at p[lane]."""
    if real is float:
        lnn_wino_image_f32(m, p, pitch, out, step)
    else:
        lnn_wino_image_f64(m, p, pitch, out, step)


cdef inline void weight(int m, bint flip, int64_t filters, const real* w, int64_t next, int64_t ahead,
                        real* out, int64_t step) noexcept nogil:
    """out[xi*step + k] = (G g G^T)[xi] of the filter at w + k*next; whole vectors are written."""
    if real is float:
        lnn_wino_weight_f32(m, flip, filters, w, next, ahead, out, step)
    else:
        lnn_wino_weight_f64(m, flip, filters, w, next, ahead, out, step)


cdef inline void output(int m, const real* t, int64_t step, real bias, real** p, const int64_t* pitch,
                        real* zero) noexcept nogil:
    """The m x m outputs A^T t A + bias of every lane, to p[lane]; `zero` stays zero if all are finite."""
    if real is float:
        lnn_wino_output_f32(m, t, step, bias, p, pitch, zero)
    else:
        lnn_wino_output_f64(m, t, step, bias, p, pitch, zero)


cdef inline void cotangent(int m, const real** p, int64_t pitch, real* out, int64_t step) noexcept nogil:
    """out[xi*step + lane] = (A g A^T)[xi] of the m x m cells at p[lane]."""
    if real is float:
        lnn_wino_cotangent_f32(m, p, pitch, out, step)
    else:
        lnn_wino_cotangent_f64(m, p, pitch, out, step)


cdef inline void filters(int m, const real* u, int64_t step, bint add, real** p, real* zero) noexcept nogil:
    """The 3 x 3 cells (+)= G^T u G of every lane, at p[lane]; `zero` stays zero if all are finite."""
    if real is float:
        lnn_wino_filter_f32(m, u, step, add, p, zero)
    else:
        lnn_wino_filter_f64(m, u, step, add, p, zero)


cdef inline void product(int rows, int vectors, int64_t terms, const real* u, int64_t ldu, const real* v, bint add,
                         real* out) noexcept nogil:
    """out[r, lane] (+)= sum_k u[r, k] v[k, lane]"""
    if real is float:
        lnn_wino_product_f32(rows, vectors, terms, u, ldu, v, add, out)
    else:
        lnn_wino_product_f64(rows, vectors, terms, u, ldu, v, add, out)
