# What this thread is doing: the levels that are open, and which of them are live (`engine.pyx` explains both).

from libc.stdint cimport uint64_t

cdef extern from *:
    """
    /* What this thread is doing. */
    static __thread int lnn_depth = 0;               /* the innermost open level */
    static __thread int lnn_limit = 64;              /* levels below this one are live */
    static __thread int lnn_recording = 1;           /* 0 inside no_grad */
    static __thread unsigned long long lnn_live = 1; /* follows from the three above */
    static __thread unsigned long long lnn_all = 0;  /* open levels that record everything */
    static __thread int lnn_variant = 0;             /* which way kernels are asked to go; 0 is their own choice */
    """
    int lnn_depth
    int lnn_limit
    int lnn_recording
    uint64_t lnn_live
    uint64_t lnn_all
    int lnn_variant


cdef inline void refresh() noexcept:
    """Let `lnn_live` follow from the others."""
    global lnn_live
    cdef int top = lnn_depth + 1 if lnn_depth + 1 < lnn_limit else lnn_limit
    lnn_live = ((<uint64_t>1 << top) - 1) if lnn_recording else 0
