"""From a Python function to a graph: run it once on Tensors of Symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lean_nn import tree
from lean_nn.convert import as_tensor
from lean_nn.device import CPU, Device, is_foreign, move
from lean_nn.graph.ir import Graph
from lean_nn.graph.symbol import Recorder, Tracing
from lean_nn.primitive import Aval, GraphError, register_backend
from lean_nn_c import engine

register_backend(Tracing())


class ArraySpec:
    """Stands for an array of this shape and dtype among the arguments of a function to compile."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, dtype


class Traced:
    """A graph, and the form of the function's arguments and result, whose leaves are its inputs and outputs."""

    __slots__ = ("arguments", "graph", "result")

    def __init__(self, graph: Graph, arguments: Any, result: Any) -> None:
        self.graph, self.arguments, self.result = graph, arguments, result


def is_array(leaf: Any) -> bool:
    """Whether a leaf of the arguments is data; numbers, strings and None are part of the function."""
    return isinstance(leaf, (engine.Box, np.ndarray, np.generic, ArraySpec)) or is_foreign(leaf)


def aval_of_leaf(leaf: Any) -> Aval:
    """Shape and dtype of an array among the arguments."""
    array = leaf.data if isinstance(leaf, engine.Box) else leaf
    return Aval(tuple(array.shape), np.dtype(array.dtype))


def trace(f: Callable[..., Any], arguments: tuple[Any, ...]) -> Traced:
    """Record f on the shapes and dtypes of `arguments`: tuples, lists and dicts of Tensors, arrays and ArraySpecs.

    An argument whose Tensor f changed (the running statistics of batch norm) becomes an update.
    """
    recorder = Recorder()
    graph = recorder.graph
    names = _names(arguments)
    boxes: list[Any] = []

    def box(leaf: Any) -> Any:
        if not is_array(leaf):
            return leaf
        boxes.append(engine.wrap(recorder.input(aval_of_leaf(leaf), names[len(boxes)])))
        return boxes[-1]

    before = engine.set_recording(True)
    try:
        result = f(*tree.transform(box, arguments))
    finally:
        engine.set_recording(before)
    for leaf in tree.leaves(result):
        if not isinstance(leaf, engine.Box):
            raise GraphError(f"compile: a function of Tensors returns Tensors; got {type(leaf).__name__}; return a Tensor")
    graph.outputs = [recorder.symbol(leaf.data, "compile").value for leaf in tree.leaves(result)]
    for value, changed in zip(list(graph.inputs), boxes, strict=True):
        if changed.data.value != value:
            graph.updates.append((value, changed.data.value))
    return Traced(graph, arguments, tree.transform(lambda _: "*", result))


def _names(arguments: Any, prefix: str = "") -> list[str]:
    """A name for every array among the arguments: ``0``, ``params.conv1``, ``2.0``."""
    if isinstance(arguments, dict):
        parts = list(arguments.items())
    elif isinstance(arguments, (tuple, list)):
        parts = list(enumerate(arguments))
    else:
        return [prefix] if is_array(arguments) else []
    return [name for key, part in parts for name in _names(part, f"{prefix}.{key}" if prefix else str(key))]


def constants_on(graph: Graph, device: Device) -> dict[int, Any]:
    """The graph's constants as Tensors on a device."""
    return {value: as_tensor(move(array, device)) for value, array in graph.constants.items()}


def apply_graph(
    graph: Graph, boxes: list[Any], constants: dict[int, Any] | None = None, wanted: Sequence[int] | None = None
) -> list[Any]:
    """The outputs of a graph (or the values `wanted`) on Tensors, by its primitives: eagerly, or recorded, or traced once
    more; on the device of `constants`, the CPU unless told.
    """
    values: dict[int, Any] = dict(zip(graph.inputs, boxes, strict=True))
    values.update(constants_on(graph, CPU) if constants is None else constants)
    for node in graph.nodes:
        result = node.prim(*(values[v] for v in node.inputs), **node.params)
        values.update(zip(node.outputs, result if node.prim.outputs > 1 else (result,), strict=True))
    return [values[value] for value in (graph.outputs if wanted is None else wanted)]


__all__ = ["ArraySpec", "Traced", "apply_graph", "aval_of_leaf", "constants_on", "is_array", "trace"]
