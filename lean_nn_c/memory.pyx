"""Output arrays from recycled pages.

A page of fresh memory costs the kernel a fault and a clearing, about as much as pooling or adding the numbers
that go into it; an eager training step asks for the same sizes again and again. So large arrays (SMALL and up)
live in blocks taken from the system by `mmap`, and a block whose array has died waits in a small table for the
next array of its size.

Waiting memory is bounded: never more than FLOOR or than one and a half times what was alive at the recent peak,
whichever is more (half as much again because sizes have their peaks at different times). Recent is this window of arrays
and the one before; a window is as long as several training steps, and a block that has to be taken anew counts for
many arrays, so that a program whose shapes change gives back what it no longer uses. Blocks go back to the system
oldest first, by `munmap`, so that "given back" means given back. Sizes are rounded up to one of eight steps between powers of two, so that nearly equal shapes
share blocks. Everything here runs under the GIL.
"""

cimport numpy as cnp
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint64_t
from libc.string cimport memset

import numpy as np

cnp.import_array()

cdef extern from "<sys/mman.h>" nogil:
    void* mmap(void*, size_t, int, int, int, long)
    int munmap(void*, size_t)
    int madvise(void*, size_t, int)
    int PROT_READ, PROT_WRITE, MAP_PRIVATE, MAP_ANONYMOUS

cdef extern from *:
    """
    #include <sys/mman.h>
    #ifdef MADV_HUGEPAGE
    #define LNN_HUGE MADV_HUGEPAGE
    #else
    #define LNN_HUGE 0
    #endif
    """
    int LNN_HUGE

cdef extern from "numpy/arrayobject.h":
    int PyArray_SetBaseObject(cnp.ndarray, object) except -1

cdef enum:
    SMALL = 65536           # bytes below which malloc is quicker
    PAGE = 4096
    HUGE = 2097152          # bytes of a large page: blocks as large begin where one does
    PLACES = 256            # blocks that may wait
    FLOOR = 33554432        # bytes that may always wait
    WINDOW = 4096           # arrays over which a peak is looked for
    ANEW = 64               # arrays that one with a fresh block counts for


cdef struct Waiting:
    void* start
    size_t size
    uint64_t since


cdef Waiting table[PLACES]
cdef int waiting = 0
cdef uint64_t clock = 0
cdef size_t alive_bytes = 0, waiting_bytes = 0
cdef size_t peak = 0, peak_before = 0    # of this window, of the last one
cdef int seen = 0                        # arrays of this window
memset(table, 0, sizeof(table))


cdef size_t rounded(size_t size) noexcept:
    """`size` rounded up to a multiple of an eighth of the power of two below it, in whole pages."""
    cdef size_t step = PAGE
    while step * 16 <= size:
        step *= 2
    return (size + step - 1) // step * step


cdef void drop(int place) noexcept:
    """Give a waiting block back to the system."""
    global waiting, waiting_bytes
    munmap(table[place].start, table[place].size)
    waiting_bytes -= table[place].size
    waiting -= 1
    table[place] = table[waiting]


cdef int oldest() noexcept:
    cdef int place, found = 0
    for place in range(1, waiting):
        if table[place].since < table[found].since:
            found = place
    return found


cdef void count(int arrays) noexcept:
    """Let the window go on; the bytes that are alive may be its peak."""
    global seen, peak, peak_before
    peak = max(peak, alive_bytes)
    seen += arrays
    if seen >= WINDOW:
        seen, peak_before, peak = 0, peak, alive_bytes


cdef void trim() noexcept:
    """Give back what is too much."""
    cdef size_t most = max(peak, peak_before)
    while waiting and waiting_bytes > max(<size_t>FLOOR, most + most // 2):
        drop(oldest())


cdef void* fresh(size_t size) noexcept:
    """A block from the system; a large one on large pages, which rows that lie far apart need to be found quickly."""
    cdef size_t spare = HUGE if LNN_HUGE and size >= HUGE else 0
    cdef char* start = <char*>mmap(NULL, size + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    cdef size_t before
    if start == <char*>-1:
        return NULL
    if spare:
        before = (HUGE - <size_t>start % HUGE) % HUGE
        if before:
            munmap(start, before)
        munmap(start + before + size, spare - before)
        start += before
        madvise(start, size, LNN_HUGE)
    return start


cdef void* take(size_t size) noexcept:
    """A block of exactly `size` bytes (rounded before), recycled if one waits; NULL when there is no memory."""
    global waiting, alive_bytes, waiting_bytes
    cdef int place, found = -1
    cdef void* start
    for place in range(waiting):  # the latest of the size: it may still be in the cache
        if table[place].size == size and (found < 0 or table[place].since > table[found].since):
            found = place
    if found >= 0:
        start = table[found].start
        waiting -= 1
        waiting_bytes -= size
        table[found] = table[waiting]
    else:
        start = fresh(size)
        if start == NULL:
            return NULL
    alive_bytes += size
    count(1 if found >= 0 else ANEW)
    trim()
    return start


cdef void give(void* start, size_t size) noexcept:
    """Put a block of a dead array among those that wait."""
    global waiting, clock, alive_bytes, waiting_bytes
    alive_bytes -= size
    if waiting == PLACES:
        drop(oldest())
    clock += 1
    table[waiting].start, table[waiting].size, table[waiting].since = start, size, clock
    waiting += 1
    waiting_bytes += size
    trim()


cdef class Block:
    """Owns the memory under one array, as its `base`."""

    def __dealloc__(self):
        if self.start != NULL:
            give(self.start, self.size)


cdef object empty_array(int rank, cnp.npy_intp* dims, int kind):
    """An uninitialised C-contiguous array of a plain type."""
    cdef cnp.dtype dtype = cnp.PyArray_DescrFromType(kind)
    cdef size_t size = dtype.itemsize
    cdef Block block
    cdef cnp.ndarray array
    cdef int axis
    for axis in range(rank):
        size *= <size_t>dims[axis]  # the caller has checked that this fits
    if size < SMALL or kind == cnp.NPY_OBJECT:
        return cnp.PyArray_EMPTY(rank, dims, kind, 0)
    block = Block.__new__(Block)
    size = rounded(size)
    block.start = take(size)
    if block.start == NULL:
        raise MemoryError(f"no memory for {size} bytes; got a large output; use a smaller batch")
    block.size = size
    array = cnp.PyArray_SimpleNewFromData(rank, dims, kind, block.start)
    Py_INCREF(block)  # PyArray_SetBaseObject takes over a reference
    PyArray_SetBaseObject(array, block)
    return array


def empty(tuple shape, dtype):
    """An uninitialised array like numpy.empty's; large ones come from recycled pages."""
    cdef cnp.npy_intp dims[64]
    cdef cnp.dtype descr = dtype if isinstance(dtype, cnp.dtype) else np.dtype(dtype)
    cdef int axis, rank = len(shape)
    if rank > 64:
        raise ValueError(f"empty: at most 64 axes; got {rank}; merge some")
    for axis in range(rank):
        dims[axis] = shape[axis]
    return empty_array(rank, dims, descr.type_num)


def release():
    """Give all waiting memory back to the system; returns how many bytes that were."""
    cdef size_t freed = waiting_bytes
    while waiting:
        drop(waiting - 1)
    return freed


def usage():
    """(bytes in living arrays, bytes waiting to be reused) of large arrays."""
    return alive_bytes, waiting_bytes
