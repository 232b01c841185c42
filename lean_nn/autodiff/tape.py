"""`Tape`: record once, then push tangents forward or pull cotangents back over the same nodes.

A tape is a level (see ``lean_nn_c/engine.pyx``) that records every operation of its thread while it is open,
whoever else is interested, and keeps the nodes in a list. With y = f(x) recorded, J the Jacobian of f:

* **push** walks the list from the front. It holds the tangents of the boxes reached so far; a node with a
  moving argument asks its primitive's forward rule for the outputs' tangents: J·v.
* **pull** walks it from the back (`lean_nn_c.sweep`). It holds the cotangents not yet passed on; a node that one
  has reached asks its primitive's reverse rule for the arguments' cotangents: vᵀ·J.

Both apply rules made of primitives, so both can be recorded, pushed and pulled again by an outer tape. Both
deal in *keys*: a box made by a node of this tape is (node, output number); any other box is a leaf, known by
its identity.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lean_nn.autodiff.forward import output_tangents
from lean_nn.convert import as_tensor, zeros_like
from lean_nn.primitive import FLOATS, OBJECT, GraphError
from lean_nn_c import engine, sweep

Key = tuple[int, int]


class Derivatives:
    """Tangents or cotangents by Tensor: ``d[x]``, or ``d[x, w]`` for several; zeros where nothing arrived."""

    def __init__(self, tape: Tape, values: dict[Key, Any], what: str) -> None:
        self._tape = tape
        self._values = values
        self._what = what

    def __getitem__(self, tensors: Any) -> Any:
        if isinstance(tensors, tuple):
            return tuple(self[tensor] for tensor in tensors)
        value = self._values.get(self._tape.key(tensors, self._what))
        return zeros_like(tensors) if value is None else value


class Tape:
    """Records every operation while open; ``keep=False`` frees what nodes saved as the first pull passes them.

    Examples
    --------
    >>> import lean_nn as ln
    >>> x = ln.tensor([1.0, 2.0, 3.0])
    >>> with ln.Tape() as tape:
    ...     y = x * x
    >>> tape.push({x: [1.0, 0.0, 0.0]})[y]
    tensor([2., 0., 0.])
    >>> tape.pull({y: [1.0, 1.0, 1.0]})[x]
    tensor([2., 4., 6.])
    """

    def __init__(self, *, keep: bool = True) -> None:
        self.keep = keep
        self.nodes: list[engine.Node] = []
        self._level = 0
        self._leaves: dict[int, Any] = {}
        self._scanned = 0

    def __enter__(self) -> Tape:
        if self._level:
            raise GraphError("tape: a tape is opened once; got a second `with`; make another Tape()")
        self._level = engine.open_level(self.nodes)
        return self

    def __exit__(self, *exc: object) -> None:
        engine.close_level(self._level)

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[engine.Node]:
        return iter(self.nodes)

    # --- the two walks ---

    def push(self, tangents: Mapping[Any, Any]) -> Derivatives:
        """J·v: carry tangents of leaves (or of any recorded Tensor) forward."""
        moving = {self.key(box, "push"): matching("push", box, t) for box, t in tangents.items()}
        given = dict(moving)
        for node in self.nodes:
            if node.inputs is None:
                raise GraphError(f"push: the values saved by node {node.id} ({node.prim.name}) were freed by a pull; "
                                 f"got a push after it; use Tape(keep=True)")
            dots = [moving.get(self._key(box)) for box in node.inputs]
            if all(dot is None for dot in dots):
                continue
            outs = output_tangents(node.prim, node.inputs, dots, sweep.outputs_of(node), node.params)
            for index, dot in enumerate(outs):
                if dot is not None and (node.id, index) not in given:
                    moving[node.id, index] = dot
        return Derivatives(self, moving, "push")

    def pull(self, cotangents: Mapping[Any, Any], wrt: Sequence[Any] | None = None) -> Derivatives:
        """vᵀ·J: carry cotangents of recorded Tensors back to `wrt` (default: every leaf the tape has seen)."""
        roots = [(box, matching("pull", box, g)) for box, g in cotangents.items()]
        for box, _ in roots:
            self.key(box, "pull")
        targets = list(self._known_leaves().values()) if wrt is None else list(wrt)
        keys = {self.key(box, "pull") for box in targets}
        inner = dict.fromkeys(node_id for node_id, index in keys if index >= 0)
        found = sweep.pull(
            roots,
            1 << self._level,
            keep=self.keep,
            wanted={leaf for leaf, index in keys if index < 0},
            needed=self._between(keys),
            inner=inner,
        )
        values: dict[Key, Any] = {(leaf, -1): g for leaf, (_, g) in found.items()}
        for node_id, g in inner.items():
            if g is not None:
                many = g if isinstance(g, tuple) else (g,)
                values.update({(node_id, index): one for index, one in enumerate(many)})
        return Derivatives(self, values, "pull")

    # --- keys ---

    def _owns(self, node: engine.Node | None) -> bool:
        if node is None:
            return False
        place = bisect_left(self.nodes, node.id, key=lambda n: n.id)
        return place < len(self.nodes) and self.nodes[place] is node

    def _key(self, box: Any) -> Key:
        return (box.node.id, box.index) if self._owns(box.node) else (id(box), -1)

    def key(self, box: Any, what: str) -> Key:
        """The key of a Tensor this tape has made or seen; an error for any other."""
        if not isinstance(box, engine.Box):
            raise TypeError(f"{what}: a Tensor is needed; got {type(box).__name__}; use the Tensors that were recorded")
        if not self.knows(box):
            raise GraphError(f"{what}: a Tensor recorded on this tape is needed; got one of shape {box.data.shape} that it "
                             f"has not seen; use a Tensor made or used inside `with`")
        return self._key(box)

    def knows(self, box: Any) -> bool:
        """Whether this tape has made or seen the Tensor."""
        return self._owns(box.node) or id(box) in self._known_leaves()

    def _known_leaves(self) -> dict[int, Any]:
        """The Tensors that went into the recorded operations from outside, by identity."""
        for node in self.nodes[self._scanned :]:
            for box in node.inputs or ():
                if not self._owns(box.node) and _can_move(box):
                    self._leaves[id(box)] = box
        self._scanned = len(self.nodes)
        return self._leaves

    def _between(self, targets: set[Key]) -> set[int]:
        """The nodes that depend on a target: the others need not be visited."""
        reached = set(targets)
        needed = {node_id for node_id, index in targets if index >= 0}
        for node in self.nodes:
            if any(self._key(box) in reached for box in node.inputs or ()):
                needed.add(node.id)
                reached.update((node.id, index) for index in range(node.prim.outputs))
        return needed

    def __str__(self) -> str:
        return "\n".join(_line(node, self) for node in self.nodes)


def _can_move(box: Any) -> bool:
    return not box.mask & engine.CONSTANT and (box.data.dtype in FLOATS or box.data.dtype == OBJECT)


def _line(node: engine.Node, tape: Tape) -> str:
    """``%7 = conv(%3, x:(4, 3, 8, 8)) {stride=(1, 1)} -> (4, 8, 8, 8) float32``"""
    if node.inputs is None:
        operands = "freed"
    else:
        operands = ", ".join(
            f"%{box.node.id}" + (f".{box.index}" if box.node.prim.outputs > 1 else "")
            if tape._owns(box.node)
            else f"{box.data.dtype}{list(box.data.shape)}"
            for box in node.inputs
        )
    params = "".join(f" {name}={value}" for name, value in node.params.items())
    results = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in node.avals or ())
    return f"%{node.id} = {node.prim.name}({operands}){params} -> {results}"


def matching(what: str, box: Any, value: Any) -> Any:
    """`value` as a Tensor of the shape and dtype of `box`, or the documented error."""
    if not isinstance(box, engine.Box):
        raise TypeError(f"{what}: a Tensor is needed as key; got {type(box).__name__}; use the Tensors that were recorded")
    tensor = value if isinstance(value, engine.Box) else as_tensor(value, None if hasattr(value, "dtype") else box.data.dtype)
    if tensor.data.shape != box.data.shape:
        raise ValueError(f"{what}: a tangent or cotangent has its Tensor's shape {box.data.shape}; got {tensor.data.shape}; "
                         f"reshape it")
    if tensor.data.dtype != box.data.dtype:
        raise TypeError(f"{what}: a tangent or cotangent has its Tensor's dtype {box.data.dtype}; got {tensor.data.dtype}; "
                        f"convert it with .astype(...)")
    return tensor
