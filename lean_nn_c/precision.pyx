"""Whether fast algorithms with a norm-wise error bound may be chosen; one switch for the process."""

cdef bint fast = True


cdef bint is_fast() noexcept nogil:
    return fast


def get_fast():
    return bool(fast)


def set_fast(bint value):
    global fast
    fast = value
