"""Forward mode: a value that moves carries its tangent, one per open `jvp`.

When a primitive is applied to moving values, the engine calls `propagate` with the results (unless a dual kernel gives
value and tangents at once: `lean_nn.autodiff.dual`). For each trace (one per open `jvp`, outermost first) the
primitive's forward rule is a small program of primitives; it runs below the trace's own level, so that outer traces
differentiate the tangent in turn while this trace and those inside it leave it alone. A tangent is never confused with
another trace's: the trace itself is the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lean_nn.primitive import NONDIFF, Aval, GraphError, Joint, Primitive, get, plan
from lean_nn_c import engine


class Trace(engine.Trace):
    """One open `jvp`: ``with Trace() as trace`` opens a level whose values carry tangents, and closes it."""

    __slots__ = ()

    def __enter__(self) -> Trace:
        self.level, self.live = engine.open_level(), True
        return self

    def __exit__(self, *problem: Any) -> None:
        """Take the tangents off the values that still have one.

        Under an outer reverse level a tangent may have been recorded as computed from its own value: a cycle.
        """
        self.live = False
        for ref in self.moving:
            box = ref()
            if box is not None and box.tangents is not None:
                box.tangents.pop(self, None)
        engine.close_level(self.level)


def propagate(
    prim: Primitive, args: tuple[Any, ...], params: dict[str, Any], outs: tuple[Any, ...], traces: list[engine.Trace]
) -> None:
    """Give the results `outs` of an application the tangents that follow from those of `args` under each of `traces`."""
    limit = engine.get_limit()
    y = outputs_for_rules(prim, outs)
    for trace in traces:
        tangents = [a.tangents.get(trace) if a.tangents else None for a in args]
        engine.set_limit(trace.level)
        try:
            dots = output_tangents(prim, args, tangents, y, params)
        finally:
            engine.set_limit(limit)
        for out, dot in zip(outs, dots, strict=True):
            if dot is not None:
                engine.carry(out, trace, dot)


def outputs_for_rules(prim: Primitive, outs: tuple[Any, ...]) -> Any:
    """What a rule sees as `y`."""
    if not prim.saves_output:
        return None
    return outs if prim.outputs > 1 else outs[0]


def output_tangents(
    prim: Primitive, args: tuple[Any, ...], tangents: Sequence[Any], y: Any, params: dict[str, Any]
) -> tuple[Any, ...]:
    """The tangents of the outputs: the sum over the moving arguments of their forward rules."""
    total: tuple[Any, ...] = (None,) * prim.outputs
    for part in _parts(prim, args, tangents, y, params):
        parts = part if isinstance(part, tuple) else (part,) * prim.outputs if part is None else (part,)
        total = tuple(_sum(a, b) for a, b in zip(total, parts, strict=True))
    return tuple(dot if moves else None for dot, moves in zip(total, prim.differentiable_out, strict=True))


def _parts(
    prim: Primitive, args: tuple[Any, ...], tangents: Sequence[Any], y: Any, params: dict[str, Any]
) -> Iterator[Any]:
    """What each moving argument gives, or all of them together."""
    if isinstance(prim.jvp, Joint):
        yield prim.jvp.rule(tangents, y, *args, **params)
        return
    for argnum, t in enumerate(tangents):
        if t is not None:
            yield _apply_rule(prim, argnum, t, y, args, params)


def _apply_rule(
    prim: Primitive, argnum: int, t: Any, y: Any, args: tuple[Any, ...], params: dict[str, Any]
) -> Any:
    if argnum in prim.linear:
        return prim(*args[:argnum], t, *args[argnum + 1 :], **params)
    rules = prim.jvp
    if rules is not None and not isinstance(rules, tuple):
        return rules(argnum, t, y, *args, **params)
    if rules is None or argnum >= len(rules) or rules[argnum] is None:
        raise GraphError(
            f"{prim.name}: no forward rule for argument {argnum}; got a tangent for it; "
            f"give the primitive a jvp or detach the argument"
        )
    return None if rules[argnum] is NONDIFF else rules[argnum](t, y, *args, **params)


def _sum(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return get("add")(a, b)


def plan_dual(prim: Primitive, arrays: tuple[Any, ...], moves: list[bool], twins: bool, params: dict[str, Any]) -> Any:
    """What the engine remembers of arrays like these: a `lean_nn.autodiff.dual.Dual`, or None where value and rule go alone.

    `twins` says that the two arguments are one value, as in x·x.
    """
    from lean_nn.autodiff.dual import dual_of  # when the first value moves

    planned = plan(prim, arrays[: len(moves)], params)
    if planned[0] is None:  # a view, or another backend's array
        return None
    return dual_of(prim, [Aval(a.shape, a.dtype) for a in arrays[: len(moves)]], moves, planned[0], params, twins)
