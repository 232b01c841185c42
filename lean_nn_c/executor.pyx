"""Runs a planned program: a list of kernels over a table of pointers.

Every value of the program has a number, and its data a place: in the arena of the frame, in a constant, in an array of the
caller's. A frame holds, for every kernel one after the other, the addresses of its operands; a call fills in the
caller's and goes through the list, without the GIL and without making a Python object.

A *frame* is the memory of one call: arena, scratch of the kernels, addresses. Calls that overlap in time take a frame each;
at most `FRAMES` exist at a time, and a call that finds none waits. A forked child starts with none.
"""

cimport numpy as cnp
from libc.stdlib cimport calloc, free, qsort

from lean_nn_c.memory cimport empty_array
from lean_nn_c.step cimport STEP_DONE, Kernel, Step, fail, open_bench, probe
from lean_nn_c.threads cimport narrow_threads, threads_now

import os
import threading
from math import prod

import numpy as np

cnp.import_array()

cdef enum:
    ARENA = 0
    INPUT = 1
    OUTPUT = 2
    CONSTANT = 3

KINDS = {"arena": ARENA, "input": INPUT, "output": OUTPUT, "constant": CONSTANT}
FRAMES = 8

cdef int generation = 0     # of processes: a fork begins another


def _forked():
    global generation
    generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


cdef struct Call:
    Kernel kernel
    const void* plan
    int first       # its operands: a stretch of the frame's addresses
    int count


# An operand that lies in an array of the caller's.
cdef struct Slot:
    int at          # in the frame's addresses
    int index       # of the array
    bint output
    Py_ssize_t offset


cdef extern from "numpy/arrayobject.h":
    bint PyArray_IS_C_CONTIGUOUS(cnp.ndarray)
    bint PyArray_ISWRITEABLE(cnp.ndarray)
    bint PyArray_ISALIGNED(cnp.ndarray)
    bint PyArray_ISNOTSWAPPED(cnp.ndarray)


cdef class Signature:
    """Arrays as they may come without being looked at twice: plain, contiguous, of known shapes and types.

    Parameters
    ----------
    inputs, outputs : (shape, dtype) of each
    """
    cdef list inputs, outputs

    def __init__(self, list inputs, list outputs):
        self.inputs = [(tuple(shape), np.dtype(dtype).num) for shape, dtype in inputs]
        self.outputs = [(tuple(shape), np.dtype(dtype).num) for shape, dtype in outputs]

    def inputs_of(self, tuple arguments not None):
        """The arguments as a list; None where one of them is not quite what is expected."""
        if len(arguments) != len(self.inputs):
            return None
        for argument, expected in zip(arguments, self.inputs):
            if not fits(argument, expected):
                return None
        return list(arguments)

    def outputs_of(self, out, list inputs not None):
        """New arrays, or those of `out` (one, or a flat tuple) if they fit and overlap nothing; None where they do not."""
        if out is None:
            return [new_array(expected) for expected in self.outputs]
        arrays = list(out) if type(out) is tuple else [out]
        if len(arrays) != len(self.outputs):
            return None
        for i in range(len(arrays)):
            if not fits(arrays[i], <tuple>self.outputs[i]) or not PyArray_ISWRITEABLE(<cnp.ndarray>arrays[i]):
                return None
            for other in inputs:
                if overlap(arrays[i], other):
                    return None
            for k in range(i):
                if overlap(arrays[i], arrays[k]):
                    return None
        return arrays


cdef bint fits(argument, tuple expected) except -1:
    cdef cnp.ndarray array
    cdef int axis
    cdef tuple shape = <tuple>expected[0]
    if type(argument) is not cnp.ndarray:
        return False
    array = <cnp.ndarray>argument
    if (cnp.PyArray_TYPE(array) != <int>expected[1] or cnp.PyArray_NDIM(array) != len(shape)
            or not PyArray_IS_C_CONTIGUOUS(array) or not PyArray_ISALIGNED(array) or not PyArray_ISNOTSWAPPED(array)):
        return False
    for axis in range(len(shape)):
        if cnp.PyArray_DIM(array, axis) != <Py_ssize_t>shape[axis]:
            return False
    return True


cdef bint overlap(cnp.ndarray a, cnp.ndarray b) noexcept:
    """Of two contiguous arrays."""
    cdef char* x = <char*>cnp.PyArray_DATA(a)
    cdef char* y = <char*>cnp.PyArray_DATA(b)
    return x < y + cnp.PyArray_NBYTES(b) and y < x + cnp.PyArray_NBYTES(a)


cdef struct Span:       # of an array, from its first byte to the first behind it
    char* start
    char* end
    int number
    bint written


cdef int by_start(const void* a, const void* b) noexcept nogil:
    return ((<const Span*>a).start > (<const Span*>b).start) - ((<const Span*>a).start < (<const Span*>b).start)


def overlapping(list arrays not None, list written not None):
    """Two numbers of arrays that share memory, of which at least one is `written`, the one that begins first before the other;
    None if there are none. A training step asks for hundreds of arrays in every call.
    """
    cdef int i
    cdef Span* spans = <Span*>calloc(len(arrays) + 1, sizeof(Span))
    cdef Span* far = NULL           # which of those before reaches farthest,
    cdef Span* far_written = NULL   # and of those that are written
    if spans == NULL:
        raise MemoryError()
    try:
        for i in range(len(arrays)):
            array = <cnp.ndarray?>arrays[i]
            spans[i].number, spans[i].start = i, <char*>cnp.PyArray_DATA(<cnp.ndarray>array)
            spans[i].end = spans[i].start + cnp.PyArray_NBYTES(<cnp.ndarray>array)
        for i in written:
            spans[i].written = True
        qsort(spans, len(arrays), sizeof(Span), by_start)
        for i in range(len(arrays)):
            if spans[i].start == spans[i].end:
                continue
            if spans[i].written and far != NULL and far.end > spans[i].start:
                return far.number, spans[i].number
            if far_written != NULL and far_written.end > spans[i].start:
                return far_written.number, spans[i].number
            if far == NULL or spans[i].end > far.end:
                far = &spans[i]
            if spans[i].written and (far_written == NULL or spans[i].end > far_written.end):
                far_written = &spans[i]
    finally:
        free(spans)
    return None


cdef object new_array(tuple expected):
    cdef cnp.npy_intp dims[64]
    cdef tuple shape = <tuple>expected[0]
    cdef int axis, rank = len(shape)
    for axis in range(rank):
        dims[axis] = shape[axis]
    return empty_array(rank, dims, expected[1])


cdef class Frame:
    """The memory of one call."""
    cdef readonly object arena
    cdef object bench
    cdef char** table
    cdef char* scratch
    cdef Py_ssize_t room

    def __dealloc__(self):
        free(self.table)


cdef class Executor:
    """Steps over numbered values.

    Parameters
    ----------
    steps : Step objects
    operands : for every step, the values it reads, then those it writes
    shapes, dtypes : of every value
    places : for every value, (kind, index, offset), the kind a number of `KINDS`
    constants : arrays by index
    arena : bytes
    """
    cdef readonly list steps
    cdef list shapes, dtypes, places, constants, idle
    cdef list operands
    cdef object lock
    cdef Call* calls
    cdef Slot* slots
    cdef readonly int made          # frames that exist
    cdef int n_calls, n_slots, addresses, waiting, owner
    cdef int room_threads           # the number of threads for which `room` is known
    cdef Py_ssize_t room
    cdef readonly Py_ssize_t arena

    def __cinit__(self, list steps, list operands, list shapes, list dtypes, list places, list constants, Py_ssize_t arena):
        cdef int i, total = 0
        self.steps, self.operands, self.shapes, self.dtypes = steps, operands, shapes, dtypes
        self.places, self.constants, self.arena = places, constants, arena
        self.n_calls = len(steps)
        for of in operands:
            total += len(of)
        self.addresses = total
        self.calls = <Call*>calloc(max(self.n_calls, 1), sizeof(Call))
        self.slots = <Slot*>calloc(max(total, 1), sizeof(Slot))
        if self.calls == NULL or self.slots == NULL:
            raise MemoryError()
        total = 0
        for i in range(self.n_calls):
            total = self.add_call(i, total, steps[i], operands[i])
        self.start()

    cdef int add_call(self, int i, int first, Step step, of) except -1:
        cdef Call* call = &self.calls[i]
        cdef Slot* slot
        call.first, call.count = first, len(of)
        call.kernel, call.plan = step.kernel, step.plan
        for value in of:
            if not 0 <= value < len(self.shapes):
                raise ValueError(f"executor: values are numbered 0 to {len(self.shapes) - 1}; got {value}")
            kind, index, offset = self.places[value]
            if kind == INPUT or kind == OUTPUT:
                slot = &self.slots[self.n_slots]
                slot.at, slot.index, slot.output, slot.offset = first, index, kind == OUTPUT, offset
                self.n_slots += 1
            first += 1
        if step.sizes != tuple([self.nbytes(value) for value in of]):
            raise ValueError(f"{step.name}: the step takes arrays of {step.sizes} bytes; got values {of}")
        return first

    cdef object nbytes(self, value):
        return prod(self.shapes[value]) * self.dtypes[value].itemsize

    def __dealloc__(self):
        free(self.calls)
        free(self.slots)

    def scratch(self, int threads):
        """Bytes of scratch on so many threads: what the step takes that needs most."""
        cdef Py_ssize_t most = 0
        if threads != self.room_threads:
            for step in self.steps:
                most = max(most, <Py_ssize_t>probe(<Step>step, threads))
            self.room, self.room_threads = most, threads
        return self.room

    # --- frames ---

    cdef int start(self) except -1:
        self.owner, self.idle, self.made, self.waiting, self.lock = generation, [], 0, 0, threading.Condition()
        return 0

    def release(self):
        """Give the memory of idle frames back."""
        self.made -= len(self.idle)
        self.idle = []

    cdef Frame new_frame(self):
        cdef Frame frame = Frame.__new__(Frame)
        cdef int i, k
        cdef Call* call
        cdef cnp.npy_intp size = self.arena
        frame.arena = empty_array(1, &size, cnp.NPY_UINT8)
        frame.table = <char**>calloc(max(self.addresses, 1), sizeof(char*))
        if frame.table == NULL:
            raise MemoryError()
        for i in range(self.n_calls):
            call = &self.calls[i]
            of = self.operands[i]
            for k in range(call.count):
                kind, index, offset = self.places[of[k]]
                if kind == ARENA or kind == CONSTANT:
                    base = frame.arena if kind == ARENA else self.constants[index]
                    frame.table[call.first + k] = <char*>cnp.PyArray_DATA(<cnp.ndarray>base) + <Py_ssize_t>offset
        return frame

    cdef Frame take(self):
        """A frame that nobody uses. Only the GIL guards the list: nothing below gives it up between asking and taking."""
        if self.owner != generation:
            self.start()
        while True:
            if self.idle:
                return self.idle.pop()
            if self.made < FRAMES:
                self.made += 1
                try:
                    return self.new_frame()
                except BaseException:
                    self.made -= 1
                    raise
            with self.lock:
                self.waiting += 1       # before asking again: whoever gives a frame back now either is seen or sees us
                if not self.idle:
                    self.lock.wait()
                self.waiting -= 1

    cdef int give(self, Frame frame) except -1:
        self.idle.append(frame)
        if self.waiting:
            with self.lock:
                self.lock.notify()
        return 0

    # --- running ---

    def run(self, list inputs not None, list outputs not None, watch=None):
        """Go through the steps; `watch(i)` is called before each, and once more after the last."""
        cdef Frame frame = self.take()
        cdef int threads = threads_now(), own = narrow_threads(threads)     # what another thread says now comes later
        try:
            self.fill(frame, inputs, outputs, threads)
            open_bench(frame.scratch, frame.room)
            self.go(frame, watch)
        finally:
            open_bench(NULL, 0)
            narrow_threads(own)
            self.give(frame)

    cdef int fill(self, Frame frame, list inputs, list outputs, int threads) except -1:
        """The caller's addresses, and scratch for so many threads."""
        cdef int i
        cdef Slot* slot
        cdef Py_ssize_t room = self.scratch(threads)
        cdef cnp.npy_intp size
        if frame.room < room:
            frame.room = 0
            size = room
            frame.bench = empty_array(1, &size, cnp.NPY_UINT8)
            frame.scratch = <char*>cnp.PyArray_DATA(<cnp.ndarray>frame.bench)
            frame.room = room
        for i in range(self.n_slots):
            slot = &self.slots[i]
            array = outputs[slot.index] if slot.output else inputs[slot.index]
            frame.table[slot.at] = <char*>cnp.PyArray_DATA(<cnp.ndarray>array) + slot.offset
        return 0

    cdef int go(self, Frame frame, watch) except -1:
        cdef int failed, status = STEP_DONE
        if watch is None:
            with nogil:
                failed = self.some(frame.table, 0, self.n_calls, &status)
        else:
            failed = 0
            while failed < self.n_calls and status == STEP_DONE:
                watch(failed)
                failed = self.some(frame.table, failed, failed + 1, &status)
            watch(self.n_calls)
        if status != STEP_DONE:
            self.refuse(frame, failed, status)
        return 0

    cdef int some(self, char** table, int first, int stop, int* status) noexcept nogil:
        """Calls first..stop, or until one fails; returns the number of the call that did not run well, or `stop`."""
        cdef int i
        for i in range(first, stop):
            status[0] = self.calls[i].kernel(self.calls[i].plan, table + self.calls[i].first)
            if status[0] != STEP_DONE:
                return i
        return stop

    cdef int refuse(self, Frame frame, int i, int status) except -1:
        """Raise for call `i`, with the arrays it looked at."""
        cdef char* at
        arrays = []
        for k, value in enumerate(self.operands[i]):
            at = frame.table[self.calls[i].first + <int>k]
            arrays.append(np.frombuffer(at[:<Py_ssize_t>self.nbytes(value)], self.dtypes[value]).reshape(self.shapes[value]))
        return fail(self.steps[i], status, tuple(arrays))
