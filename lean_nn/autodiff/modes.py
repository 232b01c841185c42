"""Whether operations are recorded, per Python thread: ``no_grad`` and its opposite."""

from __future__ import annotations

from contextlib import ContextDecorator

from lean_nn_c import engine

__all__ = ["enable_grad", "is_grad_enabled", "no_grad"]


def is_grad_enabled() -> bool:
    """Whether this thread records operations at the moment."""
    return engine.is_recording()


class _Recording(ContextDecorator):
    """Switches recording for a ``with`` block or a decorated function; may be nested and used again."""

    on: bool

    def __init__(self) -> None:
        self._before: list[bool] = []

    def _recreate_cm(self) -> _Recording:
        return type(self)()  # a decorated function may run in several threads at once: a state for each call

    def __enter__(self) -> None:
        self._before.append(engine.set_recording(self.on))

    def __exit__(self, *exc: object) -> None:
        engine.set_recording(self._before.pop())


class no_grad(_Recording):
    """Nothing computed inside is recorded, for any level.

    Examples
    --------
    >>> import lean_nn as ln
    >>> x = ln.tensor([1.0], requires_grad=True)
    >>> with ln.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    on = False


class enable_grad(_Recording):
    """Records again inside a ``no_grad`` block."""

    on = True
