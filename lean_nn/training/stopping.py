"""Stop when a quantity has not improved for a while."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["EarlyStopping"]


class EarlyStopping:
    """Ends the training when `monitor` has not improved for `patience` epochs.

    Parameters
    ----------
    monitor : a column of the history
    patience : epochs without improvement that are allowed
    min_delta : what counts as improvement
    mode : "min" or "max": which way is better; None goes by the name: accuracy is to be high, all else low
    restore_best : leave the model with the parameters of its best epoch

    Examples
    --------
    >>> from lean_nn.training import EarlyStopping
    >>> stopping = EarlyStopping("val_loss", patience=2)
    >>> [stopping.improved({"val_loss": v}) for v in (1.0, 0.5, 0.7)], stopping.waited
    ([True, True, False], 1)
    """

    def __init__(
        self, monitor: str = "val_loss", patience: int = 5, min_delta: float = 0.0, mode: str | None = None,
        restore_best: bool = True,
    ) -> None:  # fmt: skip
        if patience < 1 or not min_delta >= 0 or mode not in (None, "min", "max"):
            raise ValueError(f"EarlyStopping: patience from 1, min_delta from 0, mode 'min' or 'max'; got {patience}, "
                             f"{min_delta} and {mode!r}; correct them")  # fmt: skip
        self.monitor, self.patience, self.min_delta, self.restore_best = monitor, patience, min_delta, restore_best
        self.sign = -1.0 if (mode or ("max" if "accuracy" in monitor else "min")) == "max" else 1.0
        self.reset()

    def reset(self) -> None:
        """Begin anew: `fit` does so before a run."""
        self.best, self.waited, self.best_epoch = math.inf, 0, -1

    def improved(self, row: dict[str, Any]) -> bool:
        """Take note of an epoch's row; whether it is the best so far."""
        if self.monitor not in row:
            raise ValueError(f"EarlyStopping: monitor is one of {list(row)}; got {self.monitor!r}; choose one of them")
        value = self.sign * row[self.monitor]
        better = bool(value < self.best - self.min_delta)
        self.waited = 0 if better else self.waited + 1
        if better:
            self.best, self.best_epoch = value, int(row.get("epoch", -1))
        return better

    @property
    def exhausted(self) -> bool:
        """Whether the patience is used up."""
        return self.waited >= self.patience

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "waited": self.waited, "best_epoch": self.best_epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.waited, self.best_epoch = float(state["best"]), int(state["waited"]), int(state["best_epoch"])
