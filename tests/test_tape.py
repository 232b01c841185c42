"""The tape: both walks over the same nodes, its listing, its errors, and how it scales."""

from __future__ import annotations

import gc
import re
import threading
import weakref
from fractions import Fraction

import numpy as np
import pytest

import lean_nn as ln
import lean_nn.functional as F


def recorded() -> tuple[ln.Tape, ln.Tensor, ln.Tensor, ln.Tensor]:
    x = ln.tensor(np.array([1.0, 2.0]))
    w = ln.tensor(np.array([3.0, 5.0]))
    with ln.Tape() as tape:
        y = (x * w).exp() * x
    return tape, x, w, y


def test_push_and_pull_over_the_same_nodes() -> None:
    tape, x, w, y = recorded()
    e = np.exp(x.data * w.data)
    dx, dw = e * (1 + x.data * w.data), e * x.data**2
    for _ in range(2):  # as often as you like
        assert np.allclose(tape.push({x: [1.0, 0.0]})[y].data, dx * [1, 0], rtol=1e-15)
        assert np.allclose(tape.push({x: [1.0, 1.0], w: [1.0, 2.0]})[y].data, dx + dw * [1, 2], rtol=1e-15)
        gx, gw = tape.pull({y: [1.0, 1.0]})[x, w]
        assert np.allclose(gx.data, dx, rtol=1e-15) and np.allclose(gw.data, dw, rtol=1e-15)


def test_pull_to_intermediate_values_and_push_from_them() -> None:
    x = ln.tensor(np.array(2.0))
    with ln.Tape() as tape:
        h = x * x
        y = h * h
    assert tape.pull({y: 1.0}, wrt=[h])[h].item() == 8.0
    assert tape.push({h: 1.0})[y].item() == 8.0
    assert tape.pull({y: 1.0, h: 1.0})[x].item() == 8.0 * 4 + 4


def test_what_is_not_reached_is_zero() -> None:
    x, w = ln.tensor([1.0, 1.0]), ln.tensor([1.0])
    with ln.Tape() as tape:
        y, z = x * 2, w * 3
    assert tape.pull({z: [1.0]})[x].tolist() == [0.0, 0.0]
    assert tape.push({x: [1.0, 1.0]})[z].tolist() == [0.0]
    assert tape.push({x: [1.0, 1.0]})[y].tolist() == [2.0, 2.0]


def test_a_node_no_cotangent_reaches_is_never_evaluated() -> None:
    calls: list[str] = []
    loud = ln.primitive.Primitive(
        "loud",
        abstract=lambda x: x,
        cpu=lambda x, *, out: np.copyto(out, x),
        vjp=(lambda g, y, x: calls.append("vjp") or g,),
    )
    x = ln.tensor([1.0])
    with ln.Tape() as tape:
        a = loud(x)
        b = x * 2
    tape.pull({b: [1.0]})
    assert calls == []
    tape.pull({a: [1.0]})
    assert calls == ["vjp"]


def test_tapes_nest() -> None:
    x = ln.tensor(np.array(2.0))
    with ln.Tape() as outer:
        with ln.Tape() as inner:
            y = x * x * x
        g = inner.pull({y: 1.0})[x]
    assert g.item() == 12.0
    assert outer.pull({g: 1.0})[x].item() == 12.0
    assert outer.push({x: 1.0})[g].item() == 12.0


def test_tape_over_fractions_is_exact() -> None:
    x = ln.tensor([Fraction(1, 3), Fraction(2, 7)])
    with ln.Tape() as tape:
        y = x * x / 3
    assert tape.push({x: ln.tensor([Fraction(1), Fraction(0)])})[y].tolist() == [Fraction(2, 9), 0]
    assert tape.pull({y: ln.tensor([Fraction(1), Fraction(1)])})[x].tolist() == [Fraction(2, 9), Fraction(4, 21)]


def test_listing() -> None:
    x = ln.tensor([1.0, 2.0])
    with ln.Tape() as tape:
        F.sum(F.relu(x))
    first, second = str(tape).splitlines()
    assert re.fullmatch(r"%\d+ = relu\(float32\[2\]\) -> float32\[2\]", first)
    assert re.fullmatch(r"%\d+ = sum\(%\d+\) axes=\(0,\) keepdims=False -> float32\[\]", second)
    assert len(tape) == 2


def test_errors() -> None:
    tape, x, _, y = recorded()
    stranger = ln.tensor([1.0, 2.0])
    with pytest.raises(ln.GraphError, match=r"^pull: a Tensor recorded on this tape is needed; got one of shape \(2,\)"):
        tape.pull({stranger: [1.0, 1.0]})
    with pytest.raises(ln.GraphError, match="^push: a Tensor recorded on this tape is needed"):
        tape.push({stranger: [1.0, 1.0]})
    with pytest.raises(ln.GraphError, match="^pull: a Tensor recorded on this tape is needed"):
        tape.pull({y: [1.0, 1.0]})[stranger]
    with pytest.raises(ValueError, match=r"^pull: a tangent or cotangent has its Tensor's shape \(2,\); got \(3,\); reshape it"):
        tape.pull({y: [1.0, 1.0, 1.0]})
    with pytest.raises(TypeError, match="^push: a tangent or cotangent has its Tensor's dtype float64; got float32; convert"):
        tape.push({x: np.ones(2, np.float32)})
    with pytest.raises(TypeError, match="^pull: a Tensor is needed as key; got int"):
        tape.pull({3: [1.0]})  # type: ignore[dict-item]
    with pytest.raises(ln.GraphError, match="^tape: a tape is opened once"), tape:
        pass


def test_keep_false_frees_as_the_pull_passes() -> None:
    x = ln.tensor(np.array([1.0]))
    with ln.Tape(keep=False) as tape:
        h = x.exp()
        y = h.exp()
    alive = weakref.ref(h)
    del h
    assert alive() is not None  # the second exp's node holds it
    tape.pull({y: [1.0]})
    assert alive() is None
    with pytest.raises(ln.GraphError, match="were freed by an earlier backward"):
        tape.pull({y: [1.0]})
    with pytest.raises(ln.GraphError, match=r"^push: the values saved by node \d+ \(exp\) were freed by a pull"):
        tape.push({x: [1.0]})


def test_a_failed_operation_leaves_the_tape_as_it_was() -> None:
    x = ln.tensor([1.0, 2.0])
    no_forward = ln.primitive.Primitive("no_forward", abstract=lambda x: x, cpu=lambda x, *, out: np.copyto(out, x))
    with ln.Tape() as tape:
        x * 2
        with pytest.raises(ValueError, match="broadcast"):
            x + ln.tensor([1.0, 2.0, 3.0])
        with pytest.raises(ln.GraphError, match="^no_forward: no forward rule for argument 0; got a tangent for it"):
            ln.jvp(no_forward, (x,), (np.ones(2, np.float32),))
        assert [node.prim.name for node in tape] == ["mul", "alias"]


def test_absent_rules_are_loud() -> None:
    bare = ln.primitive.Primitive("bare", abstract=lambda x: x, cpu=lambda x, *, out: np.copyto(out, x))
    x = ln.tensor([1.0], requires_grad=True)
    with pytest.raises(ln.GraphError, match="^bare: no reverse rule for argument 0; got a cotangent for it"):
        bare(x).backward()
    with pytest.raises(ln.GraphError, match="^bare: no spec kernel; got data that needs one"):
        bare(ln.tensor([Fraction(1)]))
    wrong = ln.primitive.Primitive(
        "wrong", abstract=lambda x: x, cpu=lambda x, *, out: np.copyto(out, x), vjp=(lambda g, y, x: F.sum(g),)
    )
    with pytest.raises(ln.GraphError, match=r"^wrong: the reverse rule of argument 0 returns that argument's shape \(1,\); got"):
        wrong(x).backward()


def test_levels_close_on_their_own_thread_innermost_first() -> None:
    outer, inner = ln.Tape(), ln.Tape()
    outer.__enter__()
    inner.__enter__()
    with pytest.raises(ln.GraphError, match="^tape: levels close innermost first"):
        outer.__exit__()
    inner.__exit__()
    outer.__exit__()


def test_tapes_are_thread_local() -> None:
    x = ln.tensor([1.0])
    seen: list[int] = []

    def other() -> None:
        with ln.Tape() as tape:
            x * 2
        seen.append(len(tape))

    with ln.Tape() as tape:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        x * 3
    assert seen == [1] and len(tape) == 1


def test_long_chains_neither_overflow_the_stack_nor_need_the_collector() -> None:
    x = ln.tensor(np.ones(4, np.float32), requires_grad=True)
    y = x
    for _ in range(100_000):
        y = F.relu(y)
    y.sum().backward()
    assert x.grad.tolist() == [1.0] * 4
    y = x
    for _ in range(100_000):
        y = F.relu(y)
    del y  # freed without recursion
    with ln.Tape() as tape:
        y = x
        for _ in range(20_000):
            y = F.relu(y)
    assert tape.push({x: np.ones(4, np.float32)})[y].tolist() == [1.0] * 4


def test_graphs_are_freed_by_reference_counts_alone() -> None:
    f = lambda x: (x.exp() * x).sum()  # noqa: E731
    x = ln.tensor(np.ones(3))
    programs = [
        lambda: ln.grad(f)(x),
        lambda: ln.grad(lambda x: ln.jvp(f, (x,), (x,))[1])(x),
        lambda: ln.jvp(ln.grad(f), (x,), (x,)),
        lambda: ln.grad(lambda x: (ln.grad(f)(x) * x).sum())(x),
        lambda: ln.jvp(lambda x: ln.grad(lambda z: ln.jvp(f, (z,), (z,))[1])(x), (x,), (x,)),
    ]
    gc.collect()
    gc.disable()
    try:
        for program in programs:
            probe = ln.tensor(np.ones(3))
            alive = weakref.ref(probe)
            (lambda p: ln.grad(lambda x: ln.jvp(lambda z: (z * p).exp().sum(), (x,), (x,))[1])(x))(probe)
            program()
            del probe
            assert alive() is None
    finally:
        gc.enable()


def test_the_cycle_collector_has_nothing_to_walk_in_a_long_graph():
    """Else every few hundred nodes would have it walk all of a process: 80 ms of PyTorch's modules in a chain that takes 10."""
    x = ln.tensor(np.ones(4, np.float32), requires_grad=True)
    before = len(gc.get_objects())
    y = x
    for _ in range(1000):
        y = F.relu(y) * 2.0 + x
    gc.collect(0)  # which lets go of tuples of what it does not follow
    assert len(gc.get_objects()) - before < 100
    y.sum().backward()
    assert not gc.is_tracked(y) and not gc.is_tracked(x) and not gc.is_tracked(x.grad)
