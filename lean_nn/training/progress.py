"""How far it is: tqdm's bar on a terminal, a plain line per epoch elsewhere, or nothing. All on standard error."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["Bar", "Lines", "Progress", "chosen"]


class Progress:
    """Says nothing: the base of those that do."""

    def begin(self, epoch: int, epochs: int, batches: int, done: int) -> None:
        """An epoch begins (or is taken up again after `done` batches)."""

    def step(self, loss: float) -> None:
        """A batch is done; `loss` is the mean of the epoch so far."""

    def end(self, epoch: int, epochs: int, row: dict[str, Any]) -> None:
        """An epoch is over, with this row of the history."""


class Lines(Progress):
    """A line per epoch."""

    def end(self, epoch: int, epochs: int, row: dict[str, Any]) -> None:
        print(summary_line(epoch, epochs, row), file=sys.stderr, flush=True)


class Bar(Progress):
    """A bar per epoch, replaced by the epoch's line."""

    def __init__(self, tqdm: Any) -> None:
        self._tqdm = tqdm
        self._bar: Any = None

    def begin(self, epoch: int, epochs: int, batches: int, done: int) -> None:
        self._bar = self._tqdm(total=batches, initial=done, desc=f"epoch {epoch}/{epochs}", leave=False, file=sys.stderr)

    def step(self, loss: float) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str(f"loss {loss:.4f}", refresh=False)
            self._bar.update()

    def end(self, epoch: int, epochs: int, row: dict[str, Any]) -> None:
        if self._bar is not None:
            self._bar.close()
        self._tqdm.write(summary_line(epoch, epochs, row), file=sys.stderr)


def summary_line(epoch: int, epochs: int, row: dict[str, Any]) -> str:
    """``epoch  3/10  loss 0.1234  accuracy 0.9812  0.4 s``"""
    width = len(str(epochs))
    parts = [f"epoch {epoch:{width}d}/{epochs}"]
    parts += [f"{name} {value:.4f}" for name, value in row.items() if name not in ("epoch", "lr", "seconds")]
    return "  ".join([*parts, f"{row['seconds']:.1f} s"])


def chosen(progress: bool | Progress | None) -> Progress:
    """What `fit` reports to: None chooses a bar where standard error is a terminal and tqdm is installed, else lines."""
    if isinstance(progress, Progress):
        return progress
    if progress is False:
        return Progress()
    if sys.stderr is not None and sys.stderr.isatty():
        try:
            from tqdm import tqdm
        except ImportError:
            return Lines()
        return Bar(tqdm)
    return Lines()
