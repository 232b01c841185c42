"""Runs a planned program: a list of kernels over a table of pointers.

Every value of the program has a number, and its data a place in the table: in the arena of the frame, in a constant, in an
array of the caller's. A call fills in the caller's places and goes through the list, without the GIL and without making
a Python object. A step that exists in Python only is called with arrays, which the frame has made beforehand, under the
GIL; the others never see it.
"""

cimport numpy as cnp
from libc.stdlib cimport calloc, free

from lean_nn_c.step cimport STEP_DONE, Kernel, Step, check_status

from math import prod

import numpy as np

cnp.import_array()

cdef enum:
    ARENA = 0
    INPUT = 1
    OUTPUT = 2
    CONSTANT = 3


KINDS = {"arena": ARENA, "input": INPUT, "output": OUTPUT, "constant": CONSTANT}


cdef struct Call:
    Kernel kernel   # NULL: a Python step
    const void* plan
    int first       # its operands: a stretch of the executor's list
    int count


cdef class Frame:
    """The memory of one call: the arena, and the arrays that Python steps look at."""
    cdef readonly object arena
    cdef readonly list arrays
    cdef char** table
    cdef char** operands    # of the step that runs

    def __dealloc__(self):
        free(self.table)
        free(self.operands)


cdef class Executor:
    """Steps over numbered values.

    Parameters
    ----------
    steps : Step objects, or callables ``f(arrays)`` on the list of all arrays
    operands : for every step, the values it reads, then those it writes
    shapes, dtypes : of every value
    places : for every value, (kind, index, offset), the kind a number of `KINDS`
    constants : arrays by index
    arena : bytes
    """
    cdef readonly list steps
    cdef list shapes, dtypes, constants
    cdef Call* calls
    cdef int* numbers
    cdef int* kinds
    cdef int* indices
    cdef Py_ssize_t* offsets
    cdef char* seen         # values that a Python step looks at
    cdef int n_calls, n_values, widest
    cdef readonly Py_ssize_t arena

    def __cinit__(self, list steps, list operands, list shapes, list dtypes, list places, list constants, Py_ssize_t arena):
        cdef int i, k, total = sum([len(of) for of in operands])
        self.steps, self.shapes, self.dtypes, self.constants, self.arena = steps, shapes, dtypes, constants, arena
        self.n_calls, self.n_values = len(steps), len(shapes)
        self.calls = <Call*>calloc(max(self.n_calls, 1), sizeof(Call))
        self.numbers = <int*>calloc(max(total, 1), sizeof(int))
        self.kinds = <int*>calloc(max(self.n_values, 1), sizeof(int))
        self.indices = <int*>calloc(max(self.n_values, 1), sizeof(int))
        self.offsets = <Py_ssize_t*>calloc(max(self.n_values, 1), sizeof(Py_ssize_t))
        self.seen = <char*>calloc(max(self.n_values, 1), 1)
        if (self.calls == NULL or self.numbers == NULL or self.kinds == NULL or self.indices == NULL
                or self.offsets == NULL or self.seen == NULL):
            raise MemoryError()
        for i in range(self.n_values):
            self.kinds[i], self.indices[i], self.offsets[i] = places[i]
        k = 0
        for i in range(self.n_calls):
            k = self.add_call(i, k, steps[i], operands[i])

    cdef int add_call(self, int i, int first, step, of) except -1:
        cdef Call* call = &self.calls[i]
        cdef Step compiled
        call.first, call.count = first, len(of)
        self.widest = max(self.widest, call.count)
        for value in of:
            if not 0 <= value < self.n_values:
                raise ValueError(f"executor: values are numbered 0 to {self.n_values - 1}; got {value}")
        if isinstance(step, Step):
            compiled = <Step>step
            if compiled.sizes != tuple([self.nbytes(value) for value in of]):
                raise ValueError(f"{compiled.name}: the step takes arrays of {compiled.sizes} bytes; got values {of}")
            call.kernel, call.plan = compiled.kernel, compiled.plan
        for value in of:
            self.numbers[first] = value
            self.seen[<int>value] |= call.kernel == NULL
            first += 1
        return first

    cdef object nbytes(self, value):
        return prod(self.shapes[value]) * self.dtypes[value].itemsize

    def __dealloc__(self):
        free(self.calls)
        free(self.numbers)
        free(self.kinds)
        free(self.indices)
        free(self.offsets)
        free(self.seen)

    def frame(self, arena):
        """A frame over `arena`, an array of bytes."""
        cdef Frame frame = Frame.__new__(Frame)
        cdef int i
        if arena.nbytes < self.arena or arena.dtype != np.uint8:
            raise ValueError(f"executor: the arena takes {self.arena} bytes; got {arena.nbytes}")
        frame.arena, frame.arrays = arena, [None] * self.n_values
        frame.table = <char**>calloc(max(self.n_values, 1), sizeof(char*))
        frame.operands = <char**>calloc(max(self.widest, 1), sizeof(char*))
        if frame.table == NULL or frame.operands == NULL:
            raise MemoryError()
        for i in range(self.n_values):
            if self.kinds[i] == ARENA:
                self.fill(frame, i, arena)
            elif self.kinds[i] == CONSTANT:
                self.fill(frame, i, self.constants[self.indices[i]])
        return frame

    cdef int fill(self, Frame frame, int value, cnp.ndarray base) except -1:
        """Value `value` of the frame lies in `base`."""
        frame.table[value] = <char*>cnp.PyArray_DATA(base) + self.offsets[value]
        if self.seen[value]:
            frame.arrays[value] = np.ndarray(self.shapes[value], self.dtypes[value], base, self.offsets[value])
        return 0

    def run(self, Frame frame not None, list inputs not None, list outputs not None, watch=None):
        """Go through the steps; `watch(i)` is called before each, and once more after the last."""
        cdef int i
        for i in range(self.n_values):
            if self.kinds[i] == INPUT:
                self.fill(frame, i, inputs[self.indices[i]])
            elif self.kinds[i] == OUTPUT:
                self.fill(frame, i, outputs[self.indices[i]])
        try:
            if watch is None:
                with nogil:
                    self.go(frame, 0, self.n_calls)
            else:
                for i in range(self.n_calls):
                    watch(i)
                    self.go(frame, i, i + 1)
                watch(self.n_calls)
        finally:
            for i in range(self.n_values):
                if self.seen[i] and (self.kinds[i] == INPUT or self.kinds[i] == OUTPUT):
                    frame.arrays[i] = None      # the caller's arrays are not ours to keep

    cdef int go(self, Frame frame, int first, int stop) except -1 nogil:
        cdef int i, k, status
        cdef Call* call
        for i in range(first, stop):
            call = &self.calls[i]
            if call.kernel == NULL:
                with gil:
                    self.steps[i](frame.arrays)
                continue
            for k in range(call.count):
                frame.operands[k] = frame.table[self.numbers[call.first + k]]
            status = call.kernel(call.plan, frame.operands)
            if status != STEP_DONE:
                with gil:
                    check_status((<Step>self.steps[i]).name, status)
        return 0
