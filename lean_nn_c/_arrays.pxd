"""What kernels that take whole arrays ask of them before they touch memory; the backend never passes anything else."""

cimport numpy as cnp

cdef extern from "numpy/arrayobject.h":
    bint PyArray_IS_C_CONTIGUOUS(cnp.ndarray)
    bint PyArray_ISWRITEABLE(cnp.ndarray)


cdef inline int single(cnp.ndarray x) except -1:
    """1 for float32, 0 for float64."""
    cdef int kind = cnp.PyArray_TYPE(x)
    if kind != cnp.NPY_FLOAT32 and kind != cnp.NPY_FLOAT64:
        raise TypeError(f"kernel: float32 and float64 are supported; got {x.dtype}")
    return kind == cnp.NPY_FLOAT32


cdef inline int need(cnp.ndarray x, int kind, Py_ssize_t size, bint writes) except -1:
    """Refuse what would read or write out of bounds."""
    if not PyArray_IS_C_CONTIGUOUS(x) or (writes and not PyArray_ISWRITEABLE(x)):
        raise ValueError("kernel: arrays must be C-contiguous and outputs writeable")
    if cnp.PyArray_TYPE(x) != kind:
        raise TypeError(f"kernel: {x.dtype} does not go with the other arrays")
    if cnp.PyArray_SIZE(x) != size:
        raise ValueError(f"kernel: {size} elements are needed; got {cnp.PyArray_SIZE(x)}")
    return 0
