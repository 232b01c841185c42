# What the engine asks of NumPy arrays, without Python: their types, what a plan depends on, outputs, numbers as arrays.

cimport numpy as cnp

from lean_nn_c.memory cimport empty_array

cdef extern from "numpy/arrayobject.h":
    bint PyArray_ISNOTSWAPPED(cnp.ndarray)

cdef enum:
    MAX_KEY = 512       # numbers that say the shapes and types of an application's arrays


cdef inline int kind_of(object array) noexcept:
    """NumPy's number of the type, up to float64's; -1 for any other, and where this is no plain array."""
    if type(array) is not cnp.ndarray or cnp.PyArray_TYPE(<cnp.ndarray>array) > cnp.NPY_DOUBLE:
        return -1
    return cnp.PyArray_TYPE(<cnp.ndarray>array) if PyArray_ISNOTSWAPPED(<cnp.ndarray>array) else -1


cdef inline object key_of(list arrays, dict params, int variant):
    """What a plan depends on; None where an argument is not a plain array of numbers: its type, its sizes, the parameters."""
    cdef cnp.npy_intp numbers[MAX_KEY]
    cdef cnp.ndarray array
    cdef Py_ssize_t n = 0
    cdef int axis, rank, kind
    for data in arrays:
        kind = kind_of(data)
        if kind < 0:
            return None
        array = <cnp.ndarray>data
        rank = cnp.PyArray_NDIM(array)
        if n + rank + 2 > MAX_KEY:
            return None
        numbers[n], numbers[n + 1] = kind, rank
        n += 2
        for axis in range(rank):
            numbers[n] = cnp.PyArray_DIM(array, axis)
            n += 1
    key = [(<char*>numbers)[: n * sizeof(cnp.npy_intp)], variant]
    for name, value in params.items():
        key.append(name)
        key.append(value)
        if type(value) is float and value == 0.0:  # two zeros are equal, and not the same
            key.append(str(value))
    return tuple(key)


cdef inline object array_like(object one, object other):
    """An array for what a plain loop makes of two (one float type; equal shapes or a number), else None."""
    cdef cnp.ndarray first, second
    cdef int axis, kind = kind_of(one)
    if (kind != cnp.NPY_FLOAT and kind != cnp.NPY_DOUBLE) or kind_of(other) != kind:
        return None
    first, second = <cnp.ndarray>one, <cnp.ndarray>other
    if cnp.PyArray_NDIM(second) != 0:
        if cnp.PyArray_NDIM(first) == 0:
            first = second
        elif cnp.PyArray_NDIM(first) != cnp.PyArray_NDIM(second):
            return None
        else:
            for axis in range(cnp.PyArray_NDIM(first)):
                if cnp.PyArray_DIM(first, axis) != cnp.PyArray_DIM(second, axis):
                    return None
    return empty_array(cnp.PyArray_NDIM(first), cnp.PyArray_DIMS(first), kind)


cdef inline object number_array(double value, int kind):
    """An array without axes, of a float type; beyond its range is infinity, as IEEE says."""
    cdef cnp.ndarray number = cnp.PyArray_EMPTY(0, NULL, kind, 0)
    if kind == cnp.NPY_DOUBLE:
        (<double*>cnp.PyArray_DATA(number))[0] = value
    else:
        (<float*>cnp.PyArray_DATA(number))[0] = <float>value
    return number
