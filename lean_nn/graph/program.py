"""`Program`: a compiled graph. Call it, differentiate it, look at it, save it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np

from lean_nn import tree
from lean_nn.convert import as_array, as_tensor
from lean_nn.device import CPU, Device, common_device, device_of, holds_numbers, is_foreign
from lean_nn.graph import listing
from lean_nn.graph.execute import executor
from lean_nn.graph.ir import Array, Graph, size_of
from lean_nn.graph.passes import PASSES, optimise, stages
from lean_nn.graph.plan import make_plan
from lean_nn.graph.symbol import describe
from lean_nn.graph.trace import ArraySpec, Traced, apply_graph, constants_on, is_array, trace
from lean_nn.graph.updates import set_aside
from lean_nn.primitive import FLOATS, Aval, GraphError
from lean_nn_c import engine, memory
from lean_nn_c.executor import Signature, overlapping
from lean_nn_c.threads import get_num_threads

if TYPE_CHECKING:
    from lean_nn.graph.profile import Profile

POOLED_LEAST = 1024  # bytes of a constant that is worth looking for


class Memory(NamedTuple):
    """Bytes that a program takes, known before it runs.

    weights : constants; arena : intermediate values of one call; outputs : what a call allocates unless given ``out=``;
    scratch : what the kernel that needs most takes for itself, on the present number of threads
    """

    weights: int
    arena: int
    outputs: int
    scratch: int = 0

    @property
    def peak(self) -> int:
        """All of them at once: the most that one call needs."""
        return self.weights + self.arena + self.outputs + self.scratch


class Program:
    """A graph after its passes, with a place for every value; made by `compile` or `GraphBuilder.compile`.

    Parameters
    ----------
    traced : the recorded graph and the form of its arguments and result
    passes : names from `lean_nn.graph.passes.PASSES`
    share : let values whose lives do not overlap share memory
    kept : per argument leaf, the array that the program keeps, or None where the caller passes one
    pool : constants that other programs have made already; equal ones are taken from there
    """

    def __init__(
        self, traced: Traced, passes: Iterable[str] = tuple(PASSES), share: bool = True, kept: Sequence[Array | None] = (),
        pool: MutableMapping[Any, Array] | None = None,
    ) -> None:  # fmt: skip
        self.source, self.passes, self.share = traced, tuple(passes), share
        self.graph: Graph = optimise(set_aside(traced.graph), self.passes)
        if pool is not None:
            _take_from(pool, self.graph, traced.graph)
        self.plan = make_plan(self.graph, share)
        self._kept = list(kept) or [None] * len(self.graph.inputs)
        self._executor = executor(self.graph, self.plan)
        self._avals = [self.graph.avals[v] for v in self.graph.inputs]
        self._open = [i for i, array in enumerate(self._kept) if array is None]
        self._fixed = [leaf for leaf in tree.leaves(traced.arguments) if not is_array(leaf)]
        self._check_kept()
        self._out_avals = [self.graph.avals[v] for v in self.graph.outputs]
        self._constants: dict[Device, dict[int, Any]] = {}
        self._signature = Signature(self._avals, self._out_avals)  # type: ignore[arg-type]  # an Aval is such a pair
        self._plain = not self.graph.updates and len(self._open) == len(self._avals) and not self._fixed
        self._lone = not isinstance(traced.result, (tuple, list, dict)) and traced.result is not None

    # --- running ---

    def __call__(self, *arguments: Any, out: Any = None) -> Any:
        """The outputs, in the form that the function returned: arrays for arrays, Tensors where a Tensor is passed.

        Parameters
        ----------
        arguments : of the shapes and dtypes that the program was compiled for
        out : arrays to write into, in the form of the result

        Where a Tensor is being differentiated or traced, the recorded graph runs node by node instead, so that
        derivatives pass through and a program may be part of another. So it does where the arguments lie on a device,
        with its constants copied there once.
        """
        if self._plain:  # the commonest call, with nothing to sort out first
            known = self._signature.inputs_of(arguments)
            given = None if known is None else self._signature.outputs_of(out, known)
            if known is not None and given is not None:
                self._executor.run(known, given)
                return given[0] if self._lone else tree.rebuild(self.source.result, given)
        leaves = self._leaves(arguments)
        inputs = self._bind(leaves)
        if any(map(_followed, leaves)):
            return self._followed(leaves, out)
        if self._foreign(inputs):
            return self._on_device(inputs, any(isinstance(leaf, engine.Box) for leaf in leaves), out)
        outputs = self._allocate() if out is None else self._checked_out(out, inputs)
        self._executor.run(inputs, outputs)
        boxed = out is None and any(isinstance(leaf, engine.Box) for leaf in leaves)
        return tree.rebuild(self.source.result, map(engine.wrap, outputs) if boxed else outputs)

    def _followed(self, leaves: list[Any], out: Any) -> Any:
        if self.graph.updates or out is not None:
            what = "arrays that it updates" if out is None else "out="
            raise GraphError(f"program: a call that is differentiated or traced returns its results; got {what}; "
                             f"call the function that was compiled, or detach the arguments")
        boxes = [as_tensor(leaf, op="program") for leaf in leaves]
        constants = self._constants_on(common_device("program", tuple(box.data for box in boxes)))
        return tree.rebuild(self.source.result, apply_graph(self.source.graph, boxes, constants))

    def _constants_on(self, device: Device) -> dict[int, Any] | None:
        """The recorded graph's constants there; those in host memory are the graph's own."""
        if device != CPU and device not in self._constants:
            self._constants[device] = constants_on(self.source.graph, device)
        return self._constants.get(device)

    def _on_device(self, inputs: list[Any], boxed: bool, out: Any) -> Any:
        """The recorded nodes one by one, then the updates, all at once."""
        if out is not None:
            raise ValueError("program: out= is for arrays in host memory; got arguments on a device; leave it out")
        graph = self.source.graph
        constants = self._constants_on(common_device("program", tuple(inputs)))
        before = engine.set_recording(False)
        try:
            wanted = [*graph.outputs, *(new for _, new in graph.updates)]
            values = apply_graph(graph, [engine.wrap(array) for array in inputs], constants, wanted)
        finally:
            engine.set_recording(before)
        arrays = [box.data.copy() if graph.updates else box.data for box in values]
        for (place, _), new in zip(graph.updates, arrays[len(graph.outputs) :], strict=True):
            inputs[graph.inputs.index(place)][...] = new
        results = arrays[: len(graph.outputs)]
        return tree.rebuild(self.source.result, map(engine.wrap, results) if boxed else results)

    def _leaves(self, arguments: Any) -> list[Any]:
        """The arrays among the arguments; numbers are part of the program, so they are those it was compiled with."""
        leaves = tree.leaves(arguments)
        arrays = [leaf for leaf in leaves if is_array(leaf)]
        if len(arrays) < len(leaves):
            fixed = [leaf for leaf in leaves if not is_array(leaf)]
            if fixed != self._fixed:
                raise ValueError(f"program: what is no array is part of the program, here {_short(self._fixed)}; got "
                                 f"{_short(fixed)}; pass arrays, and compile for other numbers")
        return arrays

    def _check_kept(self) -> None:
        arrays = [array for array in self._kept if type(array) is np.ndarray]
        if overlapping(arrays, list(range(len(arrays)))):
            raise ValueError("compile: arrays that a program keeps do not overlap; got two that do; pass copies")
        updated = {self.graph.inputs.index(place) for place, _ in self.graph.updates}
        self._updated = [(k, i) for k, i in enumerate(self._open) if i in updated]  # among the arguments, among all inputs
        self._written = [i for i, array in enumerate(self._kept) if array is not None or i in updated]
        self._abroad = any(map(is_foreign, self._kept))

    def _check_updated(self, leaves: list[Any]) -> None:
        """An argument that the program writes to is an array that can be written to, as it is."""
        for k, i in self._updated:
            leaf = leaves[k]
            if not is_writeable(leaf.data if isinstance(leaf, engine.Box) else leaf):
                raise ValueError(f"program: input {self._name(i)} is updated, so it is a writeable contiguous array or "
                                 f"Tensor; got another; pass the array itself")

    def _check_apart(self, inputs: list[Any]) -> None:
        """An array that the program writes to is given once, and is none of those it keeps."""
        pair = overlapping(inputs, self._written)
        if pair:
            i = max(pair, key=lambda i: self._kept[i] is None)
            raise ValueError(f"program: arguments are apart from the arrays that the program writes to; got input "
                             f"{self._name(i)} that overlaps one; pass a copy")

    def _bind(self, leaves: list[Any]) -> list[Array]:
        if len(leaves) != len(self._open):
            raise ValueError(f"program: {len(self._open)} arrays are needed; got {len(leaves)}; "
                             f"pass {', '.join(f'{self._name(i)}: {describe(self._avals[i])}' for i in self._open)}")
        inputs: list[Any] = list(self._kept)
        for i, leaf in zip(self._open, leaves, strict=True):
            array = leaf.data if isinstance(leaf, engine.Box) else as_array(leaf, op="program")
            if array.shape != self._avals[i].shape or array.dtype != self._avals[i].dtype:
                raise ValueError(f"program: input {self._name(i)} is {describe(self._avals[i])}; got "
                                 f"{describe(Aval(array.shape, array.dtype))}; convert it or compile for this shape")
            inputs[i] = array
        if self.graph.updates:
            self._check_updated(leaves)
            if not self._foreign(inputs):
                self._check_apart(inputs)
        return inputs

    def _foreign(self, inputs: list[Any]) -> bool:
        """Whether some array lies on a device."""
        return self._abroad or any(is_foreign(inputs[i]) for i in self._open)

    def _name(self, i: int) -> str:
        return self.graph.names.get(self.graph.inputs[i], str(i))

    def _allocate(self) -> list[Array]:
        return [memory.empty(aval.shape, aval.dtype) for aval in self._out_avals]

    def _checked_out(self, out: Any, inputs: list[Array]) -> list[Array]:
        arrays = tree.leaves(out)
        if len(arrays) != len(self._out_avals):
            raise ValueError(f"program: out has {len(self._out_avals)} arrays; got {len(arrays)}; "
                             f"pass {', '.join(map(describe, self._out_avals))}")
        for aval, array in zip(self._out_avals, arrays, strict=True):
            fits = isinstance(array, np.ndarray) and array.shape == aval.shape and array.dtype == aval.dtype
            if not fits or not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
                got = describe(Aval(array.shape, array.dtype)) if isinstance(array, np.ndarray) else type(array).__name__
                raise ValueError(f"program: out is a writeable contiguous array of {describe(aval)}; got {got}"
                                 f"{', which is not' * bool(fits)}; allocate it with numpy.empty")
        for i, array in enumerate(arrays):
            if any(np.may_share_memory(array, other) for other in (*inputs, *arrays[:i])):
                raise ValueError(f"program: out is apart from the arguments and from the rest of out; got output {i} that "
                                 f"overlaps; allocate it with numpy.empty")
        return arrays

    # --- derivatives: programs too ---

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """(y, J·v): `tangents` has the form of `primals`, with None for integers."""
        y, y_dot = self.jvp_program(self._leaves(primals), _arrays(tangents))
        return tree.rebuild(self.source.result, y), tree.rebuild(self.source.result, y_dot)

    def vjp(self, primals: Sequence[Any], cotangents: Any) -> tuple[Any, Any]:
        """(y, uᵀ·J): `cotangents` has the form of the result, with None for integers; so has uᵀ·J that of `primals`."""
        y, x_bar = self.vjp_program(self._leaves(primals), _arrays(cotangents))
        grads = iter(x_bar)
        back = iter([next(grads) if aval.dtype in FLOATS else None for aval in self._avals])
        form = tree.transform(lambda leaf: next(back) if is_array(leaf) else None, tuple(primals))
        return tree.rebuild(self.source.result, y), form

    @cached_property
    def jvp_program(self) -> Program:
        """The program of ``(primals, tangents) ↦ (y, J·tangents)`` on flat lists of arrays."""
        from lean_nn.transforms import jvp

        moving = self._moving()

        def both(primals: list[Any], tangents: list[Any]) -> Any:
            return jvp(lambda *args: self._eager(primals, moving, args), [primals[i] for i in moving], tangents)

        return self._derived(both, [self._avals[i] for i in moving], [f"tangent of {self._name(i)}" for i in moving])

    @cached_property
    def vjp_program(self) -> Program:
        """The program of ``(primals, cotangents) ↦ (y, cotangentsᵀ·J)`` on flat lists of arrays."""
        from lean_nn.transforms import vjp

        moving = self._moving()
        smooth = [i for i, aval in enumerate(self._out_avals) if aval.dtype in FLOATS]

        def both(primals: list[Any], cotangents: list[Any]) -> Any:
            y: list[Any] = []

            def f(*args: Any) -> tuple[Any, ...]:
                y[:] = self._eager(primals, moving, args)
                return tuple(y[i] for i in smooth)

            _, pull = vjp(f, *(primals[i] for i in moving))
            return y, list(pull(tuple(cotangents)))

        return self._derived(both, [self._out_avals[i] for i in smooth], [f"cotangent of output {i}" for i in smooth])

    def _moving(self) -> list[int]:
        if self.graph.updates:
            raise GraphError("program: only a function of its arguments has derivatives; got a program that updates arrays "
                             "in place; differentiate before you compile the update")
        return [i for i, aval in enumerate(self._avals) if aval.dtype in FLOATS]

    def _eager(self, primals: list[Any], moving: list[int], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The recorded graph on Tensors, those numbered `moving` replaced by `args`."""
        boxes = list(primals)
        for i, box in zip(moving, args, strict=True):
            boxes[i] = box
        return tuple(apply_graph(self.source.graph, boxes))

    def _derived(self, f: Callable[..., Any], second: list[Aval], names: list[str]) -> Program:
        arguments = [ArraySpec(*aval) for aval in self._avals], [ArraySpec(*aval) for aval in second]
        traced = trace(f, arguments)
        own = map(self._name, range(len(self._avals)))
        traced.graph.names = dict(zip(traced.graph.inputs, (*own, *names), strict=True))
        return Program(traced, self.passes, self.share)

    # --- looking at it ---

    @property
    def memory(self) -> Memory:
        """Bytes, known before it runs."""
        weights = sum({id(a): a.nbytes for a in self.graph.constants.values()}.values())
        outputs = sum(size_of(aval) for aval in self._out_avals)
        return Memory(weights, self.plan.arena, outputs, self._executor.scratch(get_num_threads()))

    def __str__(self) -> str:
        return listing.table(self.graph, self.plan)

    def __repr__(self) -> str:
        m = self.memory
        return f"<Program of {len(self.plan.steps)} steps, weights {m.weights} B, arena {m.arena} B, peak {m.peak} B>"

    def passes_report(self) -> str:
        """The graph as it was recorded and after every pass.

        Examples
        --------
        >>> import lean_nn as ln
        >>> program = ln.compile(lambda x: ln.functional.exp(x * 2.0 + 1.0), (2,), passes=("dead", "chains"))
        >>> for line in program.passes_report().splitlines():
        ...     if not line.startswith(("%", "program", "return")):
        ...         print(line)
        recorded: 3 nodes, 2 constants of 8 bytes
        <BLANKLINE>
        dead: nothing to do
        <BLANKLINE>
        chains: 1 nodes, 2 constants of 8 bytes
        """
        recorded = set_aside(self.source.graph)
        return listing.history(recorded, stages(recorded, self.passes))

    def to_dot(self) -> str:
        """The graph in Graphviz's language."""
        return listing.dot(self.graph)

    def profile(self, *arguments: Any, repeats: int = 10) -> Profile:
        """Time every node on `arguments`: the best of `repeats` runs. What the program keeps is left as it was.

        Examples
        --------
        >>> import numpy as np
        >>> import lean_nn as ln
        >>> profile = ln.compile(lambda x: (x @ x).sum(), (64, 64)).profile(np.ones((64, 64), np.float32))
        >>> [row.op for row in profile.rows]
        ['matmul', 'sum']
        >>> print(profile)  # doctest: +ELLIPSIS
        node ...
        """
        from lean_nn.graph.profile import measure

        inputs = self._bind(self._leaves(arguments))
        if any(map(is_foreign, inputs)):
            raise ValueError(f"profile: arguments in host memory are needed; got some on {device_of(inputs[0])}; use .cpu(), or "
                             f"the device's own profiler")
        return measure(self, inputs, self._allocate(), repeats)

    # --- keeping it ---

    @property
    def kept(self) -> list[Array | None]:
        """Per input of the graph, the array that the program keeps and changes (``inplace=``), or None."""
        return list(self._kept)

    @property
    def state(self) -> dict[str, Array]:
        """The arrays that the program keeps, by the name of their argument: ``0.conv1.weight``."""
        names = [self.graph.names.get(value, "") for value in self.graph.inputs]
        found: dict[str, Array] = {}
        for i, (name, array) in enumerate(zip(names, self._kept, strict=True)):
            if array is not None:
                found[name if name and name not in found else f"{name}#{i}"] = array
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program to one file: its graph as recorded, its constants, and the arrays that it keeps.

        The layout is that of safetensors, so other tools can read the weights; `lean_nn.load_program` reads it all.
        """
        from lean_nn.graph.files import save

        save(self, path)

    def __reduce__(self) -> tuple[Any, ...]:
        from lean_nn.graph.files import from_bytes, to_bytes

        return from_bytes, (to_bytes(self),)


def _take_from(pool: MutableMapping[Any, Array], graph: Graph, recorded: Graph) -> None:
    """Put constants that passes made, and that are in the pool already, in the place of their equals."""
    known = {id(array) for array in recorded.constants.values()}
    for value, array in graph.constants.items():
        if id(array) in known or array.nbytes < POOLED_LEAST:
            continue
        raw: Any = array.reshape(-1).view(np.uint8)
        same = pool.setdefault((array.shape, array.dtype, crc32(raw)), array)
        if same is not array and np.array_equal(same.reshape(-1).view(np.uint8), raw):
            graph.constants[value] = same


def _followed(leaf: Any) -> bool:
    """Whether somebody wants to know what happens to a Tensor: a tape, forward mode, a tracer."""
    if not isinstance(leaf, engine.Box):
        return False
    return bool(leaf.tangents) or bool(leaf.mask and engine.is_recording()) or not holds_numbers(leaf.data)


def is_writeable(array: Any) -> bool:
    """Whether a program can change `array` where it lies."""
    flags = array.flags if type(array) is np.ndarray else None
    if flags is None:
        return is_foreign(array) and bool(array.flags.c_contiguous)
    return bool(flags.c_contiguous and flags.writeable and flags.aligned)


def _short(values: list[Any]) -> str:
    text = repr(values)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _arrays(values: Any) -> list[Any]:
    return [leaf for leaf in tree.leaves(values) if is_array(leaf)]
