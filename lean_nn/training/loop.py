"""`fit`: epochs over batches, in an order that can be left anywhere and taken up again with the same bits.

Nothing here is drawn from hidden state. The order of the samples depends on the loader's seed and the epoch, the seeds of
dropout on `seed` and the number of the step; so the place in the run is all that a checkpoint has to know beside arrays.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lean_nn.convert import as_array
from lean_nn.data import Loader
from lean_nn.nn.module import Module
from lean_nn.nn.stateless import hashed
from lean_nn.optim import Optimizer, Schedule
from lean_nn.tensor import Tensor
from lean_nn.training import checkpoint as files
from lean_nn.training.history import History
from lean_nn.training.metrics import Metric, named_metrics
from lean_nn.training.progress import Progress, chosen
from lean_nn.training.step import Array, Evaluation, TrainingStep, checked, loss_of, scores, slices
from lean_nn.training.stopping import EarlyStopping

__all__ = ["fit"]

Callback = Callable[[int, dict[str, Any]], Any]


@dataclass
class Run:
    """A training run under way."""

    model: Module
    loader: Any
    step: TrainingStep
    metrics: dict[str, Metric]
    epochs: int
    seed: int
    recipe: dict[str, Any]
    schedule: Schedule | None
    per_batch: bool
    stopping: EarlyStopping | None
    path: str | None
    every: int | None
    progress: Progress
    validate: Callable[[], dict[str, float]] | None
    callbacks: tuple[Callback, ...]
    history: History = field(default_factory=History)
    epoch: int = 0  # whole epochs done
    batch: int = 0  # batches done in the present one
    sums: dict[str, float] = field(default_factory=dict)
    best: dict[str, Array] = field(default_factory=dict)
    stopped: bool = False

    # --- an epoch ---

    def train(self) -> None:
        """All epochs that are left."""
        while self.epoch < self.epochs and not self.stopped:
            began = time.perf_counter()
            self.progress.begin(self.epoch + 1, self.epochs, len(self.loader), self.batch)
            for x, y in self.loader:
                self._batch(x, y)
            self._finish(time.perf_counter() - began)

    def _batch(self, x: Any, y: Any) -> None:
        x, y = checked(x, self.model, "fit"), as_array(y, op="fit")
        if not self.step.prepared:
            self._prepare_last(x, y)
        value, output = self.step(x, y, hashed(self.seed, self.step.taken))
        n = len(x)
        gained = {"loss": value * n, **{k: float(m(output, y)) * n for k, m in self.metrics.items()}, "samples": n}  # type: ignore[arg-type]
        self.sums = {key: self.sums.get(key, 0.0) + more for key, more in gained.items()}
        if self.schedule is not None and self.per_batch:
            self.schedule.step()
        self.batch += 1
        self.progress.step(self.sums["loss"] / self.sums["samples"])
        if self.every is not None and self.step.taken % self.every == 0 and self.batch < len(self.loader):
            self.save()

    def _prepare_last(self, x: Array, y: Array) -> None:
        """What the smaller last batch needs is made, or refused, before the first step."""
        size = getattr(self.loader, "batch_size", len(x))
        rest = 0 if getattr(self.loader, "drop_last", False) else len(getattr(self.loader, "x", ())) % size
        if 0 < rest < len(x):
            self.step.prepare(x[:rest], y[:rest])

    def _finish(self, seconds: float) -> None:
        """Write the epoch's row, look whether to stop, save."""
        rate = self.step.optimizer.param_groups[0]["lr"]
        means = {k: v / self.sums["samples"] for k, v in self.sums.items() if k != "samples"}
        row: dict[str, Any] = {"epoch": self.epoch + 1, **means}
        if self.validate is not None:
            row.update({f"val_{name}": value for name, value in self.validate().items()})
        row.update(lr=float(rate), seconds=seconds)
        if self.schedule is not None and not self.per_batch:
            self.schedule.step()
        self.history.append(row)
        self.epoch, self.batch, self.sums = self.epoch + 1, 0, {}
        if self.stopping is not None:
            if self.stopping.improved(row) and self.stopping.restore_best:
                self.best = {name: array.copy() for name, array in self.model.state_dict().items()}
            self.stopped = self.stopping.exhausted
        self.progress.end(self.epoch, self.epochs, row)
        self.stopped = any([bool(callback(self.epoch, dict(row))) for callback in self.callbacks]) or self.stopped
        if self.path is not None:
            self.save()

    # --- files ---

    def save(self) -> None:
        """Write a checkpoint of this moment."""
        self.step.optimizer.count_steps(self.step.taken)
        notes = {
            "recipe": self.recipe, "place": [self.epoch, self.batch], "sums": self.sums, "stopped": self.stopped,
            "loader": self.loader.state_dict(), "history": dict(self.history),
            "schedule": None if self.schedule is None else self.schedule.state_dict(),
            "stopping": None if self.stopping is None else self.stopping.state_dict(),
        }  # fmt: skip
        files.write(self.path or "", self.model, self.step.optimizer, self.best, notes)

    def take_up(self, found: files.Resumed) -> None:
        """Go on where a checkpoint was written."""
        self.best, self.epoch, self.batch, self.sums, self.history, self.stopped = found


def fit(
    model: Module,
    data: Any,
    loss: Any,
    optimizer: Optimizer,
    epochs: int,
    *,
    validation: Any = None,
    batch_size: int = 32,
    metrics: Any = (),
    schedule: Schedule | None = None,
    schedule_every: str = "epoch",
    clip_norm: float | None = None,
    clip_value: float | None = None,
    early_stopping: EarlyStopping | int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    resume: bool = True,
    seed: int = 0,
    shuffle: bool = True,
    compiled: bool = True,
    progress: bool | Progress | None = None,
    callbacks: Iterable[Callback] = (),
) -> History:
    """Train `model` in place for `epochs` passes over the data.

    The same arguments give the same bits, on every run and for every number of threads; so does a run that was killed and
    taken up again from its checkpoint.

    Parameters
    ----------
    model : Module
    data : ``(x, y)``, or a `lean_nn.data.Loader`
    loss : function or Module of output and target, or the name of one in `lean_nn.functional`
    optimizer : made with the model's parameters
    epochs : passes over the data in all, those before a resumption included
    validation : ``(x, y)`` or a loader: evaluated after every epoch, columns ``val_…``
    batch_size, shuffle : of ``(x, y)``; a loader has its own
    metrics : names ("accuracy", …), functions ``(output, target) → number``, or a dict of such
    schedule : of the learning rate, stepped after every `schedule_every`: "epoch" or "batch"
    clip_norm, clip_value : bounds of the gradients, all together or each element
    early_stopping : `EarlyStopping`, or a number of epochs for the loss of the validation (of the training without one)
    checkpoint : a file (``.npz`` or ``.safetensors``) that is written after every epoch
    checkpoint_every : write it after so many steps as well
    resume : go on from the file if it is there
    seed : of the order of samples and of dropout
    compiled : run a compiled step; otherwise the same step eagerly, with the same bits
    progress : None for a bar on a terminal (with tqdm) and lines elsewhere; False for silence
    callbacks : called as ``callback(epoch, row)`` after every epoch; returning True ends the training

    Returns
    -------
    History
        Columns epoch, loss, the metrics, val_…, lr, seconds; a row per epoch.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn as ln
    >>> generator = ln.manual_seed(0)
    >>> x = np.random.default_rng(0).standard_normal((200, 2)).astype(np.float32)
    >>> y = (x.sum(1) > 0).astype(np.int64)
    >>> model = ln.nn.Linear(2, 2)
    >>> optimizer = ln.optim.Adam(model.parameters(), lr=0.1)
    >>> history = ln.fit(model, (x, y), "cross_entropy", optimizer, 5, metrics="accuracy", progress=False)
    >>> history["accuracy"][-1] > 0.95
    True
    """
    if epochs < 0 or schedule_every not in ("epoch", "batch") or (checkpoint_every is not None and checkpoint_every < 1):
        raise ValueError(f"fit: epochs from 0, schedule_every 'epoch' or 'batch', checkpoint_every from 1; got {epochs}, "
                         f"{schedule_every!r} and {checkpoint_every}; correct them")  # fmt: skip
    if schedule is not None and schedule.optimizer is not optimizer:
        raise ValueError("fit: the schedule is of the optimiser that is used; got another's; make it with this optimiser")
    if compiled and getattr(schedule, "cycle_momentum", False):
        raise ValueError("fit: a compiled step takes its rate as an argument and nothing else; got a schedule that moves the "
                         "momentum too; pass cycle_momentum=False to it, or compiled=False")  # fmt: skip
    chosen_metrics, objective = named_metrics(metrics), loss_of(loss)
    loader = _loader(data, batch_size, shuffle, seed)
    path = None if checkpoint is None else os.fspath(checkpoint)
    names = ["loss", *chosen_metrics]
    columns = names if validation is None else [*names, *(f"val_{name}" for name in names)]
    recipe = {"seed": int(seed), "optimizer": type(optimizer).__name__, "columns": columns}
    stopping = _stopping(early_stopping, columns)
    found = None
    if path is not None and resume and os.path.exists(path):
        found = files.restore(path, recipe, model, optimizer, {"loader": loader, "schedule": schedule, "stopping": stopping})
    step = TrainingStep(model, objective, optimizer, clip_norm=clip_norm, clip_value=clip_value, compiled=compiled,
                        outputs=bool(chosen_metrics))  # fmt: skip
    run = Run(
        model=model, loader=loader, step=step, metrics=chosen_metrics, epochs=int(epochs), seed=int(seed), recipe=recipe,
        schedule=schedule, per_batch=schedule_every == "batch", stopping=stopping,
        path=path, every=None if path is None else checkpoint_every, progress=chosen(progress),
        validate=_validation(validation, model, objective, chosen_metrics, batch_size, compiled), callbacks=tuple(callbacks),
    )  # fmt: skip
    if found is not None:
        run.take_up(found)
    try:
        run.train()
    finally:
        optimizer.count_steps(step.taken)
    if run.best:
        model.load_state_dict(run.best)
    return run.history


def _loader(data: Any, batch_size: int, shuffle: bool, seed: int) -> Any:
    if isinstance(data, (tuple, list)):
        if len(data) != 2:
            raise ValueError(f"fit: data is a pair (x, y); got {len(data)} parts; pass inputs and targets")
        x, y = (part.numpy() if isinstance(part, Tensor) else np.asanyarray(part) for part in data)  # mapped files stay on disk
        return Loader(x, y, batch_size=batch_size, shuffle=shuffle, seed=seed, prefetch=0)
    if not all(hasattr(data, name) for name in ("__iter__", "__len__", "state_dict", "load_state_dict")):
        raise TypeError(f"fit: data is (x, y) or a loader; got {type(data).__name__}; wrap it in lean_nn.data.Loader")
    return data


def _stopping(given: EarlyStopping | int | None, columns: list[str]) -> EarlyStopping | None:
    if given is None:
        return None
    stopping = given if isinstance(given, EarlyStopping) else EarlyStopping(
        "val_loss" if "val_loss" in columns else "loss", int(given)
    )  # fmt: skip
    if stopping.monitor not in columns:
        raise ValueError(f"fit: early stopping watches one of {columns}; got {stopping.monitor!r}; choose one, and pass "
                         f"validation data for those of the validation")  # fmt: skip
    stopping.reset()
    return stopping


def _validation(
    data: Any, model: Module, loss: Any, metrics: dict[str, Metric], batch_size: int, compiled: bool
) -> Callable[[], dict[str, float]] | None:
    if data is None:
        return None
    evaluation = Evaluation(model, loss, compiled)
    size = max(batch_size, 256)
    return lambda: scores(evaluation, slices(data[0], size, data[1]) if isinstance(data, (tuple, list)) else data, metrics)
