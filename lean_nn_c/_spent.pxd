# Whether an array may be written over: nobody but its one owner can look at it again.
#
# A backward pass makes arrays as large as the forward pass did, each read once. A gate (relu's, say) that writes its result over
# the cotangent it is given touches two arrays where it would touch three, and the third is one that no cache holds: the 3-D
# network of the benches took 7.5 ms a step, and takes 6.7; on two threads 4.5, and 3.8.
#
# The proof is by reference counts. An array of ours owns its memory itself or by a Block, and a view of it holds it (NumPy lets
# a view of a view hold the first one's base). So where each object on the way from an array to its memory is referred to once, there is
# no other way to these numbers. Memory of any other origin is never written over.

cimport numpy as cnp
from cpython.object cimport PyObject, PyTypeObject

from lean_nn_c.engine cimport Box
from lean_nn_c.memory cimport Block

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject*)
    bint Py_IS_TYPE(PyObject*, PyTypeObject*)

cdef extern from "numpy/arrayobject.h":
    int NPY_ARRAY_OWNDATA
    int NPY_ARRAY_CARRAY


cdef inline bint is_spent(Box box) noexcept:
    """Whether the caller's one reference to the box is the only way to its array, which is a writeable plain one."""
    cdef PyObject* at = <PyObject*>box.data     # and no reference of our own
    if Py_REFCNT(<PyObject*>box) != 1 or not is_plain(at) or not cnp.PyArray_CHKFLAGS(<cnp.ndarray>at, NPY_ARRAY_CARRAY):
        return False
    while Py_REFCNT(at) == 1 and is_plain(at):
        if cnp.PyArray_BASE(<cnp.ndarray>at) == NULL:
            return cnp.PyArray_CHKFLAGS(<cnp.ndarray>at, NPY_ARRAY_OWNDATA)
        at = cnp.PyArray_BASE(<cnp.ndarray>at)
    return Py_REFCNT(at) == 1 and Py_IS_TYPE(at, <PyTypeObject*>Block)


cdef inline bint is_plain(PyObject* at) noexcept:
    return Py_IS_TYPE(at, <PyTypeObject*>cnp.ndarray)
