"""How many threads a kernel may use.

One number for the process, so that a kernel called from any Python thread obeys it; a context may
narrow it for the calling thread. Small work stays on one thread: waking a second one costs about as
much as 32,000 additions. After a fork the child runs on one thread until it asks for more, because
libgomp's workers do not survive a fork.
"""

import math
import os

cdef extern from *:
    """
    static int lnn_limit = 1;                  /* process-wide */
    static __thread int lnn_narrowed = 0;      /* this thread's context, 0: none */
    """
    int lnn_limit
    int lnn_narrowed

cdef enum:
    SMALL_WORK = 32768


cdef int threads_for(Py_ssize_t work) noexcept nogil:
    """Threads for `work` elementary operations (additions, bytes copied / 8, …)."""
    if work < SMALL_WORK:
        return 1
    return threads_now()


cdef int threads_now() noexcept nogil:
    """The calling thread's count."""
    return lnn_narrowed if lnn_narrowed else lnn_limit


cdef int narrow_threads(int n) noexcept nogil:
    """Set this thread's own count (0: none) and return the one before."""
    global lnn_narrowed
    cdef int before = lnn_narrowed
    lnn_narrowed = n
    return before


def get_num_threads():
    return threads_now()


def set_num_threads(int n):
    global lnn_limit
    if n < 1:
        raise ValueError(f"set_num_threads: at least one thread is needed; got {n}; pass a positive number")
    lnn_limit = n


def narrow(int n):
    """Set this thread's own count (0: none) and return the one before."""
    if n < 0:
        raise ValueError(f"num_threads: at least one thread is needed; got {n}; pass a positive number")
    return narrow_threads(n)


def _cgroup_quota(str root):
    """The container's CPU quota in cores, or infinity."""
    try:
        with open(f"{root}/cpu.max") as file:
            quota, period = file.read().split()
        return math.inf if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        pass
    try:
        with open(f"{root}/cpu/cpu.cfs_quota_us") as file:
            quota = int(file.read())
        with open(f"{root}/cpu/cpu.cfs_period_us") as file:
            period = int(file.read())
        return math.inf if quota <= 0 else quota / period
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf


def default_num_threads(str cgroup="/sys/fs/cgroup"):
    """min(affinity, cgroup quota rounded up, OMP_NUM_THREADS), at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    limits = [cores, _cgroup_quota(cgroup)]
    if asked.isdigit() and int(asked) > 0:
        limits.append(int(asked))
    return max(1, math.ceil(min(limits)))


def _single_after_fork():
    global lnn_limit, lnn_narrowed
    lnn_limit = 1
    lnn_narrowed = 0


set_num_threads(default_num_threads())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_single_after_fork)
