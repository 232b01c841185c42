"""Where every value lives, decided before anything runs.

**Places.** A value is in the caller's input, in a constant, in an output array, or in the *arena*: one block of memory
that all intermediate values share. A value that is only another look at one (reshape, a contiguous slice) has the
same place, perhaps at an offset.

**Life.** Nodes run in order, so a value is needed from the node that makes it to the last that reads it, through any of
its looks. Two values whose lives do not overlap may share memory. Three things make lives shorter than they seem:

* in place: an elementwise node may write over an argument of its own shape that dies there, and so may those in `OVER`;
* concat: where the parts lie one after the other in the result, they are computed there, and nothing is copied;
* update: the new value of a parameter is written over the old one as soon as nobody needs that any more, but not before
  the last node that may refuse what it is given: a call that fails leaves the caller's arrays as they were.

**Offsets.** Values are taken in the order of their birth. The free stretches of the arena are kept in a list; a value
takes the shortest that holds it, or the end. That is what a memory allocator would do while the program runs, but done
once, beforehand; hence the peak is known. It takes time proportional to the number of values times the number of
stretches, which stays small.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush
from math import prod
from typing import NamedTuple

from lean_nn.graph.ir import Graph, Node

ALIGNMENT = 64  # bytes: a cache line, and the widest vector
# (arguments, output): element by element, or group by group, the output is written after these arguments were read there
OVER: dict[str, tuple[tuple[int, ...], int]] = {
    "normalize": ((0,), 0),
    "normalize_layer": ((0, 3), 0),
    "normalize_transpose": ((0, 3), 0),
    "normalize_transpose_layer": ((0, 7), 0),
    "normalize_transpose_kept": ((0, 7), 3),
}


class Place(NamedTuple):
    """`kind` is arena, input, constant or output; `index` says which (for the arena: 0); `offset` is in bytes."""

    kind: str
    index: int  # type: ignore[assignment]  # a tuple's method of that name is not missed
    offset: int = 0


class Plan:
    """What the executor needs: places by value, the nodes that really run, copies at the end, bytes of the arena.

    `copies` are (from value, to place) for outputs and updates that could not be computed where they belong.
    """

    __slots__ = ("arena", "copies", "places", "steps")

    def __init__(self, places: list[Place], steps: list[Node], copies: list[tuple[int, Place]], arena: int) -> None:
        self.places, self.steps, self.copies, self.arena = places, steps, copies, arena


class _Root:
    """A stretch of memory that one or more values look at."""

    __slots__ = ("birth", "death", "inside", "nbytes", "place")

    def __init__(self, nbytes: int, birth: int, death: int, place: Place | None = None) -> None:
        self.nbytes = nbytes
        self.birth = birth  # the node that makes it; -1: there from the start
        self.death = death  # the last node that reads it; len(nodes): wanted at the end
        self.place = place
        self.inside: tuple[int, int] | None = None  # (another root, offset): part of it


class _Planner:
    def __init__(self, graph: Graph, share: bool) -> None:
        self.graph, self.share = graph, share
        self.roots: list[_Root] = []
        self.look: list[tuple[int, int]] = [(0, 0)] * len(graph.avals)  # value -> (root, offset)
        self.end = len(graph.nodes)
        self.skipped: set[int] = set()  # nodes that do nothing once their places are known
        self.refusals = max((i for i, node in enumerate(graph.nodes) if node.prim.checks_values), default=-1)

    def plan(self) -> Plan:
        self._make_roots()
        self._count_lives()
        copies = self._place_results()
        if self.share:
            self._join_concats()
            self._write_in_place()
        arena = self._assign_offsets()
        places = [self._place(value) for value in range(len(self.graph.avals))]
        steps = [node for i, node in enumerate(self.graph.nodes) if i not in self.skipped]
        return Plan(places, steps, copies, arena)

    # --- roots and their lives ---

    def _new_root(self, value: int, birth: int, place: Place | None = None) -> None:
        self.look[value] = (len(self.roots), 0)
        self.roots.append(_Root(self.graph.nbytes(value), birth, birth, place))

    def _make_roots(self) -> None:
        graph = self.graph
        for i, value in enumerate(graph.inputs):
            self._new_root(value, -1, Place("input", i))
        for value in graph.constants:
            self._new_root(value, -1, Place("constant", value))
        for i, node in enumerate(graph.nodes):
            offset = _view_offset(graph, node)
            if offset is None:
                for value in node.outputs:
                    self._new_root(value, i)
            else:
                root, base = self.look[node.inputs[0]]
                self.look[node.outputs[0]] = (root, base + offset)
                self.skipped.add(i)

    def _count_lives(self) -> None:
        for i, node in enumerate(self.graph.nodes):
            for value in node.inputs:
                root = self.roots[self.look[value][0]]
                root.death = max(root.death, i)
        for value in self.graph.wanted():
            self.roots[self.look[value][0]].death = self.end

    # --- results ---

    def _place_results(self) -> list[tuple[int, Place]]:
        """Outputs and updates are computed where they belong, if that is free; otherwise copied at the end."""
        copies: list[tuple[int, Place]] = []
        wanted = [(value, Place("output", i)) for i, value in enumerate(self.graph.outputs)]
        for place_value, new in self.graph.updates:
            index = self.graph.inputs.index(place_value)
            wanted.append((new, Place("input", index)))
        for value, place in wanted:
            number, offset = self.look[value]
            root = self.roots[number]
            whole = offset == 0 and root.nbytes == self.graph.nbytes(value)
            if root.place is None and whole and self._is_free(place, root):
                root.place = place
            elif root.place != place or not whole:
                copies.append((value, place))
        return copies

    def _is_free(self, place: Place, root: _Root) -> bool:
        """Whether nobody needs what is in `place` when `root` is born: outputs always, an input after its last use."""
        if place.kind == "output":
            return True
        if not self.share:
            return False
        number, _ = self.look[self.graph.inputs[place.index]]
        old = self.roots[number]
        if root.birth < self.refusals:  # a node that comes later may refuse its arguments
            return False
        if old.death < root.birth:
            return True
        return old.death == root.birth and self._may_overwrite(root.birth, number)

    def _may_overwrite(self, index: int, number: int) -> bool:
        """Whether node `index` may write its first output over its argument(s) in root `number`."""
        node = self.graph.nodes[index]
        if node.prim.pointwise is None:
            return False
        out = self.graph.avals[node.outputs[0]]
        return all(
            self.graph.avals[value] == out and self.look[value][1] == 0
            for value in node.inputs
            if self.look[value][0] == number
        )

    # --- sharing ---

    def _join_concats(self) -> None:
        """Parts of a concat along the outermost axis are computed in the result itself."""
        for i, node in enumerate(self.graph.nodes):
            if node.prim.name != "concat" or prod(self.graph.avals[node.outputs[0]].shape[: node.params["axis"]]) != 1:
                continue
            whole, base = self.look[node.outputs[0]]
            place = self.roots[whole].place
            if place is not None and place.kind == "input":
                continue  # an update: its place is free at the concat, but not yet where the parts are made
            parts = [self.look[value] for value in node.inputs]
            if not all(self._can_join(part, value, i) for part, value in zip(parts, node.inputs, strict=True)):
                continue
            if len({number for number, _ in parts}) < len(parts):
                continue
            offset = base
            for (number, _), value in zip(parts, node.inputs, strict=True):
                part = self.roots[number]
                part.inside = (whole, offset)
                self.roots[whole].birth = min(self.roots[whole].birth, part.birth)
                offset += self.graph.nbytes(value)
            self.skipped.add(i)

    def _can_join(self, look: tuple[int, int], value: int, index: int) -> bool:
        number, offset = look
        root = self.roots[number]
        own = root.place is None and root.inside is None and offset == 0 and root.nbytes == self.graph.nbytes(value)
        return own and root.death <= index and root.birth >= 0

    def _write_in_place(self) -> None:
        """A node writes over an argument that dies there, if it may."""
        for i, node in enumerate(self.graph.nodes):
            inputs, output = _overwritable(node)
            if i in self.skipped or not inputs:
                continue
            number, _ = self.look[node.outputs[output]]
            out = self.roots[number]
            if out.place is not None or out.inside is not None or out.nbytes == 0 or out.birth < i:
                continue
            for value in inputs:
                old, offset = self.look[value]
                root = self.roots[old]
                dies = root.death == i and root.place is None and root.inside is None and offset == 0
                if dies and root.nbytes == out.nbytes and (self._may_overwrite(i, old) or self._read_once(node, old)):
                    root.death = out.death
                    out.inside = (old, 0)
                    break

    def _read_once(self, node: Node, number: int) -> bool:
        """Whether one argument only of a node in `OVER` is in root `number`."""
        return node.prim.name in OVER and sum(self.look[value][0] == number for value in node.inputs) == 1

    # --- offsets ---

    def _assign_offsets(self) -> int:
        """Best fit in the order of birth; returns the size of the arena."""
        arena = _Arena()
        dying: list[tuple[int, int, int]] = []  # (death, offset, size), a heap
        roots = [root for root in self.roots if root.place is None and root.inside is None]
        for root in sorted(roots, key=lambda r: (r.birth, -r.nbytes)):
            while dying and dying[0][0] < root.birth:
                _, offset, size = heappop(dying)
                arena.give(offset, size)
            size = -(-root.nbytes // ALIGNMENT) * ALIGNMENT
            root.place = Place("arena", 0, arena.take(size))
            heappush(dying, (root.death, root.place.offset, size))
        return arena.peak

    def _place(self, value: int) -> Place:
        number, offset = self.look[value]
        root = self.roots[number]
        while root.place is None:
            number, base = root.inside if root.inside is not None else (number, 0)
            offset, root = offset + base, self.roots[number]
        return Place(root.place.kind, root.place.index, root.place.offset + offset)


class _Arena:
    """An allocator that only plans: free stretches below `top`, by offset, no two of them adjacent."""

    def __init__(self) -> None:
        self.free: list[tuple[int, int]] = []  # (offset, size)
        self.top = self.peak = 0

    def take(self, size: int) -> int:
        """The shortest free stretch that holds `size` bytes, or the end."""
        fitting = [(length, i) for i, (_, length) in enumerate(self.free) if length >= size]
        if not fitting or size == 0:
            offset = self.top
            if size and self.free and sum(self.free[-1]) == self.top:  # the last stretch reaches the end: grow it
                offset, _ = self.free.pop()
            self.top = offset + size
            self.peak = max(self.peak, self.top)
            return offset
        length, i = min(fitting)
        offset, _ = self.free[i]
        self.free[i : i + 1] = [(offset + size, length - size)] if length > size else []
        return offset

    def give(self, offset: int, size: int) -> None:
        if size == 0:
            return
        i = bisect_left(self.free, (offset, 0))
        if i < len(self.free) and self.free[i][0] == offset + size:
            size += self.free.pop(i)[1]
        if i and sum(self.free[i - 1]) == offset:
            offset, before = self.free.pop(i - 1)
            size, i = size + before, i - 1
        self.free.insert(i, (offset, size))


def _overwritable(node: Node) -> tuple[tuple[int, ...], int]:
    """Values that a node may write over, and the output that it may write there."""
    if node.prim.pointwise is not None and len(node.outputs) == 1:
        return node.inputs, 0
    places, output = OVER.get(node.prim.name, ((), 0))
    return tuple(node.inputs[k] for k in places if k < len(node.inputs)), output


def _view_offset(graph: Graph, node: Node) -> int | None:
    """Bytes into its first argument at which a node's output begins, if the output is only a look at that."""
    if node.prim.view is not None:
        return 0
    if node.prim.name != "slice":
        return None
    shape, size = graph.avals[node.inputs[0]].shape, node.params["size"]
    start, step = node.params["start"], node.params["step"]
    inner, seen = 1, False  # elements of the axes behind; whether a cut axis has been met, from the back
    first = 0
    for axis in range(len(shape) - 1, -1, -1):
        if seen and size[axis] != 1:
            return None
        if size[axis] != shape[axis]:
            seen = True
        if size[axis] > 1 and step[axis] != 1:
            return None
        first += start[axis] * inner
        inner *= shape[axis]
    return first * graph.avals[node.inputs[0]].dtype.itemsize if prod(size) else 0


def make_plan(graph: Graph, share: bool = True) -> Plan:
    """Places for all values; without `share` every value has memory of its own while it lives."""
    return _Planner(graph, share).plan()
