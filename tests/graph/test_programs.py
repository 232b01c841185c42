"""Programs as things: called from threads and forks, many times, with wrong arguments; memory that is what was said."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from graph_networks import NETWORKS, example, training_step

import lean_nn as ln
import lean_nn.functional as F
from lean_nn.graph import family as families
from lean_nn.graph.passes import EXACT
from lean_nn.primitive import GraphError

ones = np.ones(2, np.float32)


def network(name="lenet"):
    params, buffers, x, _ = example(name)
    return ln.compile(lambda x: NETWORKS[name].forward({**params, **buffers}, x, False), x), x


# --- many callers ---


def in_threads(work, count=8):
    """Run `work(i)` in threads that start together; what they raise is raised here."""
    start, problems = threading.Barrier(count), []

    def one(i):
        try:
            start.wait()
            work(i)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


@pytest.mark.parametrize("name", ["lenet", "unet", "mobilenet"])
def test_eight_threads_get_the_same_bits(name):
    program, x = network(name)
    images = [np.roll(x, i, -1) for i in range(8)]
    want = [program(image).tobytes() for image in images]

    def work(i):
        for _ in range(25):
            assert program(images[i]).tobytes() == want[i]

    in_threads(work)


def test_more_threads_than_frames():
    program, x = network("mlp")
    want = program(x).tobytes()

    def work(i):
        for _ in range(20):
            assert program(x).tobytes() == want

    in_threads(work, 24)


def test_a_family_is_shared_by_threads(monkeypatch):
    monkeypatch.setattr(families, "CACHED", 3)
    family = ln.compile(lambda x: (x * 2).sum(1), (None, 4))

    def work(i):
        for n in np.random.default_rng(i).integers(0, 8, 40):
            assert family(np.ones((n, 4), np.float32)).tolist() == [8.0] * n

    in_threads(work)
    assert len(family._programs) <= 3


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_calls_the_program():
    program, x = network()
    want = program(x).tobytes()
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = program(x).tobytes() == want == program(x).tobytes()
        finally:
            os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert program(x).tobytes() == want


# --- memory ---


def test_a_thousand_calls_grow_memory_by_nothing():
    if not Path("/proc/self/statm").exists():
        pytest.skip("memory is read from /proc")
    program, x = network("resnet20")
    page = os.sysconf("SC_PAGESIZE")

    def resident():
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * page

    for _ in range(50):
        program(x)
    before = resident()
    for _ in range(1000):
        program(x)
    assert resident() - before < 256 * 1024


def test_a_program_does_not_keep_what_it_was_given():
    import weakref

    program = ln.compile(lambda x: F.relu(x) * 2, (4,))
    x = np.ones(4, np.float32)
    y = program(x)
    seen = [weakref.ref(x), weakref.ref(y)]
    del x, y
    gc.collect()
    assert [ref() for ref in seen] == [None, None]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("share", [True, False])
def test_memory_is_what_the_arrays_take(name, share):
    params, buffers, x, _ = example(name)
    program = ln.compile(lambda x: NETWORKS[name].forward({**params, **buffers}, x, False), x, share=share)
    memory, graph, plan = program.memory, program.graph, program.plan
    assert memory.weights == sum({id(a): a.nbytes for a in graph.constants.values()}.values())
    assert memory.outputs == program(x).nbytes
    ends = [p.offset + graph.nbytes(v) for v, p in enumerate(plan.places) if p.kind == "arena"]
    assert max(ends, default=0) <= memory.arena < max(ends, default=0) + 64
    assert memory.peak == memory.weights + memory.arena + memory.outputs + memory.scratch
    assert memory.arena < sum(graph.nbytes(v) for node in graph.nodes for v in node.outputs)


def test_the_peak_is_what_the_process_takes():
    """A program of large arrays in a process of its own: the high-water mark rises by `memory.peak`, give or take 5 %."""
    if not Path("/proc/self/status").exists():
        pytest.skip("memory is read from /proc")
    code = """
import json, numpy as np, lean_nn as ln, lean_nn.functional as F
def high(): return [int(l.split()[1]) * 1024 for l in open("/proc/self/status") if l.startswith("VmHWM")][0]
x = np.ones((1, 1 << 21), np.float32)
f = lambda x: F.concat([F.relu(x) + 1, F.sigmoid(x)], 0).sum(0) * F.tanh(x + 2)
warm = ln.compile(f, (1, 4)); warm(np.ones((1, 4), np.float32))
program = ln.compile(f, x)
before = high()
y = program(x)
print(json.dumps([high() - before, program.memory.peak]))
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    measured, said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert said > 20e6
    assert abs(measured - said) <= 0.05 * said + 500_000


# --- long graphs ---


def chain(n):
    def f(x):
        for _ in range(n):
            x = F.relu(x)
        return x

    return ln.compile(f, (4,), passes=EXACT)


def test_a_long_chain_compiles_in_linear_work():
    """Twice the nodes take twice the function calls, give or take a tenth; its memory does not grow at all."""

    def calls(n):
        count = 0

        def tick(frame, event, argument):
            nonlocal count
            count += event == "call"

        sys.setprofile(tick)
        try:
            program = chain(n)
        finally:
            sys.setprofile(None)
        return count, program

    (few, short), (many, long) = calls(1000), calls(2000)
    assert many - few <= 1.1 * (few - calls(1)[0])
    assert len(long.graph.nodes) <= 2 * len(short.graph.nodes)
    assert long.memory.arena == short.memory.arena <= 2 * 64
    assert long(np.array([-1, 0, 1, 2], np.float32)).tolist() == [0, 0, 1, 2]


def test_sixteen_thousand_nodes():
    program = chain(16_000)
    assert program(np.array([-1, 0, 1, 2], np.float32)).tolist() == [0, 0, 1, 2]
    assert program.memory.arena <= 2 * 64


# --- wrong arguments ---

PROGRAM = ln.compile(lambda x, y: (x + y, F.flip(x, (0,))), (2,), (2,))

WRONG = {
    r"2 arrays are needed; got 1; pass 0: float32\[2\], 1: float32\[2\]": lambda: PROGRAM(ones),
    "2 arrays are needed; got 3": lambda: PROGRAM(ones, ones, ones),
    r"input 1 is float32\[2\]; got float32\[3\]": lambda: PROGRAM(ones, np.ones(3, np.float32)),
    r"input 0 is float32\[2\]; got float64\[2\]": lambda: PROGRAM(np.ones(2), ones),
    r"input 0 is float32\[2\]; got float32\[2, 1\]": lambda: PROGRAM(ones[:, None], ones),
    "what is no array is part of the program, here \\[\\]; got \\[2\\]": lambda: PROGRAM(ones, ones, 2),
    "out has 2 arrays; got 1": lambda: PROGRAM(ones, ones, out=(np.empty(2, np.float32),)),
    r"out is .* float32\[2\]; got float32\[3\]; allocate": lambda: PROGRAM(ones, ones, out=(np.empty(3, np.float32),) * 2),
    "got float32.2., which is not; allocate it": lambda: PROGRAM(ones, ones, out=(np.empty(4, np.float32)[::2],) * 2),
    "here \\[\\]; got \\[0.5, 0.5, .{49}…; pass arrays": lambda: PROGRAM([0.5] * 99, ones),
    "input tangent of 0 is float32.2.; got float32.1.": lambda: PROGRAM.jvp((ones, ones), (ones[:1], ones)),
    "input cotangent of output 0 is": lambda: PROGRAM.vjp((ones, ones), (ones[:1], ones)),
    "out is a writeable contiguous array .* got int": lambda: PROGRAM(ones, ones, out=(1, 2)),
    "the rest of out; got output 1": lambda: PROGRAM(ones, ones, out=(np.empty(2, np.float32),) * 2),
    "the rest of out; got output 0": lambda: PROGRAM(ones, ones, out=(ones, np.empty(2, np.float32))),
    "2 arrays are needed; got 0": lambda: ln.compile(lambda x: x, (2,)).jvp((), ()),
    "3 arrays are needed; got 2": lambda: ln.compile(lambda x, y: x * y, (2,), (2,)).vjp((ones, ones), None),
    "profile|arrays are needed": lambda: PROGRAM.profile(ones),
    "unknown passes; got \\['speed'\\]": lambda: ln.compile(lambda x: x, (2,), passes=("speed",)),
    "a size is a number, None or a name": lambda: ln.compile(lambda x: x, (-1,)),
    "a program that keeps arguments has one size": lambda: ln.compile(lambda w, x: (w, x), ones, (None,), inplace=0),
    "returns the new values of arguments": lambda: ln.compile(lambda w, x: x * 2, {"w": ones.copy()}, (2,), inplace=0),
    "the new value of 0 has its shape": lambda: ln.compile(lambda w: (w.sum(), w), ones.copy(), inplace=0),
    "kept in place are writeable": lambda: ln.compile(lambda w: w * 2, np.broadcast_to(ones, (2, 2)), inplace=0),
    "arrays that a program keeps do not overlap": lambda: ln.compile(lambda a, b: (a, b), ones, ones, inplace=(0, 1)),
    "open sizes are \\['None'\\]; got {}": lambda: ln.compile(lambda x: x, (None,)).at({}),
    "open sizes are .* got {None: -1}": lambda: ln.compile(lambda x: x, (None,)).at({None: -1}),
    r"input 0 has shape \(None, 2\); got \(3,\)": lambda: ln.compile(lambda x: x, (None, 2))(np.ones(3, np.float32)),
    "input 1 has shape": lambda: ln.compile(lambda x, y: x + y, (None,), (None,))(ones, np.ones(3, np.float32)),
}  # fmt: skip


@pytest.mark.parametrize("words", WRONG)
def test_wrong_arguments(words):
    with pytest.raises(ValueError, match=words):
        WRONG[words]()


def test_an_error_leaves_everything_as_it_was():
    out = (np.full(2, 7, np.float32), np.full(3, 7, np.float32))
    with pytest.raises(ValueError, match="out is"):
        PROGRAM(ones, ones, out=out)
    assert all((a == 7).all() for a in out)
    params, buffers, x, t = example("resnet20")
    slots = {k: np.zeros_like(a) for k, a in params.items()}
    program = ln.compile(training_step("resnet20"), params, slots, buffers, x, t, inplace=(0, 1))
    before = [a.tobytes() for d in (params, slots, buffers) for a in d.values()]
    for arguments in ((buffers, x), (buffers, x[:1], t), (buffers, x, t.astype(np.float32)), (params, x, t)):
        with pytest.raises(ValueError, match="program:"):
            program(*arguments)
    assert before == [a.tobytes() for d in (params, slots, buffers) for a in d.values()]


def test_a_failing_kernel_leaves_the_program_usable():
    program = ln.compile(lambda x, i: F.take(x, i, 0) * 2, (3,), np.zeros(2, np.int64))
    x = np.array([1, 2, 3], np.float32)
    for _ in range(20):  # more than there are frames
        with pytest.raises(IndexError):
            program(x, np.array([0, 9]))
    assert program(x, np.array([2, 0])).tolist() == [6, 2]


def test_a_kept_array_is_not_an_argument_too():
    w = np.ones(4)
    program = ln.compile(lambda w, x: (w + x, F.flip(x, (0,)).sum()), w, np.zeros(4), inplace=0)
    for x in (w, w[::-1][::-1]):
        with pytest.raises(ValueError, match="arguments are apart from the arrays that the program writes to; got input 1"):
            program(x)
    assert w.tolist() == [1, 1, 1, 1]
    program(np.ones(4))
    assert w.tolist() == [2, 2, 2, 2]


def test_what_a_program_updates_shares_memory_with_nothing():
    memory = np.arange(32.0)
    mean, var, x = memory[:4], memory[4:8], memory[8:].reshape(2, 4, 3)
    program = ln.compile(lambda mean, var, x, y: F.batch_norm(x, mean, var, training=True) + y, mean, var, x, x)
    program(mean, var, x, x)  # what is only read may be given twice
    assert mean[0] == 1.5 and (np.diff(mean) > 1).all()  # nine tenths of 0, 1, 2, 3 and a tenth of 15, 18, 21, 24
    before = memory.copy()
    early = memory[7:31].reshape(2, 4, 3)
    for arguments in ((mean, mean, x, x), (memory[2:6], var, x, x), (mean, memory[2:6], x, x), (mean, var, x, early)):
        with pytest.raises(ValueError, match="arguments are apart from the arrays that the program writes to"):
            program(*arguments)
    assert memory.tolist() == before.tolist()
    empty = ln.compile(lambda w, x: (w + 1.0, x * 2.0), memory[:4], memory[2:2], inplace=0)
    assert empty(memory[2:2]).size == 0


def test_numbers_among_the_arguments_are_part_of_the_program():
    program = ln.compile(lambda x, k: x * k, (2,), 3.0)
    assert program(ones, 3.0).tolist() == program(ones).tolist() == [3, 3]
    with pytest.raises(ValueError, match=r"part of the program, here \[3.0\]; got \[4.0\]"):
        program(ones, 4.0)


def test_results_go_where_out_says():
    out = (np.empty(2, np.float32), np.empty(2, np.float32))
    got = PROGRAM(ones, 2 * ones, out=out)
    assert got[0] is out[0] and got[1] is out[1] and out[0].tolist() == [3, 3]


def test_tensors_give_tensors():
    a, b = PROGRAM(ln.tensor(ones), ones)
    assert isinstance(a, ln.Tensor) and isinstance(b, ln.Tensor) and not a.requires_grad


# --- tracing and building ---


def test_questions_about_numbers_are_refused_while_tracing():
    questions = (
        lambda x: x if x.sum() > 0 else -x, lambda x: x * float(x.sum()), lambda x: x[x > 0], lambda x: x + x.numpy(),
    )  # fmt: skip
    for question in questions:
        with pytest.raises(ln.GraphError, match="compile: numbers are not known while a function is traced"):
            ln.compile(question, (2,))


def test_other_results_are_refused():
    with pytest.raises(ln.GraphError, match="a function of Tensors returns Tensors; got float"):
        ln.compile(lambda x: 1.0, (2,))


def test_a_var_of_another_graph_is_refused_and_nothing_is_added():
    g, h = ln.GraphBuilder(), ln.GraphBuilder()
    x, y = g.input((2,)), h.input((2,))
    g.relu(x)
    nodes = len(g.traced(x).graph.nodes)
    for wrong in (lambda: g.add(x, y), lambda: g.relu(y), lambda: g.compile(y), lambda: x + y):
        with pytest.raises(ln.GraphError, match="arguments of one graph|belongs to another"):
            wrong()
    assert len(g.traced(x).graph.nodes) == nodes


def test_a_wrong_shape_names_the_node_and_adds_nothing():
    g = ln.GraphBuilder()
    x, w = g.input((3, 8, 8)), g.input((4, 2, 3, 3))
    with pytest.raises(ValueError, match="node %2 = conv2d: conv: input channels"):
        g.conv2d(w, None, x)
    assert g.traced(x).graph.nodes == []
    with pytest.raises(AttributeError, match="neither in lean_nn.functional nor a primitive"):
        g.no_such_thing(x)


def test_a_builder_goes_on_after_it_has_compiled():
    g = ln.GraphBuilder()
    x = g.input((2,), "float32")
    y = g.relu(x)
    for passes in ((), EXACT):
        first = g.compile(y, passes=passes)
        second = g.compile(y * 3, passes=passes)
        assert first(ones).tolist() == [1, 1] and second(ones).tolist() == [3, 3]
        assert first.jvp((ones,), (ones,))[1].tolist() == [1, 1]


def test_arguments_may_change_places():
    """Updates happen all at once, whatever order they are written in."""
    a, b, c = np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([[5.0], [6.0]])
    program = ln.compile(lambda a, b, c: (c.reshape(2), a, b.reshape(2, 1), a.sum()), a, b, c, inplace=(0, 1, 2))
    assert program() == 3
    assert (a.tolist(), b.tolist(), c.tolist()) == ([5, 6], [1, 2], [[3], [4]])
    program = ln.compile(lambda a, b: (a + 1, a, b * 1), a, b, inplace=(0, 1))
    assert program().tolist() == [1, 2] and (a.tolist(), b.tolist()) == ([6, 7], [5, 6])


def test_what_is_compiled_is_a_function():
    with pytest.raises(TypeError, match="a function or a Module is needed; got int; pass it first"):
        ln.compile(3, (2,))


def test_values_of_a_graph_can_be_printed():
    """Their number and type; while a function is traced, too. A Var of another graph is an error that names the node."""
    g, other = ln.GraphBuilder(), ln.GraphBuilder()
    x, y = g.input((2, 3), name="x"), other.input((2, 3))
    assert repr(x) == "tensor(%0: float32[2, 3])" and str(g.relu(x)) == "tensor(%1: float32[2, 3])"
    seen = []
    ln.compile(lambda x: seen.append(str(x)) or x * 2, (4,))
    assert seen == ["tensor(%0: float32[4])"]
    for wrong, words in ((lambda: g.relu(y), "node %2 = relu: "), (lambda: x + y, "node %2 = add: ")):
        with pytest.raises(GraphError, match=f"^{words}.*arguments of one graph; got %"):
            wrong()


def test_open_sizes_have_names():
    family = ln.compile(lambda x, y: x @ y, ("n", "k"), ("k", 3))
    assert family(np.ones((2, 5), np.float32), np.ones((5, 3), np.float32)).tolist() == [[5, 5, 5]] * 2
    assert family.at({"k": 5, "n": 2}) is family.at({"n": 2, "k": 5})
    for wrong in (8, {"n": 2}, {"n": 2, "k": True}, {"n": 2, "k": -1}, {"n": 2, "k": 2.0}):
        with pytest.raises(ValueError, match=r"\['k', 'n'\]; got .*; give each a number, as in family.at\(\{'n': 8, 'k': 8\}\)"):
            family.at(wrong)
    profile = family.profile(np.ones((2, 5), np.float32), np.ones((5, 3), np.float32), repeats=1)
    assert [row.op for row in profile.rows] == ["matmul"]
    y, (x_bar, _) = family.vjp((np.ones((1, 2), np.float32), np.ones((2, 3), np.float32)), np.ones((1, 3), np.float32))
    assert y.shape == (1, 3) and x_bar.tolist() == [[3, 3]]
    _, y_dot = family.jvp((np.ones((1, 2), np.float32), np.ones((2, 3), np.float32)),
                          (np.ones((1, 2), np.float32), np.zeros((2, 3), np.float32)))  # fmt: skip
    assert y_dot.tolist() == [[2, 2, 2]]


# --- programs as functions ---


def test_derivatives_pass_through_a_program():
    """`grad`, `jvp` and a Tensor that requires a gradient see the program's nodes."""
    program = ln.compile(lambda x, k: (F.sigmoid(x) * k).sum(), (3,), 2.0)
    x = np.array([0.5, -1, 2], np.float32)
    f = lambda x: (F.sigmoid(x) * 2.0).sum()  # noqa: E731
    assert ln.grad(program)(ln.tensor(x)).tolist() == ln.grad(f)(ln.tensor(x)).tolist()
    assert ln.hessian(program)(ln.tensor(x)).tolist() == ln.hessian(f)(ln.tensor(x)).tolist()
    assert ln.jvp(program, (ln.tensor(x),), (ln.tensor(x),))[1].item() == program.jvp((x,), (x,))[1]
    leaf = ln.tensor(x, requires_grad=True)
    program(leaf).backward()
    assert leaf.grad.tolist() == program.vjp((x,), np.float32(1))[1][0].tolist()
    with ln.no_grad():
        assert not program(leaf).requires_grad


def test_a_program_may_be_part_of_another():
    inner = ln.compile(lambda x: F.relu(x) + 1, (3,))
    outer = ln.compile(lambda x: inner(x) * inner(x * 2), (3,))
    assert outer(np.array([-1, 0, 1], np.float32)).tolist() == [1, 1, 6]
    assert "relu" in [n.prim.name for n in outer.source.graph.nodes]


def test_a_program_that_updates_is_not_followed():
    w = np.ones(2)
    program = ln.compile(lambda w, x: (w - x, (w * x).sum()), w, np.ones(2), inplace=0)
    with pytest.raises(ln.GraphError, match="returns its results; got arrays that it updates"):
        ln.grad(program)(ln.tensor(np.ones(2)))
    with pytest.raises(ln.GraphError, match="only a function of its arguments has derivatives"):
        program.jvp((np.ones(2),), (np.ones(2),))
    assert w.tolist() == [1, 1]


@pytest.mark.parametrize("wrong", ["readonly", "strided", "subclass"])
def test_an_updated_argument_can_be_written_to(wrong):
    mean, x = np.zeros(3), np.arange(12.0).reshape(4, 3)
    program = ln.compile(lambda x, mean: F.batch_norm(x, mean, None, training=True).sum(), x, mean)
    given = {"readonly": mean.copy(), "strided": np.zeros(6)[::2], "subclass": np.zeros(3).view(Strange)}[wrong]
    if wrong == "readonly":
        given.setflags(write=False)
    with pytest.raises(ValueError, match="input 1 is updated, so it is a writeable contiguous array or Tensor"):
        program(x, given)
    program(x, mean)
    assert mean.tolist() != [0, 0, 0]


class Strange(np.ndarray):
    """A subclass: a conversion would make a copy, and the update would be lost."""
