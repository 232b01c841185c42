"""`GraphBuilder`: a graph by hand, every node checked when it is added.

A `Var` is a Tensor whose data is a `Symbol`, so the builder's methods and the rest of the library take it alike:
``g.relu(y)``, ``F.relu(y)`` and ``y * 2`` all add nodes. The methods are those of `lean_nn.functional`, then the
primitives of the registry by name; the convolutions take the seeds' order, kernel, bias, input.

A size may be left symbolic (``None``, or a name to tell several apart). Shapes are checked with a stand-in meanwhile,
and `at` builds the graph again for a given size: what a method of the builder added by calling the method again, other
nodes by their primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lean_nn import functional as F
from lean_nn import ops, tree
from lean_nn.convert import as_tensor
from lean_nn.graph.sizes import Size, check_sizes, stand_in
from lean_nn.graph.symbol import Recorder, Symbol
from lean_nn.graph.trace import ArraySpec, Traced
from lean_nn.primitive import Aval, GraphError
from lean_nn_c import engine

Var = Any


class _Call:
    """A method of the builder that was called, and the nodes it added."""

    __slots__ = ("args", "first", "kwargs", "method", "result", "stop")

    def __init__(self, first: int, stop: int, method: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        self.first, self.stop, self.method, self.args, self.kwargs, self.result = first, stop, method, args, kwargs, result


class GraphBuilder:
    """Adds nodes to a graph of its own; `lean_nn.compile` or `Traced` makes it run.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn as ln
    >>> g = ln.GraphBuilder()
    >>> x = g.input((3, 8, 8), "float32", name="image")
    >>> w = g.input((4, 3, 3, 3), "float32", name="kernel")
    >>> b = g.constant(np.zeros(4, np.float32))
    >>> y = g.relu(g.conv2d(w, b, x, stride=2, padding=1))
    >>> y.shape
    (4, 4, 4)
    >>> program = g.compile(y)
    >>> program(np.ones((3, 8, 8), np.float32), np.ones((4, 3, 3, 3), np.float32)).shape
    (4, 4, 4)
    """

    def __init__(self) -> None:
        self._recorder = Recorder()
        self._sizes: list[tuple[Size, ...]] = []
        self._calls: list[_Call] = []

    # --- leaves ---

    def input(self, shape: Sequence[Size], dtype: Any = "float32", name: str = "") -> Var:
        """A new argument of the program."""
        sizes = check_sizes("input", tuple(shape))
        if np.dtype(dtype) not in (np.float32, np.float64, np.int64, np.bool_):
            raise TypeError(f"input: float32, float64, int64 or bool; got {np.dtype(dtype)}; choose one of them")
        self._sizes.append(sizes)
        actual = tuple(stand_in(n) if not isinstance(n, int) else n for n in sizes)
        return engine.wrap(self._recorder.input(Aval(actual, np.dtype(dtype)), name))

    def constant(self, array: Any) -> Var:
        """An array that is part of the program."""
        return engine.wrap(self._recorder.symbol(as_tensor(array, op="constant").data, "constant"))

    # --- nodes ---

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(F, name, None) if name in F.__all__ else ops.find(name)
        if method is None:
            raise AttributeError(f"GraphBuilder has no method {name!r}: it is neither in lean_nn.functional nor a primitive")
        return lambda *args, **kwargs: self._call(name, method, args, kwargs)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *F.__all__, *ops.load_all()})

    def conv(self, kernel: Any, bias: Any, input: Any, stride: Any = 1, padding: Any = 0, **options: Any) -> Var:
        """`functional.conv` with the seeds' order of arguments: kernel, bias (or None), input."""
        return self._call("conv", F.conv, (input, kernel, bias, stride, padding), options)

    def conv2d(self, kernel: Any, bias: Any, input: Any, stride: Any = 1, padding: Any = 0, **options: Any) -> Var:
        """`functional.conv2d`: kernel, bias (or None), input."""
        return self._call("conv2d", F.conv2d, (input, kernel, bias, stride, padding), options)

    def conv_transpose(self, kernel: Any, bias: Any, input: Any, stride: Any = 1, padding: Any = 0, **options: Any) -> Var:
        """`functional.conv_transpose`: kernel, bias (or None), input."""
        return self._call("conv_transpose", F.conv_transpose, (input, kernel, bias, stride, padding), options)

    def conv_transpose2d(self, kernel: Any, bias: Any, input: Any, stride: Any = 1, padding: Any = 0, **options: Any) -> Var:
        """`functional.conv_transpose2d`: kernel, bias (or None), input."""
        return self._call("conv_transpose2d", F.conv_transpose2d, (input, kernel, bias, stride, padding), options)

    def _call(self, name: str, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mark = self._recorder.mark()
        try:
            args, kwargs = tree.transform(lambda leaf: self._own(leaf, name), (args, kwargs))
            result = method(*args, **kwargs)
        except (ValueError, TypeError, GraphError) as problem:
            self._recorder.undo(mark)
            raise type(problem)(f"node %{mark[1]} = {name}: {str(problem).removeprefix(f'{name}: ')}") from problem
        self._calls.append(_Call(mark[0], self._recorder.mark()[0], method, args, kwargs, result))
        return result

    def _own(self, leaf: Any, op: str) -> Any:
        """Arrays among the arguments are constants of this graph; a Var must be of this graph."""
        if isinstance(leaf, engine.Box) and isinstance(leaf.data, Symbol):
            self._recorder.symbol(leaf.data, op)
        return self.constant(leaf) if isinstance(leaf, np.ndarray) else leaf

    # --- programs ---

    @property
    def names(self) -> set[Size]:
        """The sizes that were left open."""
        return {n for sizes in self._sizes for n in sizes if not isinstance(n, int)}

    def traced(self, *outputs: Var) -> Traced:
        """The graph with these outputs; one alone is returned as itself, several as a tuple."""
        if not outputs:
            raise ValueError("compile: at least one output is needed; got none; pass the Vars to compute")
        wanted = [self._recorder.symbol(out.data, "compile").value for out in outputs]
        graph = self._recorder.graph.snapshot(wanted)
        arguments = tuple(ArraySpec(*graph.avals[v]) for v in graph.inputs)
        return Traced(graph, arguments, "*" if len(outputs) == 1 else ("*",) * len(outputs))

    def at(self, sizes: Mapping[Size, int], outputs: Sequence[Var]) -> Traced:
        """The graph built again with the open sizes as given."""
        new = GraphBuilder()
        graph = self._recorder.graph
        boxes: dict[int, Any] = {}
        for value, shape in zip(graph.inputs, self._sizes, strict=True):
            actual = [sizes[n] if not isinstance(n, int) else n for n in shape]
            boxes[value] = new.input(actual, graph.avals[value].dtype, graph.names.get(value, ""))
        boxes.update((value, new.constant(array)) for value, array in graph.constants.items())

        def translated(leaf: Any) -> Any:
            symbolic = isinstance(leaf, engine.Box) and isinstance(leaf.data, Symbol)
            return boxes[leaf.data.value] if symbolic else leaf

        calls, i = iter([*self._calls, None]), 0
        call = next(calls)
        while i < len(graph.nodes):
            while call is not None and call.stop <= i:
                call = next(calls)
            if call is not None and call.first == i:
                result = call.method(*tree.transform(translated, call.args), **tree.transform(translated, call.kwargs))
                old, made, i = tree.leaves(call.result), tree.leaves(result), call.stop
            else:
                node = graph.nodes[i]
                result = node.prim(*(boxes[v] for v in node.inputs), **node.params)
                old, made, i = list(node.outputs), tree.leaves(result), i + 1
            boxes.update((o if isinstance(o, int) else o.data.value, m) for o, m in zip(old, made, strict=True))
        return new.traced(*(boxes[out.data.value] for out in outputs))

    def compile(self, *outputs: Var, **options: Any) -> Any:
        """A `Program` that computes `outputs`; with open sizes, a `Family` of them. Options as for `lean_nn.compile`."""
        from lean_nn.graph.compiler import compile_builder

        return compile_builder(self, outputs, options)
