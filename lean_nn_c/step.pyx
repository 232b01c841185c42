"""A kernel with everything but its data: geometry read and checked once, then run any number of times without Python.

`cpu` kernels take arrays and work out the geometry of each call. A compiled program knows all shapes beforehand; it asks the
record's ``step`` slot for a `Step`: a C function and its own copy of a plan. Running it takes pointers, no GIL, and
allocates no Python object.
"""

cimport numpy as cnp
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    bint PyArray_IS_C_CONTIGUOUS(cnp.ndarray)

cdef enum:
    MOST = 256      # operands of a step that is called from Python


cdef class Step:
    """One kernel with its plan; calling it with arrays (inputs, then outputs) runs it, for tests."""

    def __dealloc__(self):
        free(self.plan)

    def __repr__(self):
        return f"<step {self.name} on {self.operands} arrays>"

    def __call__(self, *arrays):
        cdef char* at[MOST]
        cdef cnp.ndarray array
        cdef int i, status
        if len(arrays) != self.operands or self.operands > MOST:
            raise ValueError(f"{self.name}: the step takes {self.operands} arrays; got {len(arrays)}; pass inputs, then outputs")
        for i in range(self.operands):
            array = arrays[i]
            if not PyArray_IS_C_CONTIGUOUS(array):
                raise ValueError(f"{self.name}: arrays must be C-contiguous; use numpy.ascontiguousarray")
            at[i] = <char*>cnp.PyArray_DATA(array)
        with nogil:
            status = self.kernel(self.plan, at)
        check_status(self.name, status)


cdef Step make_step(str name, Kernel kernel, const void* plan, size_t size, int operands):
    """A step with its own copy of the `size` bytes at `plan`."""
    cdef Step step = Step.__new__(Step)
    step.name, step.kernel, step.operands = name, kernel, operands
    step.plan = malloc(max(size, <size_t>1))
    if step.plan == NULL:
        raise MemoryError()
    memcpy(step.plan, plan, size)
    return step


cdef int check_status(str name, int status) except -1:
    """Raise what a kernel's status stands for."""
    if status == DONE:
        return 0
    if status == NO_MEMORY:
        raise MemoryError(f"{name}: no memory for temporary values; use smaller batches or images")
    if status == BAD_INDEX:
        raise IndexError(f"{name}: an index lies outside the array; check the indices that are passed to the program")
    if status == BAD_BETA:
        raise ValueError(f"{name}: beta must be a finite number other than 0; check the value that is passed to the program")
    raise RuntimeError(f"{name}: the kernel failed with status {status}")
