"""One training step, one evaluation: pure functions of the model's arrays, run eagerly or compiled.

A step is written once, as a function ``(params, buffers, state, x, y, rates, seeds) ↦ (params', buffers', state', loss)``.
Compiled, it is a program that keeps the arrays of model and optimiser in place; eagerly, its results are copied there. The
program is made with the passes that keep every bit, so both ways give the same bits. Each shape of a batch has its own
program over the same arrays: a smaller last batch is what it is, without padding, so its statistics are right.

Batches come from host memory and are moved to where the model lies; losses and outputs come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lean_nn import functional as F
from lean_nn import tree
from lean_nn.convert import as_array
from lean_nn.device import CPU, Device, device_of, move, to_host
from lean_nn.graph import compile
from lean_nn.graph.passes import EXACT
from lean_nn.graph.trace import trace
from lean_nn.nn.module import Module
from lean_nn.nn.stateless import Scope, call_in, dropout_seeds, pure
from lean_nn.optim import Optimizer, clipped_by_norm, clipped_by_value
from lean_nn.primitive import FLOATS
from lean_nn.tensor import Tensor
from lean_nn.training.metrics import Metric, named_metrics
from lean_nn.transforms import value_and_grad
from lean_nn_c import engine

__all__ = ["Evaluation", "TrainingStep", "evaluate", "predict"]

Array = np.ndarray[Any, Any]
Loss = Callable[[Any, Any], Any]


def loss_of(loss: Any) -> Loss:
    """A loss by its name in `functional`, or the function or Module itself."""
    if isinstance(loss, str):
        found = getattr(F, loss, None)
        if found is None or not (loss.endswith("_loss") or "cross_entropy" in loss):
            raise ValueError(f"fit: a loss is a function or the name of one, as 'cross_entropy'; got {loss!r}; choose one")
        return found  # type: ignore[no-any-return]
    if not callable(loss):
        raise TypeError(f"fit: a loss is a function of output and target; got {type(loss).__name__}; pass F.cross_entropy, say")
    return loss  # type: ignore[no-any-return]


def checked(x: Any, model: Module, op: str) -> Array:
    """A batch of inputs as an array, in the model's dtype if it is of floats: nothing is cast in silence."""
    array = as_array(x.numpy() if isinstance(x, Tensor) else x, op=op)
    wanted = next((p.dtype for p in model.parameters()), array.dtype)
    if array.dtype in FLOATS and array.dtype != wanted:
        raise TypeError(f"{op}: inputs in the model's dtype {wanted}; got {array.dtype}; convert them with .astype, or the "
                        f"model with .to")  # fmt: skip
    return array


def _device(model: Module) -> Device:
    return next((device_of(p.data) for p in model.parameters()), CPU)


def _placed(arrays: Any, device: Device) -> Any:
    """A tree of host arrays on `device`."""
    return arrays if device == CPU else tree.transform(lambda array: move(array, device), arrays)


def _plain(tensors: dict[str, Any]) -> dict[str, Any]:
    """The same arrays in Tensors that nobody watches."""
    return {name: engine.wrap(t.data) for name, t in tensors.items()}


class _Counting(Scope):
    """A call that only counts the seeds it needs."""

    def next_seed(self) -> Any:
        self.drawn += 1
        return engine.wrap(np.array(0))


class _Mode:
    """The model in training or in eval mode for a while; afterwards every part is as it was."""

    def __init__(self, model: Module, training: bool) -> None:
        self.model, self.training = model, training

    def __enter__(self) -> None:
        self.before = [(module, module.training) for module in self.model.modules()]
        self.model.train(self.training)

    def __exit__(self, *problem: Any) -> None:
        for module, training in self.before:
            module.__dict__["training"] = training


class TrainingStep:
    """Loss, gradients, clipping and update for one batch.

    Parameters
    ----------
    model, loss, optimizer : what is trained, on what, how
    clip_norm, clip_value : bounds of the gradients, or None
    compiled : run programs; otherwise the same function eagerly
    outputs : also give the model's outputs
    """

    def __init__(
        self, model: Module, loss: Loss, optimizer: Optimizer, *, clip_norm: float | None = None,
        clip_value: float | None = None, compiled: bool = True, outputs: bool = True,
    ) -> None:  # fmt: skip
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.clip_norm, self.clip_value, self.compiled, self.outputs = clip_norm, clip_value, compiled, outputs
        self.call, own, buffers = pure(model)
        self.params, self.buffers = _plain(self._trained(own)), _plain(buffers)
        shared = optimizer.shared_state()
        self.state = {"step": shared["step"], "slots": shared["slots"]}
        self.settings = self._settings()
        self.seeds, self.counters, self.device = 0, list[Any](), _device(model)
        self._programs: dict[Any, Any] = {}

    def _trained(self, own: dict[str, Any]) -> dict[str, Any]:
        """The optimiser's parameters by their names in the model, in the optimiser's order."""
        names = {id(p): name for name, p in own.items()}
        mine = [p for group in self.optimizer.param_groups for p in group["params"]]
        strangers = [p.shape for p in mine if id(p) not in names]
        if strangers:
            raise ValueError(f"fit: the optimiser has parameters of the model; got others, of shapes {strangers}; make it with "
                             f"model.parameters()")  # fmt: skip
        return {names[id(p)]: p for p in mine}

    def _settings(self) -> list[dict[str, Any]]:
        """All that a program has taken in as fixed: the groups' settings but for the rate."""
        groups = self.optimizer.param_groups
        return [{k: v for k, v in g.items() if k not in ("params", "lr", "initial_lr")} for g in groups]

    def _step(self, params: Any, buffers: Any, state: Any, x: Any, y: Any, rates: Any, seeds: Any) -> Any:
        def objective(params: Any) -> Any:
            output, new = self.call(params, buffers, x, seed=seeds)
            return self.loss(output, y), (output, new)

        (value, (output, new)), grads = value_and_grad(objective, has_aux=True)(params)
        if self.clip_value is not None:
            grads = clipped_by_value(grads, self.clip_value)
        if self.clip_norm is not None:
            grads = clipped_by_norm(grads, self.clip_norm)
        params, state = self.optimizer.update(params, grads, {**state, "lr": rates})
        kept = {"step": state["step"], "slots": state["slots"]}
        return params, _plain(new), kept, value, engine.wrap(output.data) if self.outputs else None

    def prepare(self, x: Array, y: Array) -> None:
        """Make what batches like this need, or raise before anything has changed."""
        key = (x.shape, x.dtype, y.shape, y.dtype)
        if key in self._programs:
            return
        with _Mode(self.model, True):
            if not self._programs:
                self._survey(x)
            examples = (self.params, self.buffers, self.state, *self._varying(x, y, 0))
            program = compile(self._step, *examples, inplace=(0, 1, 2), passes=EXACT) if self.compiled else None
        self._programs[key] = program

    def _survey(self, x: Array) -> None:
        """Count the seeds that one call takes, and find the counters of batches that it advances."""
        scope = _Counting(None)
        trace(lambda b, x: call_in(scope, self.model, {}, b, x)[0], (self.buffers, x))
        self.seeds, self.counters = scope.drawn, scope.counters

    def _rates(self) -> list[Any]:
        return [np.array(float(group["lr"])) for group in self.optimizer.param_groups]

    def _varying(self, x: Array, y: Array, seed: int) -> Any:
        """What a step is given besides its state."""
        return _placed((x, y, self._rates(), dropout_seeds(seed, self.seeds)), self.device)

    def __call__(self, x: Array, y: Array, seed: int) -> tuple[float, Array | None]:
        """Take one step; gives the loss before it and the outputs."""
        self.prepare(x, y)
        if self.compiled and self._settings() != self.settings:
            raise ValueError(f"fit: a compiled step has the optimiser's settings as it began, {self.settings}; "
                             f"got {self._settings()}; change rates only, or pass compiled=False")  # fmt: skip
        program = self._programs[x.shape, x.dtype, y.shape, y.dtype]
        varying = self._varying(x, y, seed)
        value, output = _pair(program(*varying) if program is not None else self._eager(*varying))
        for counter in self.counters:
            counter.data[...] += 1
        return float(value), to_host(output)

    def _eager(self, *varying: Any) -> Any:
        x, y, rates, seeds = tree.transform(engine.wrap, varying)
        with _Mode(self.model, True):
            *new, value, output = self._step(self.params, self.buffers, self.state, x, y, rates, seeds)
        for old, fresh in zip(tree.leaves([self.params, self.buffers, self.state]), tree.leaves(new), strict=True):
            old.data[...] = fresh.data
        return value.data, None if output is None else output.data

    @property
    def prepared(self) -> bool:
        """Whether any batch has been prepared for."""
        return bool(self._programs)

    @property
    def taken(self) -> int:
        """Steps so far, those of earlier runs included."""
        return int(self.state["step"].item())


def _pair(result: Any) -> tuple[Any, Any]:
    return result if isinstance(result, tuple) else (result, None)


class Evaluation:
    """Outputs and loss of a model as it is used, its parameters as they are at each call."""

    def __init__(self, model: Module, loss: Loss | None = None, compiled: bool = True) -> None:
        self.model, self.loss, self.compiled = model, loss, compiled
        self.call, self.params, self.buffers = pure(model)
        self.device = _device(model)
        self._programs: dict[Any, Any] = {}

    def _run(self, params: Any, buffers: Any, x: Any, y: Any) -> Any:
        output, _ = self.call(params, buffers, x)
        return output if self.loss is None else (output, self.loss(output, y))

    def __call__(self, x: Array, y: Array | None = None) -> tuple[Array, float | None]:
        arguments = (_plain(self.params), _plain(self.buffers), *_placed((x, y), self.device))
        with _Mode(self.model, False):
            if self.compiled:
                key = (x.shape, x.dtype, None if y is None else (y.shape, y.dtype))
                if key not in self._programs:
                    self._programs[key] = compile(self._run, *arguments, passes=EXACT)
                result = self._programs[key](*arguments)
            else:
                result = self._run(*arguments[:2], *tree.transform(engine.wrap, arguments[2:]))
        output, value = _pair(result)
        return to_host(output.data if isinstance(output, Tensor) else output), None if value is None else float(value)


def scores(
    evaluation: Evaluation, batches: Iterable[tuple[Any, Any]], metrics: dict[str, Metric]
) -> dict[str, float]:
    """Loss and metrics over batches, each weighted by its number of samples."""
    sums, count = dict.fromkeys(("loss", *metrics), 0.0), 0
    for x, y in batches:
        x, y = checked(x, evaluation.model, "evaluate"), as_array(y, op="evaluate")
        output, value = evaluation(x, y)
        sums["loss"] += float(value or 0.0) * len(x)
        for name, metric in metrics.items():
            sums[name] += float(metric(output, y)) * len(x)
        count += len(x)
    return {name: value / count for name, value in sums.items()} if count else dict.fromkeys(sums, float("nan"))


def slices(x: Any, batch_size: int, *more: Any) -> Iterable[Any]:
    """Batches in order, as views."""
    for start in range(0, len(x), batch_size):
        part = tuple(array[start : start + batch_size] for array in (x, *more))
        yield part if more else part[0]


def evaluate(
    model: Module, data: Any, loss: Any = "cross_entropy", *, metrics: Any = (), batch_size: int = 256, compiled: bool = True
) -> dict[str, float]:
    """Loss and metrics of a model as it is used, on ``(x, y)`` or a loader.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn as ln
    >>> from lean_nn.training import evaluate
    >>> model = ln.nn.Linear(2, 2)
    >>> sorted(evaluate(model, (np.ones((4, 2), np.float32), np.array([0, 1, 0, 1])), metrics="accuracy"))
    ['accuracy', 'loss']
    """
    batches = slices(data[0], batch_size, data[1]) if isinstance(data, (tuple, list)) else data
    return scores(Evaluation(model, loss_of(loss), compiled), batches, named_metrics(metrics))


def predict(model: Module, x: Any, *, batch_size: int = 256, compiled: bool = True) -> Array:
    """The outputs of a model as it is used, batch by batch.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn as ln
    >>> from lean_nn.training import predict
    >>> predict(ln.nn.Linear(2, 3), np.ones((5, 2), np.float32), batch_size=2).shape
    (5, 3)
    """
    run = Evaluation(model, None, compiled)
    parts = list(slices(x, batch_size)) or [x]  # of no samples, the outputs have their shape all the same
    return np.concatenate([run(checked(part, model, "predict"))[0] for part in parts])
