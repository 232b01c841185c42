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
    bint PyArray_ISWRITEABLE(cnp.ndarray)
    bint PyArray_ISALIGNED(cnp.ndarray)

cdef enum:
    MOST = 256      # arrays of a step that is called from Python


cdef class Step:
    """One kernel with its plan. Calling it with arrays (inputs, then outputs) runs it."""

    def __dealloc__(self):
        free(self.plan)

    def __repr__(self):
        return f"<step {self.name} on {len(self.sizes)} arrays>"

    def __call__(self, *arrays):
        cdef char* at[MOST]
        cdef cnp.ndarray array
        cdef Py_ssize_t i, count = len(self.sizes)
        cdef int status
        if len(arrays) != count or count > MOST:
            raise ValueError(f"lean_nn_c: {self.name} takes {count} arrays; got {len(arrays)}; pass inputs, then outputs")
        for i in range(count):
            array = arrays[i]
            if not PyArray_IS_C_CONTIGUOUS(array) or not PyArray_ISALIGNED(array):
                raise ValueError(f"lean_nn_c: {self.name} takes C-contiguous arrays; use numpy.ascontiguousarray")
            if cnp.PyArray_NBYTES(array) != <Py_ssize_t>self.sizes[i]:
                raise ValueError(f"lean_nn_c: array {i} of {self.name} has {self.sizes[i]} bytes; got {array.nbytes}; "
                                 f"kernels take what `abstract` has checked")
            if i >= count - self.outputs and not PyArray_ISWRITEABLE(array):
                raise ValueError(f"lean_nn_c: array {i} of {self.name} is written; got a read-only one; copy it first")
            at[i] = <char*>cnp.PyArray_DATA(array)
        with nogil:
            status = self.kernel(self.plan, at)
        check_status(self.name, status)


cdef Step make_step(str name, Kernel kernel, const void* plan, size_t size, tuple sizes, int outputs=1, object keep=None):
    """A step on arrays of `sizes` bytes, the last `outputs` of which it writes, with its own copy of the plan."""
    cdef Step step = Step.__new__(Step)
    step.name, step.kernel, step.sizes, step.outputs, step.keep = name, kernel, sizes, outputs, keep
    step.plan = malloc(max(size, <size_t>1))
    if step.plan == NULL:
        raise MemoryError()
    memcpy(step.plan, plan, size)
    return step


cdef int check_status(str name, int status) except -1:
    """Raise what a kernel's status stands for."""
    if status == STEP_DONE:
        return 0
    if status == STEP_NO_MEMORY:
        raise MemoryError(f"{name}: no memory for temporary values; use smaller batches or images")
    if status == STEP_TOO_LARGE:
        raise MemoryError(f"{name}: the padded planes would be far larger than image and output; use algorithm='auto'")
    if status == STEP_BAD_INDEX:
        raise IndexError(f"{name}: an index lies outside the array; check the indices that are passed to the program")
    if status == STEP_BAD_BETA:
        raise ValueError(f"{name}: beta must be a finite number other than 0; check the value that is passed to the program")
    raise RuntimeError(f"{name}: the kernel failed with status {status}")
