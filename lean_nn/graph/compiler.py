"""`compile`: from a function, a module or a builder to a `Program`, or to a `Family` of them where sizes are left open."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from lean_nn import tree
from lean_nn.graph.builder import GraphBuilder
from lean_nn.graph.ir import Array
from lean_nn.graph.passes import PASSES
from lean_nn.graph.program import Program, is_writeable
from lean_nn.graph.sizes import Size, check_sizes, is_shape, match
from lean_nn.graph.trace import ArraySpec, Traced, is_array, trace
from lean_nn_c import engine

CACHED = 16  # programs of a family that are kept


def compile(
    f: Callable[..., Any],
    *examples: Any,
    inplace: int | Sequence[int] = (),
    passes: Iterable[str] | None = None,
    share: bool = True,
    dtype: Any = "float32",
) -> Any:
    """A `Program` that computes ``f(*examples)`` for any arrays of these shapes and dtypes.

    f is run once, on Tensors without numbers; what it does to them is the program. Tensors and arrays that it takes
    from outside become constants. Gradients, tangents and updates inside f are traced like everything else.

    Parameters
    ----------
    f : callable
        Ordinary eager code on Tensors; or a Module of `lean_nn.nn` in eval mode, whose parameters become the program's.
    examples : arrays, Tensors, shapes, or tuples, lists and dicts of arrays
        One per argument. A shape is a tuple of ints, of `dtype`; None or a name in it is a size left open: then the
        result is a `Family`, which plans anew for each size it meets and keeps the latest.
    inplace : int or ints
        Arguments that the program keeps: f returns their new values first, in this order, and a call writes them into
        the arrays given here. They are left out of the call, and out of what it returns.
    passes : names from `lean_nn.graph.passes.PASSES`
        All unless told; ``lean_nn.graph.passes.EXACT`` are those that keep the bits.
    share : bool
        Let intermediate values share memory.
    dtype
        Of examples that are shapes.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn as ln
    >>> program = ln.compile(lambda x: (x * x).sum(), (3,))
    >>> program(np.array([1, 2, 3], np.float32))
    array(14., dtype=float32)
    >>> y, x_bar = program.vjp((np.array([1, 2, 3], np.float32),), np.float32(1))
    >>> x_bar
    (array([2., 4., 6.], dtype=float32),)

    A step of gradient descent that changes `w` where it lies:

    >>> w = np.array([1.0, 2.0], np.float32)
    >>> def step(w, x):
    ...     loss, g = ln.value_and_grad(lambda w: ((w * x).sum() - 1) ** 2)(w)
    ...     return w - 0.1 * g, loss
    >>> train = ln.compile(step, w, (2,), inplace=0)
    >>> float(train(np.array([1, 0], np.float32))), float(train(np.array([0, 1], np.float32)))
    (0.0, 1.0)
    >>> w
    array([1. , 1.8], dtype=float32)
    """
    f = f.for_compiling() if hasattr(f, "for_compiling") else f
    options: dict[str, Any] = {"passes": tuple(PASSES if passes is None else passes), "share": share}
    arguments = tuple(ArraySpec(check_sizes("compile", e), np.dtype(dtype)) if is_shape(e) else e for e in examples)  # type: ignore[arg-type]
    shapes = [leaf.shape for leaf in tree.leaves(arguments) if is_array(leaf)]
    kept = (inplace,) if isinstance(inplace, int) else tuple(inplace)
    if all(isinstance(n, int) for shape in shapes for n in shape):
        return _program(f, arguments, kept, options)
    if kept:
        raise ValueError("compile: a program that keeps arguments has one size; got an open one; give the batch size")
    return Family(lambda sizes: trace(f, _with_sizes(arguments, sizes)), shapes, options)


def compile_builder(builder: GraphBuilder, outputs: Sequence[Any], options: dict[str, Any]) -> Any:
    """`compile` for a graph that was built by hand."""
    if not builder.names:
        return Program(builder.traced(*outputs), **options)
    return Family(lambda sizes: builder.at(sizes, outputs), builder._sizes, options)


def _with_sizes(arguments: Any, sizes: dict[Size, int]) -> Any:
    def closed(leaf: Any) -> Any:
        if not isinstance(leaf, ArraySpec):
            return leaf
        return ArraySpec(tuple(n if isinstance(n, int) else sizes[n] for n in leaf.shape), leaf.dtype)

    return tree.transform(closed, arguments)


def _program(f: Callable[..., Any], arguments: tuple[Any, ...], kept: tuple[int, ...], options: dict[str, Any]) -> Program:
    traced = trace(f, arguments)
    if not kept:
        return Program(traced, **options)
    held = [_held_arrays(argument) if i in kept else [None] * _count(argument) for i, argument in enumerate(arguments)]
    _returns_first(traced, arguments, kept)
    return Program(traced, kept=[array for part in held for array in part], **options)


def _data_of(arguments: Any) -> list[Any]:
    """The arrays among the arguments, out of their Tensors."""
    return [leaf.data if isinstance(leaf, engine.Box) else leaf for leaf in tree.leaves(arguments) if is_array(leaf)]


def _count(argument: Any) -> int:
    return sum(is_array(leaf) for leaf in tree.leaves((argument,)))


def _held_arrays(argument: Any) -> list[Array | None]:
    """The arrays of an argument that the program keeps and writes to."""
    arrays: list[Any] = _data_of((argument,))
    for array in arrays:
        if not is_writeable(array):
            raise ValueError(f"compile: arguments kept in place are writeable contiguous arrays or Tensors; "
                             f"got {type(array).__name__}; pass the arrays themselves")
    return arrays


def _returns_first(traced: Traced, arguments: tuple[Any, ...], kept: tuple[int, ...]) -> None:
    """Turn the first results, which are the new values of the kept arguments, into updates."""
    graph, form = traced.graph, traced.result
    many = form if isinstance(form, tuple) else (form,)
    expected = tuple(tree.transform(lambda leaf: "*", arguments[i]) for i in kept)
    if tree.form(many[: len(kept)]) != tree.form(expected):
        raise ValueError(f"compile: the function returns the new values of arguments {kept} first; got a result of form "
                         f"{form}; return them in this order, before anything else")
    starts = np.cumsum([0, *(_count(argument) for argument in arguments)])
    places = [graph.inputs[i] for k in kept for i in range(starts[k], starts[k + 1])]
    for place, value in zip(places, graph.outputs, strict=False):
        if graph.avals[place] != graph.avals[value]:
            name, want, got = graph.names[place], graph.avals[place], graph.avals[value]
            raise ValueError(f"compile: the new value of {name} has its shape and dtype {want}; got {got}; convert it")
        graph.updates.append((place, value))
    graph.outputs = graph.outputs[len(places) :]
    rest = many[len(kept) :]
    traced.result = rest[0] if len(rest) == 1 else rest


class Family:
    """Programs of one function for different sizes: made when a size is met, the latest `CACHED` kept.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn as ln
    >>> family = ln.compile(lambda x: x.sum(1), (None, 4))
    >>> family(np.ones((2, 4), np.float32)), family(np.ones((3, 4), np.float32))
    (array([4., 4.], dtype=float32), array([4., 4., 4.], dtype=float32))
    """

    def __init__(
        self, make: Callable[[dict[Size, int]], Traced], shapes: Sequence[tuple[Size, ...]], options: dict[str, Any]
    ) -> None:
        self._make, self._shapes, self._options = make, list(shapes), options
        self._names = [str(i) for i in range(len(self._shapes))]
        self._open = {n for shape in self._shapes for n in shape if not isinstance(n, int)}
        self._lock = threading.Lock()
        self._programs: OrderedDict[tuple[tuple[Size, int], ...], Program] = OrderedDict()

    def at(self, sizes: dict[Size, int]) -> Program:
        """The program for these sizes, by name: ``family.at({None: 8})``."""
        if set(sizes) != self._open or not all(isinstance(n, int) and n >= 0 for n in sizes.values()):
            raise ValueError(f"program: open sizes are {sorted(map(str, self._open))}; got {sizes}; give each a number")
        key = tuple(sorted(sizes.items(), key=lambda item: str(item[0])))
        with self._lock:
            program = self._programs.get(key)
            if program is not None:
                self._programs.move_to_end(key)
                return program
        program = Program(self._make(sizes), **self._options)
        with self._lock:
            program = self._programs.setdefault(key, program)
            while len(self._programs) > CACHED:
                self._programs.popitem(last=False)
        return program

    def program_for(self, *arguments: Any) -> Program:
        """The program for arrays of these sizes."""
        return self.at(match(self._shapes, _data_of(arguments), self._names))

    def __call__(self, *arguments: Any, out: Any = None) -> Any:
        return self.program_for(*arguments)(*arguments, out=out)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return self.program_for(*primals).jvp(primals, tangents)

    def vjp(self, primals: Sequence[Any], cotangents: Any) -> tuple[Any, Any]:
        return self.program_for(*primals).vjp(primals, cotangents)

    def save(self, path: Any) -> NoReturn:
        """Not possible: a file holds the program of one size."""
        one = dict.fromkeys(self._open, 8)
        raise ValueError(f"save: a file holds the program of one size; got a family with open sizes; "
                         f"save one of them, as in family.at({one}).save(path)")

    def __reduce__(self) -> NoReturn:
        raise TypeError("pickle: a family of programs holds a function; got one; pickle the program of one size, family.at(...)")
