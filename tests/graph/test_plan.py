"""Places in memory: nobody overwrites what somebody still needs, and what can share does.

The oracle runs a plan on tags instead of numbers: every cell that a node makes is a number never seen before, moving
operators move tags, and each step must find the right ones where the plan says its arguments are.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lean_nn as ln
import lean_nn.functional as F
from lean_nn.graph.ir import Graph
from lean_nn.graph.passes import EXACT
from lean_nn.graph.plan import make_plan
from lean_nn.graph.updates import set_aside
from lean_nn.primitive import Aval, get

FLOAT = np.dtype(np.float32)


# --- the oracle ---


def moved(node, tags):
    """The tags of a node's outputs if it only moves cells, else None."""
    name, params = node.prim.name, node.params
    if name in ("reshape", "alias"):
        return [tags[0].reshape(params.get("shape", tags[0].shape))]
    if name == "slice":
        at = zip(params["start"], params["size"], params["step"], strict=True)
        return [tags[0][np.ix_(*([first + i * by for i in range(n)] for first, n, by in at))]]
    if name == "concat":
        return [np.concatenate(tags, params["axis"])]
    return None


def check(graph, plan):
    """Run the plan on tags; all values are float32."""
    fresh = iter(range(1, 10**9))

    def new(value):
        shape = graph.avals[value].shape
        return np.array([next(fresh) for _ in range(int(np.prod(shape)))], np.int64).reshape(shape)

    expected = {value: new(value) for value in (*graph.inputs, *graph.constants)}
    for node in graph.nodes:
        out = moved(node, [expected[v] for v in node.inputs]) or [new(v) for v in node.outputs]
        expected.update(zip(node.outputs, out, strict=True))
    room = {("arena", 0): np.zeros(plan.arena // 4 + 1, np.int64)}
    room.update((("input", i), expected[v].reshape(-1).copy()) for i, v in enumerate(graph.inputs))
    room.update((("constant", v), expected[v].reshape(-1).copy()) for v in graph.constants)
    room.update((("output", i), np.zeros(expected[v].size, np.int64)) for i, v in enumerate(graph.outputs))

    def cells(place, value):
        assert place.offset % 4 == 0
        return room[place.kind, place.index][place.offset // 4 : place.offset // 4 + expected[value].size]

    def holds(value, why):
        assert cells(plan.places[value], value).tolist() == expected[value].reshape(-1).tolist(), (why, value)

    for node in plan.steps:
        for value in node.inputs:
            holds(value, node.prim.name)
            for out in node.outputs:
                if np.shares_memory(cells(plan.places[value], value), cells(plan.places[out], out)):
                    assert node.prim.pointwise is not None and graph.avals[value].shape == graph.avals[out].shape
                    assert plan.places[value] == plan.places[out]
        for out in node.outputs:
            assert plan.places[out].kind != "constant"
            cells(plan.places[out], out)[:] = expected[out].reshape(-1)
    for value, place in plan.copies:
        holds(value, "copy")
        cells(place, value)[:] = cells(plan.places[value], value).copy()
    for i, value in enumerate(graph.outputs):
        assert room["output", i].tolist() == expected[value].reshape(-1).tolist()
    changed = dict(graph.updates)
    for i, value in enumerate(graph.inputs):
        assert room["input", i].tolist() == expected[changed.get(value, value)].reshape(-1).tolist()
    for value in graph.constants:
        holds(value, "constant")


# --- random graphs ---


@st.composite
def graphs(draw):
    """Inputs, constants and a score of nodes that share, move, shrink and grow; some outputs, some updates."""
    graph = Graph()
    shapes = [(2, 3), (3,), (4, 3), (2, 3)]
    for shape in shapes:
        graph.add_input(Aval(shape, FLOAT))
    graph.add_constant(np.ones((2, 3), np.float32))
    for _ in range(draw(st.integers(1, 20))):
        add_node(graph, draw)
    values = st.integers(0, len(graph.avals) - 1)
    graph.outputs = draw(st.lists(values, min_size=1, max_size=4))
    for place in draw(st.lists(st.sampled_from(graph.inputs), unique=True, max_size=3)):
        made = [v for node in graph.nodes for v in node.outputs if graph.avals[v] == graph.avals[place]]
        if made:
            graph.updates.append((place, draw(st.sampled_from(made))))
    return graph


def add_node(graph, draw):
    late = st.integers(max(0, len(graph.avals) - 6), len(graph.avals) - 1)
    a = draw(st.one_of(late, st.integers(0, len(graph.avals) - 1)))
    shape = graph.avals[a].shape
    alike = [v for v, aval in enumerate(graph.avals) if aval.shape == shape]
    kind = draw(st.sampled_from(["relu", "add", "mul", "concat", "reshape", "slice", "transpose", "sum"]))
    params, inputs = {}, (a,)
    if kind in ("add", "mul"):
        inputs = (a, draw(st.sampled_from(alike)))
    elif kind == "concat":
        if not shape or np.prod(shape) > 100:
            return
        axis = draw(st.integers(0, len(shape) - 1))
        inputs, params = (a, *draw(st.lists(st.sampled_from(alike), max_size=2))), {"axis": axis}
    elif kind == "reshape":
        params = {"shape": draw(st.sampled_from([(int(np.prod(shape)),), (1, *shape), shape[::-1]]))}
    elif kind == "slice":
        start = tuple(draw(st.integers(0, n - 1)) for n in shape)
        size = tuple(draw(st.integers(1, n - first)) for n, first in zip(shape, start, strict=True))
        params = {"start": start, "size": size, "step": (1,) * len(shape)}
    elif kind == "transpose":
        params = {"axes": tuple(range(len(shape)))[::-1]}
    elif kind == "sum":
        params = {"axes": tuple(range(len(shape)))[:1], "keepdims": False}
    prim = get(kind)
    graph.add_node(prim, inputs, params, [prim.abstract(*(graph.avals[v] for v in inputs), **params)])


@settings(max_examples=600, deadline=None)
@given(graphs(), st.booleans())
def test_nobody_overwrites_what_is_needed(graph, share):
    graph = set_aside(graph)
    check(graph, make_plan(graph, share))


@settings(max_examples=100, deadline=None)
@given(graphs(), st.booleans(), st.sampled_from([(), EXACT]))
def test_programs_of_random_graphs_equal_their_nodes_one_by_one(graph, share, passes):
    from lean_nn.graph.program import Program
    from lean_nn.graph.trace import ArraySpec, Traced, apply_graph

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(graph.avals[v].shape).astype(np.float32) for v in graph.inputs]
    wanted = graph.snapshot(graph.wanted())
    eager = [t.numpy().copy() for t in apply_graph(wanted, [ln.tensor(a) for a in arrays])]
    traced = Traced(graph, tuple(ArraySpec(*graph.avals[v]) for v in graph.inputs), ["*"] * len(graph.outputs))
    program = Program(traced, passes, share)
    got = program(*arrays)
    assert [a.tobytes() for a in got] == [a.tobytes() for a in eager[: len(got)]]
    for (place, _), new in zip(graph.updates, eager[len(got) :], strict=True):
        assert arrays[graph.inputs.index(place)].tobytes() == new.tobytes()
    check(program.graph, program.plan)
    assert len(set_aside(graph).nodes) >= len(graph.nodes)


# --- what shares ---


def planned(f, *shapes, **options):
    options.setdefault("passes", ())
    return ln.compile(f, *shapes, **options)


def places(program, op):
    return [program.plan.places[node.outputs[0]] for node in program.graph.nodes if node.prim.name == op]


def test_an_elementwise_node_writes_over_what_dies_there():
    program = planned(lambda x: F.relu(F.conv1d(x, np.ones((1, 1, 3), np.float32))).sum(2), (1, 1, 64))
    assert places(program, "relu") == places(program, "conv")
    apart = planned(lambda x: F.relu(F.conv1d(x, np.ones((1, 1, 3), np.float32))).sum(2), (1, 1, 64), share=False)
    assert places(apart, "relu") != places(apart, "conv")
    assert apart.memory.arena == 2 * program.memory.arena


def test_it_does_not_write_over_what_is_still_needed():
    program = planned(lambda x: (F.exp(x) * F.relu(F.exp(x) + 1)).sum(0), (64,), passes=("common",))
    (exp,), (relu,) = places(program, "exp"), places(program, "relu")
    assert exp != relu


def test_the_callers_input_is_never_written_over():
    program = planned(lambda x: F.relu(x).sum(0), (64,))
    assert [p.kind for p in places(program, "relu")] == ["arena"]


def test_results_are_computed_where_they_belong():
    program = planned(lambda x: (F.relu(x), F.exp(x) + 1), (8,))
    assert {p.kind for p in (*places(program, "relu"), *places(program, "add"))} == {"output"}
    assert not program.plan.copies and program.memory.arena == 64


def test_parts_of_a_concat_are_computed_in_it():
    program = planned(lambda x: F.concat([F.relu(x), F.exp(x)], 1).sum(), (1, 4, 16))
    (relu,), (exp,), (whole,) = (places(program, op) for op in ("relu", "exp", "concat"))
    assert (relu.offset, exp.offset) == (whole.offset, whole.offset + 4 * 64)
    assert "concat" not in [node.prim.name for node in program.plan.steps]
    batched = planned(lambda x: F.concat([F.relu(x), F.exp(x)], 1).sum(), (2, 4, 16))
    assert "concat" in [node.prim.name for node in batched.plan.steps]
    apart = planned(lambda x: F.concat([F.relu(x), F.exp(x)], 1).sum(), (1, 4, 16), share=False)
    assert "concat" in [node.prim.name for node in apart.plan.steps]


@pytest.mark.parametrize("parts", [lambda y: [y, y], lambda y: [y, y * 2 + y.sum()]])
def test_a_part_that_is_read_again_is_still_right(parts):
    program = planned(lambda x: F.concat(parts(F.relu(x)), 0), (4,))
    x = np.array([1, -2, 3, 4], np.float32)
    want = np.concatenate([part.numpy() for part in parts(F.relu(ln.tensor(x)))])
    assert program(x).tolist() == want.tolist()


def test_looks_take_no_memory():
    program = planned(lambda x: F.exp(x.reshape(4, 16)[1:3].reshape(32)).sum(0), (64,))
    assert [node.prim.name for node in program.plan.steps] == ["exp", "sum"]
    assert program.memory.arena == 4 * 32


def test_an_update_is_computed_in_the_parameter_itself():
    w = np.ones(64, np.float32)
    program = planned(lambda w, x: [loss := (w * x).sum(), (w - 0.5 * x, loss)][1], w, (64,), inplace=0)
    assert [p.kind for p in places(program, "sub")] == ["input"] and not program.plan.copies
    late = planned(lambda w, x: (w - 0.5 * x, (w * x).sum()), w, (64,), inplace=0)
    assert [p.kind for p in places(late, "sub")] == ["arena"] and late.plan.copies  # the old value is read afterwards


@pytest.mark.parametrize("n", [2, 3, 10, 200])
def test_a_chain_of_equal_convolutions_takes_two_buffers(n):
    w = np.ones((2, 2, 3, 3), np.float32)

    def f(x):
        for _ in range(n):
            x = F.conv2d(x, w, padding=1)
        return x.sum()

    program = planned(f, (1, 2, 16, 16))
    assert program.memory.arena == 2 * 2 * 16 * 16 * 4


def test_the_arena_is_no_larger_than_needed():
    """At the widest place of a network two arrays live: the arena is those two."""
    params = {n: np.ones(s, np.float32) for n, s in {"a": (8, 1, 3, 3), "b": (2, 8, 3, 3), "c": (1, 2, 3, 3)}.items()}

    def f(x):
        for w in params.values():
            x = F.relu(F.conv2d(x, w, padding=1))
        return x.sum()

    assert planned(f, (1, 1, 16, 16)).memory.arena == (8 + 2) * 16 * 16 * 4
