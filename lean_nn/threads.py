"""How many threads the kernels use; results do not depend on it.

The default is the least of the cores this process may use, its container's quota and ``OMP_NUM_THREADS``. Small
work stays on one thread whatever is set, and after a fork the child runs on one until it asks for more.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from operator import index

from lean_nn_c import threads

__all__ = ["get_num_threads", "num_threads", "set_num_threads"]


def _positive(op: str, n: int) -> int:
    try:
        count = index(n)
    except TypeError:
        raise TypeError(f"{op}: a whole number is needed; got {type(n).__name__}; pass an int") from None
    if not 1 <= count <= 4096:
        raise ValueError(f"{op}: 1 to 4096 threads; got {count}; pass a number in that range")
    return count


def get_num_threads() -> int:
    """The number of threads a large kernel called from here would use.

    Examples
    --------
    >>> import lean_nn as ln
    >>> with ln.num_threads(1):
    ...     ln.get_num_threads()
    1
    """
    return threads.get_num_threads()


def set_num_threads(n: int) -> None:
    """Use `n` threads in the whole process from now on."""
    threads.set_num_threads(_positive("set_num_threads", n))


class num_threads(ContextDecorator):
    """Use `n` threads inside a ``with`` block (or a decorated function), in the calling Python thread only.

    Examples
    --------
    >>> import lean_nn as ln
    >>> with ln.num_threads(2):
    ...     ln.get_num_threads()
    2
    """

    def __init__(self, n: int) -> None:
        self.n = _positive("num_threads", n)
        self._before: list[int] = []

    def _recreate_cm(self) -> num_threads:
        return num_threads(self.n)  # a decorated function may run in several threads at once: a state for each call

    def __enter__(self) -> num_threads:
        self._before.append(threads.narrow(self.n))
        return self

    def __exit__(self, *exc: object) -> None:
        threads.narrow(self._before.pop())
