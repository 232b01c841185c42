"""`compile`: from a function, a module or a builder to a `Program`, or to a `Family` of them where sizes are left open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from lean_nn import tree
from lean_nn.graph.builder import GraphBuilder
from lean_nn.graph.family import Family
from lean_nn.graph.ir import Array
from lean_nn.graph.passes import PASSES
from lean_nn.graph.program import Program, is_writeable
from lean_nn.graph.sizes import Size, check_sizes, is_shape
from lean_nn.graph.trace import ArraySpec, Traced, is_array, trace
from lean_nn_c import engine


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
    if not callable(f):
        raise TypeError(f"compile: a function or a Module is needed; got {type(f).__name__}; pass it first, then its examples")
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


def _count(argument: Any) -> int:
    return sum(is_array(leaf) for leaf in tree.leaves((argument,)))


def _held_arrays(argument: Any) -> list[Array | None]:
    """The arrays of an argument that the program keeps and writes to."""
    leaves = [leaf for leaf in tree.leaves((argument,)) if is_array(leaf)]
    arrays: list[Any] = [leaf.data if isinstance(leaf, engine.Box) else leaf for leaf in leaves]
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
