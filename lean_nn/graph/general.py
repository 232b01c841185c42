"""One description for all sizes: what `Family.save` writes.

A file holds a graph as JSON, and the graph of a family is known only by tracing its function at given sizes. So it is traced at
several, described each time, and the descriptions are laid over each other. Where they agree, they say what holds for all
sizes. Where whole numbers differ (a shape to reshape to, the end of a slice), there must be a polynomial in the
sizes, of degree two at most, that gives them all: with one open size n, three traces determine it, and all others must
confirm it. Constants that differ must be one number throughout (the zeros that a recurrent layer starts from, the divisor of a
mean, a reciprocal of one), and the number fixed or, again, such a polynomial. Anything else, another operator above all,
is a graph that depends on its sizes in a way that a file cannot say: an error that names the node.

**Is that enough?** Polynomials that agree at more places than they have coefficients are one, but a function may ask
``if x.shape[0] > 100``. One of the traces therefore watches: its sizes are integers that remember what they are compared with,
also after arithmetic with fixed numbers (``watched.py``), and the function is traced on both sides of every such place as well.
A number that went through ``len``, ``range``, ``operator.index`` or NumPy has forgotten; the sizes `FAR` are for those: a
function that asks whether its size is larger than any number up to 65,536 answers differently at two of them, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, zip_longest
from math import prod
from random import Random
from typing import Any, NamedTuple

import numpy as np

from lean_nn.graph.coding import NAMES, encode, number_at
from lean_nn.graph.family import Family
from lean_nn.graph.ir import Array, Node
from lean_nn.graph.sizes import DEGREE, Size, closed, shown
from lean_nn.graph.trace import Traced
from lean_nn.graph.watched import LARGEST, Watched
from lean_nn.primitive import GraphError

USUAL = (2, 3, 5, 1, 4, 7, 0, 64, 1031)
ROOMY = (8, 16, 24, 32, 48, 96, 128, 224, 256, 384)  # where a function wants larger pictures, say, than the usual
CONFIRM = 3  # traces more than a polynomial has coefficients
WATCHED = 6  # sizes of the trace that watches
PLACES = 32  # that a function may compare its sizes with
FAR = (10, 100, 256, 1000, 4096, 10_000, LARGEST)  # where forgotten comparisons show: one open size at a time


# --- tracing at several sizes ---


def traces(family: Family) -> list[tuple[dict[Size, int], Traced]]:
    """Sizes and what was recorded with them: enough for every polynomial, and on both sides of what is asked for."""
    count = len(family.open)
    needed = len(monomials(count)) + CONFIRM
    found: dict[tuple[int, ...], Traced] = {}
    problem: Exception | None = None
    for sizes in _candidates(count):
        if len(found) >= needed and sizes not in _first(count):
            break
        try:
            found[sizes] = family.make(dict(zip(family.open, sizes, strict=True)))
        except (ValueError, ArithmeticError) as refused:
            problem = problem or refused
    if len(found) < needed:
        raise ValueError(f"save: a family is traced at {needed} sizes at least; got {len(found)} that its function takes, for "
                         f"otherwise it says: {problem}; save one of its programs, as in family.at(...).save(path)")
    alike = len({len(traced.graph.nodes) for sizes, traced in found.items() if min(sizes) > 1}) == 1
    for sizes in (*_places(family), *(_far(count) if alike else ())):  # a loop over a size is refused without running far
        if sizes not in found:
            try:
                found[sizes] = family.make(dict(zip(family.open, sizes, strict=True)))
            except (ValueError, ArithmeticError, MemoryError):
                continue  # not a size that the function takes
    return [(dict(zip(family.open, sizes, strict=True)), traced) for sizes, traced in found.items()]


def _first(count: int) -> list[tuple[int, ...]]:
    """The usual sizes, all alike for several; then each of them 1 while the others are not."""
    alone = [tuple(1 if i == j else 5 for j in range(count)) for i in range(count)]
    return list(dict.fromkeys([*((n,) * count for n in USUAL), *(alone if count > 1 else [])]))


def _candidates(count: int) -> Iterator[tuple[int, ...]]:
    """Sizes to try: the first ones; for several, as many mixtures as polynomials need; larger ones where these are refused."""
    yield from _first(count)
    mixed = Random(0)
    if count > 1:
        for _ in range(4 * len(monomials(count))):
            yield tuple(mixed.choice((2, 3, 4, 5, 7, 11)) for _ in range(count))
    for n in ROOMY:
        yield (n,) * count
        if count > 1:
            yield tuple(mixed.choice(ROOMY) for _ in range(count))


def _far(count: int) -> list[tuple[int, ...]]:
    """Sizes far apart, one of them at a time."""
    return [tuple(n if i == j else WATCHED for j in range(count)) for i in range(count) for n in FAR]


def _places(family: Family) -> list[tuple[int, ...]]:
    """Sizes next to those that the function asks for, one of them at a time."""
    seen: set[tuple[int, int]] = set()
    try:
        family.make({name: Watched.of(WATCHED, i, 1, 0, seen) for i, name in enumerate(family.open)})
    except (ValueError, ArithmeticError):
        return []  # these sizes are none that the function takes
    if len(seen) > 3 * PLACES:
        raise ValueError(f"save: a function compares its open sizes with at most {PLACES} numbers; got {len(seen) // 3}; "
                         f"save one of its programs, as in family.at(...).save(path)")
    return [tuple(n if i == j else WATCHED for j in range(len(family.open))) for i, n in sorted(seen)]


# --- polynomials ---


def monomials(count: int) -> list[tuple[int, ...]]:
    """Products of at most `DEGREE` of `count` sizes, by their numbers: for one size (), (0,), (0, 0)."""
    return [factors for degree in range(DEGREE + 1) for factors in combinations_with_replacement(range(count), degree)]


class Fit:
    """Finds the polynomial through values at given sizes; the linear system is solved once, in fractions."""

    def __init__(self, sizes: Sequence[tuple[int, ...]]) -> None:
        self.sizes = sizes
        self.terms = monomials(len(sizes[0]))
        self.rows = [[prod(point[i] for i in term) for term in self.terms] for point in sizes]
        self.chosen, self.inverse = _inverse(self.rows)

    def terms_of(self, values: Sequence[int]) -> list[list[Any]] | None:
        """Terms of the polynomial with whole coefficients that has these values, or None."""
        given = [values[i] for i in self.chosen]
        solved = [sum(f * v for f, v in zip(row, given, strict=True)) for row in self.inverse]
        if any(c.denominator != 1 for c in solved):
            return None
        if any(sum(c * m for c, m in zip(solved, row, strict=True)) != v for row, v in zip(self.rows, values, strict=True)):
            return None
        return [[int(c), list(term)] for c, term in zip(solved, self.terms, strict=True) if c] or [[0, []]]


def _inverse(rows: list[list[int]]) -> tuple[list[int], list[list[Fraction]]]:
    """Rows that are independent, and the inverse of the square matrix that they are: Gauss and Jordan."""
    width = len(rows[0])
    chosen: list[int] = []
    reduced: list[tuple[int, list[Fraction]]] = []  # (pivot column, row followed by its share of each chosen one)
    for number, row in enumerate(rows):
        line = [Fraction(n) for n in row] + [Fraction(int(i == len(chosen))) for i in range(width)]
        for pivot, other in reduced:
            line = [a - line[pivot] * b for a, b in zip(line, other, strict=True)]
        column = next((i for i in range(width) if line[i]), None)
        if column is None:
            continue
        line = [a / line[column] for a in line]
        reduced = [(p, [a - other[column] * b for a, b in zip(other, line, strict=True)]) for p, other in reduced]
        reduced.append((column, line))
        chosen.append(number)
        if len(chosen) == width:
            return chosen, [line[width:] for _, line in sorted(reduced)]
    raise ValueError("save: open sizes vary independently of each other; got a function that ties them together; "
                     "give them one name")


# --- laying descriptions over each other ---


class Different(Exception):
    """Parts of descriptions that no polynomial makes one."""


def merged(parts: Sequence[Any], fit: Fit) -> Any:
    """One value in JSON's types that is each of `parts` at its sizes."""
    first = parts[0]
    if any(type(part) is not type(first) for part in parts):
        raise Different
    if isinstance(first, (list, dict)) and any(len(part) != len(first) for part in parts):
        raise Different
    if isinstance(first, list):
        return [merged(inner, fit) for inner in zip(*parts, strict=True)]
    if isinstance(first, dict):
        if any(part.keys() != first.keys() for part in parts):
            raise Different
        return {key: merged([part[key] for part in parts], fit) for key in first}
    if all(part == first for part in parts):
        return first
    terms = fit.terms_of(parts) if type(first) is int else None
    if terms is None:
        raise Different
    return {"n": terms}


class Described(NamedTuple):
    """A family's function at some sizes: what was recorded, its description and its arrays."""

    sizes: dict[Size, int]
    traced: Traced
    parts: dict[str, Any]
    arrays: list[Array]


def describe_all(variants: Sequence[Described]) -> tuple[dict[str, Any], dict[str, Array]]:
    """The description that gives each variant at its sizes, and the arrays that they have in common.

    Of nothing a function is often something else (a slice that takes all, a mean without a divisor): then the sizes of the file
    begin at 1, and it says so.
    """
    some = [v for v in variants if all(v.sizes.values())]
    try:
        return _describe(variants, 0)
    except GraphError:
        return _describe(some, 1)


def _describe(variants: Sequence[Described], least: int) -> tuple[dict[str, Any], dict[str, Array]]:
    first = variants[0]
    fit = Fit([tuple(v.sizes.values()) for v in variants])
    for other in variants[1:]:
        _check_operators(first, other)
    constants, arrays = _constants(variants, fit)
    try:
        rest = {key: merged([v.parts[key] for v in variants], fit) for key in first.parts if key not in ("nodes", "constants")}
    except Different:
        raise _refused("inputs and outputs", "their number or form changes with the sizes") from None
    nodes = [_node(variants, i, fit) for i in range(len(first.traced.graph.nodes))]
    return {**rest, "constants": constants, "nodes": nodes,
            "sizes": [[name, least, n] for name, n in first.sizes.items()]}, arrays


def _refused(what: str, why: str) -> GraphError:
    return GraphError(f"save: the file of a family holds one graph for all sizes; got {what}: {why}; save one of its programs, "
                      f"as in family.at(...).save(path)")


def _check_operators(first: Described, other: Described) -> None:
    """The same operators on the same values, in the same order."""
    for ours, theirs in zip_longest(first.traced.graph.nodes, other.traced.graph.nodes):
        if ours is None or theirs is None or (ours.prim, *ours[1:3]) != (theirs.prim, *theirs[1:3]):
            value = (ours or theirs).outputs[0]
            raise _refused(f"node %{value}", f"with {shown(first.sizes)} it is {_spelt(ours)}, with {shown(other.sizes)} "
                                             f"it is {_spelt(theirs)}")  # fmt: skip
    ends = [(g.inputs, list(g.constants), g.outputs, g.updates) for g in (first.traced.graph, other.traced.graph)]
    if ends[0] != ends[1]:
        raise _refused("its outputs", f"they are not the same values with {shown(first.sizes)} and {shown(other.sizes)}")


def _spelt(node: Node | None) -> str:
    return "not there" if node is None else f"{node.prim.name}({', '.join(f'%{v}' for v in node.inputs)})"


def _node(variants: Sequence[Described], i: int, fit: Fit) -> list[Any]:
    """A node with its numbers as polynomials; types that follow from its arguments in another way are left to ``abstract``."""
    op, inputs, _, _ = variants[0].parts["nodes"][i]
    params, types = ([v.parts["nodes"][i][part] for v in variants] for part in (2, 3))
    try:
        params = merged(params, fit)
    except Different:
        node = variants[0].traced.graph.nodes[i]
        raise _refused(f"node %{node.outputs[0]} = {_spelt(node)}", f"its parameters, {node.params} with "
                       f"{shown(variants[0].sizes)}, are no polynomial in the sizes") from None  # fmt: skip
    try:
        return [op, inputs, params, merged(types, fit)]
    except Different:
        return [op, inputs, params, None]


def _constants(variants: Sequence[Described], fit: Fit) -> tuple[list[Any], dict[str, Array]]:
    """Per constant its name, if it is the same for all sizes, otherwise how it follows from them; and the arrays by name."""
    entries: list[Any] = []
    arrays: dict[str, Array] = {}
    for i, value in enumerate(variants[0].traced.graph.constants):
        same = [v.arrays[i] for v in variants]
        if all(array is same[0] or _equal(array, same[0]) for array in same):
            entries.append(f"constant.{len(arrays)}")
            arrays[entries[-1]] = same[0]
        else:
            entries.append(_one_number(same, fit, f"constant %{value}"))
    return entries, arrays


def _equal(a: Array, b: Array) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def _one_number(arrays: Sequence[Array], fit: Fit, what: str) -> dict[str, Any]:
    """``{"full": [dtype, shape, number]}`` for arrays that hold one number each."""
    dtype = arrays[0].dtype
    if any(a.dtype != dtype or (a.size and a.tobytes() != np.full(a.shape, a.flat[0]).tobytes()) for a in arrays):
        raise _refused(what, "its values change with the sizes, and are not one number throughout")
    known = [(i, a.flat[0]) for i, a in enumerate(arrays) if a.size]
    try:
        shape = merged([list(a.shape) for a in arrays], fit)
        number = _number([n for _, n in known], Fit([fit.sizes[i] for i, _ in known]))
    except (Different, IndexError):
        raise _refused(what, f"its shape or number, {arrays[0].shape} of {arrays[0].flat[:1]} with the first sizes, is no "
                             f"polynomial in the sizes") from None  # fmt: skip
    return {"full": [NAMES[dtype], shape, number]}


def _number(values: Sequence[Any], fit: Fit) -> Any:
    """The number as it is, if it is always the same; a polynomial; or ``{"over": polynomial}`` for its reciprocal."""
    if len({v.tobytes() for v in values}) == 1:
        return encode(values[0].item())
    for over in (False, True):
        with np.errstate(all="ignore"):
            whole = [1 / v.item() if over and v else v.item() for v in values]
        if not all(np.isfinite(n) for n in whole):
            continue
        terms = fit.terms_of([round(n) for n in whole])
        if terms is None:
            continue
        number = {"over": {"n": terms}} if over else {"n": terms}
        if all(_same(number_at(closed(number, s), v.dtype), v) for s, v in zip(fit.sizes, values, strict=True)):
            return number
    raise Different


def _same(a: Any, b: Any) -> bool:
    return bool(a.tobytes() == b.tobytes())
