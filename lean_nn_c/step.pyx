"""A kernel with everything but its data: geometry read and checked once, then run any number of times without Python.

Every kernel but the elementwise ones is called this way, eagerly and by compiled programs: the record's ``step`` slot gives
a `Step`, a C function and its own copy of a plan. Running it takes pointers, no GIL, and makes no Python object.

A kernel that needs scratch says how much for a number of threads (`Room`); it finds it behind its arrays. Whoever calls it
holds the number of threads still meanwhile. A kernel returns a status; `blame` looks at the arrays again for
the words of the error.
"""

cimport numpy as cnp
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from lean_nn_c.threads cimport hold_threads, let_threads_go

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
        cdef char* at[MOST + 1]
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
            if self.room == NULL:
                status = self.kernel(self.plan, at)
            else:
                status = with_scratch(self.kernel, self.room, self.plan, at, count)
        if status != STEP_DONE:
            fail(self, status, arrays)

    def scratch(self, int threads):
        """Bytes of scratch that the kernel takes on so many threads."""
        return self.room(self.plan, threads) if self.room != NULL else 0


cdef int with_scratch(Kernel kernel, Room room, const void* plan, char** at, Py_ssize_t count) noexcept nogil:
    cdef bint held
    cdef int threads = hold_threads(&held)
    cdef Py_ssize_t size = room(plan, threads)
    cdef int status = STEP_NO_MEMORY
    at[count] = NULL
    if size:
        at[count] = <char*>malloc(size)
    if size == 0 or at[count] != NULL:
        status = kernel(plan, at)
    free(at[count])
    let_threads_go(held)
    return status


cdef Step make_step(str name, Kernel kernel, const void* plan, size_t size, tuple sizes, int outputs=1, object keep=None,
                    Room room=NULL, object blame=None):
    """A step on arrays of `sizes` bytes, the last `outputs` of which it writes, with its own copy of the plan."""
    cdef Step step = Step.__new__(Step)
    step.name, step.kernel, step.sizes, step.outputs, step.keep = name, kernel, sizes, outputs, keep
    step.room, step.blame = room, blame
    step.plan = malloc(max(size, <size_t>1))
    if step.plan == NULL:
        raise MemoryError()
    memcpy(step.plan, plan, size)
    return step


cdef int fail(Step step, int status, tuple arrays) except -1:
    """Raise what a kernel's status stands for; `arrays` are those it was given."""
    if status == STEP_NO_MEMORY:
        raise MemoryError(f"{step.name}: no memory for temporary values; use smaller batches or images")
    if status == STEP_TOO_LARGE:
        raise MemoryError(f"{step.name}: the padded planes would be far larger than image and output; use algorithm='auto'")
    if step.blame is not None:
        raise step.blame(*arrays)
    raise RuntimeError(f"{step.name}: the kernel failed with status {status}")
