"""Families in files: one graph for all sizes, or an error that names what is not; hostile ones are errors."""

from __future__ import annotations

import copy
import json
import math
import operator
import pickle
import random
import tracemalloc
import warnings

import numpy as np
import pytest
from graph_forging import HOSTILE, forge, parts, places, set_at
from graph_networks import NETWORKS, example

import lean_nn as ln
import lean_nn.functional as F
from lean_nn import tree
from lean_nn.graph import Family, files
from lean_nn.graph import family as families
from lean_nn.graph.general import Fit
from lean_nn.graph.passes import EXACT
from lean_nn.graph.sizes import closed
from lean_nn.graph.watched import DerivedFloat, Watched
from lean_nn.primitive import GraphError

RNG = np.random.default_rng(0)


def array(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def flat(result):
    return [(a.dtype, a.shape, a.tobytes()) for a in tree.leaves(result)]


def twin(family):
    """The family after saving and loading."""
    return files.from_bytes(files.to_bytes(family), "twin")


W = array(5, 4)
STATE = array(3, 4)


def recurrent(x):
    """The zeros it starts from have the size of the batch."""
    h = np.zeros((x.shape[0], 3), np.float32)
    for i in range(2):
        h = F.tanh(x[:, i] @ W[:4, :3] + h)
    return h


FUNCTIONS = {
    "rows": (lambda x: x.sum(1), [(None, 4)]),
    "flatten": (lambda x: x.reshape(-1), [(None, 4)]),
    "pairs": (lambda x: (x.sum(1).reshape(-1, 1) * x.sum(1)).reshape(-1), [(None, 4)]),
    "first rows": (lambda x: x.reshape(-1)[: 2 * x.shape[0]], [(None, 4)]),
    "mean": (lambda x: x.mean(), [(None, 4)]),
    "gradient of a mean": (lambda x: ln.grad(lambda x: (x * x).mean())(x), [(None, 4)]),
    "recurrent": (recurrent, [(None, 2, 4)]),
    "two sizes": (lambda x, y: (x @ y).reshape(-1), [("n", "k"), ("k", 3)]),
    "a product of sizes": (lambda x, y: (x.sum(1).reshape(-1, 1) * y.sum(1)).reshape(-1), [("n", 3), ("k", 3)]),
    "a picture of any size": (lambda x: F.adaptive_avg_pool2d(F.max_pool2d(F.conv2d(x, W[:, :, None, None]), 3, 2), 2).flatten(1),
                              [(None, 4, "height", "width")]),
    "a list": (lambda x: [x * 2, (x.sum(0), x)], [(None, 4)]),
}  # fmt: skip
SIZES = [1, 2, 6, 37]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_loaded_family_gives_what_a_fresh_trace_gives(name):
    """Every bit, at sizes that were traced to save it and at others; saved again it is the same file."""
    f, shapes = FUNCTIONS[name]
    family = ln.compile(f, *shapes)
    loaded = twin(family)
    assert isinstance(loaded, Family) and loaded.shapes == shapes
    for n in SIZES:
        numbers = {"k": n + 1, "height": n + 6, "width": 2 * n + 5}
        arrays = [array(*(s if isinstance(s, int) else numbers.get(s, n) for s in shape)) for shape in shapes]
        assert flat(loaded(*arrays)) == flat(family(*arrays))
        assert str(loaded.program_for(*arrays)) == str(family.program_for(*arrays))
    assert files.to_bytes(twin(loaded)) == files.to_bytes(loaded)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("passes", [None, EXACT], ids=["all passes", "exact"])
def test_networks(name, passes, tmp_path):
    params, buffers, x, _ = example(name)
    family = ln.compile(lambda x: NETWORKS[name].forward({**params, **buffers}, x, False), (None, *x.shape[1:]), passes=passes)
    family.save(tmp_path / "net")
    loaded = ln.load_program(tmp_path / "net")
    for n in (1, 3):
        batch = array(n, *x.shape[1:])
        assert flat(loaded(batch)) == flat(family(batch))
        assert loaded.program_for(batch).memory == family.program_for(batch).memory
        _, y_dot = loaded.jvp((batch,), (batch,))
        assert flat(y_dot) == flat(family.jvp((batch,), (batch,))[1])


def test_a_builder_with_open_sizes_is_saved_too():
    g = ln.GraphBuilder()
    x = g.input(("batch", 4), "float32", name="x")
    family = g.compile(g.relu(g.linear(x, W)))
    loaded = twin(family)
    assert flat(loaded(array(3, 4))) != flat(array(3, 5)) and flat(loaded(STATE)) == flat(family(STATE))
    with pytest.raises(ValueError, match=r"input 0 has shape \('batch', 4\); got \(3, 5\)"):
        loaded(array(3, 5))


def test_pickle_copy_and_options():
    family = ln.compile(lambda x: F.relu(x @ W.T), (None, 4), passes=("dead",), share=False)
    for other in (pickle.loads(pickle.dumps(family)), copy.deepcopy(family)):
        assert other.options == family.options and flat(other(STATE)) == flat(family(STATE))


def test_weights_are_mapped_once_for_all_sizes(tmp_path):
    """Constants of the file are one array however many sizes are planned; those that passes make are shared as well."""
    path = tmp_path / "net"
    w, scale = array(16, 16, 3, 3), array(16, 1, 1)
    ln.compile(lambda x: F.conv2d(F.relu(F.conv2d(x, w, padding=1) * scale), w, padding=1), (None, 16, 12, 12)).save(path)
    loaded = ln.load_program(path)
    programs = [loaded.at({None: n}) for n in (1, 2, 8)]
    sources = [{id(a) for a in program.source.graph.constants.values()} for program in programs]
    assert sources[0] == sources[1] == sources[2]
    folded = [{id(a) for a in p.graph.constants.values() if a.nbytes >= w.nbytes} - sources[0] for p in programs]
    assert folded[0] and folded[1] & folded[2]
    assert not any(a.flags.writeable for a in programs[0].source.graph.constants.values())


def test_programs_of_a_loaded_family_are_bounded(monkeypatch):
    monkeypatch.setattr(families, "CACHED", 3)
    loaded = twin(ln.compile(lambda x: x + 1, (None, 2)))
    for n in range(1, 9):
        assert loaded(np.zeros((n, 2), np.float32)).shape == (n, 2)
    assert len(loaded._programs) == 3
    assert repr(loaded) == "<Family of programs on (None, 2); planned for: None=6, None=7, None=8>"


REFUSED = {
    r"node %1: with None=2 it is not there, with None=100 it is relu\(%0\)": lambda x: F.relu(x) if x.shape[0] == 100 else x,
    r"node %1: .* with None=1000 it is relu": lambda x: F.relu(x) if 3 * x.shape[0] + 2 == 3002 else x,
    r"node %1: with None=2 it is exp\(%0\), with None=1 it is relu": lambda x: F.relu(x) if x.shape[0] == 1 else F.exp(x),
    r"node %1 = slice\(%0\): its parameters, .*no polynomial": lambda x: x[: x.shape[0] // 2],
    r"node %\d+: with None=2 it is": lambda x: sum((x[i] for i in range(x.shape[0])), 0 * x.sum(0)),
    r"constant %1: its values change": lambda x: x * np.arange(x.shape[0], dtype=np.float32)[:, None],
    r"constant %1: its shape or number": lambda x: x * float(np.sqrt(x.shape[0])),
    r"outputs: .*number or form|its outputs": lambda x: [x * 1] * x.shape[0],
    r"its outputs: they are not the same values with None=2 and None=3": lambda x: [x * 1, x * 2][x.shape[0] % 2],
}


@pytest.mark.parametrize("words", REFUSED)
def test_graphs_that_depend_on_sizes_otherwise_are_refused(words, tmp_path):
    family = ln.compile(REFUSED[words], (None, 4))
    with pytest.raises(GraphError, match=rf"save: the file of a family holds one graph for all sizes; got .*{words}.*family\.at"):
        family.save(tmp_path / "f")
    assert not list(tmp_path.iterdir())
    family.at({None: 8}).save(tmp_path / "f")
    assert ln.load_program(tmp_path / "f").graph.inputs == [0]


def test_of_nothing_it_may_be_something_else():
    """A slice that takes all is no slice: the file is for 1 and more, and says so."""
    family = ln.compile(lambda x: x.reshape(-1)[: x.shape[0]], (None, 4))
    loaded = twin(family)
    assert flat(loaded(STATE)) == flat(family(STATE))
    with pytest.raises(ValueError, match=r"saved for sizes of at least 1; got None=0; compile it"):
        loaded(np.zeros((0, 4), np.float32))
    assert twin(ln.compile(lambda x: x + 1, (None, 4)))(np.zeros((0, 4), np.float32)).shape == (0, 4)


def test_sizes_that_the_function_refuses():
    """A convolution that needs 20 pixels is traced where it has them; one that takes four sizes only says so."""
    loaded = twin(ln.compile(lambda x: F.conv1d(x, np.ones((1, 1, 20), np.float32)), (1, 1, "length")))
    assert loaded(np.ones((1, 1, 33), np.float32)).tolist() == [[[20.0] * 14]]

    def picky(x):
        if x.shape[0] not in (2, 4):
            raise ValueError("two or four")
        return x

    with pytest.raises(ValueError, match="traced at 6 sizes at least; got 2 that its function takes, .* two or four"):
        files.to_bytes(ln.compile(picky, (None, 4)))


def test_watched_sizes_remember_what_they_are_compared_with():
    seen = set()
    n = Watched.of(6, 0, 1, 0, seen)
    assert n == 6 and n + 1 == 7 and 2 * n - 3 == 9 and 1 + n < 8 and n * 3 >= 18 and not n > 6 and n <= 6 and n != 5 and n
    seen.clear()
    assert 2 * n + 1 < 101 and {i for _, i in seen} == {49, 50, 51}
    seen.clear()
    assert 3 * (n + 1) < 100 and {i for _, i in seen} == {31, 32, 33}
    seen.clear()
    assert not n > 1e9 and not seen
    assert n * n == 36 and n - n == 0 and type(n * n) is int and 10 - n == 4
    seen.clear()
    assert 10 - 2 * n > -91 and {i for _, i in seen} == {49, 50, 51}


ASKED = {
    "quotient": (lambda n: n // 2 > 600, {1201, 1202}),
    "of a quotient": (lambda n: (n // 3 + 1) * 2 - 1 >= 801, {1199, 1200}),
    "remainder": (lambda n: n % 20_000 == 0, {0, 1, 19_999, 20_000, 20_001, 40_000, 40_001, 59_999, 60_000, 60_001}),
    "fraction": (lambda n: n / 8 < 100.25, {801, 802}),
    "power": (lambda n: n**2 <= 10**6, {1000, 1001}),
    "turned": (lambda n: 1 / n > 1e-3, {0, 1, 999, 1000}),
    "whether there is one": (lambda n: bool(n // 500), {499, 500}),
    "never": (lambda n: n // 2 < 0, set()),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_is_made_of_a_size_remembers_too(name):
    """The sizes on both sides of where the answer changes, and the answer itself."""
    ask, places = ASKED[name]
    seen = set()
    assert ask(Watched.of(6, 0, 1, 0, seen)) is ask(6)
    assert {n for _, n in seen} == places


def test_what_lean_nn_makes_of_a_size_is_a_number():
    seen = set()
    n = Watched.of(6, 0, 1, 0, seen)
    assert type(eval("n // 2", {"__name__": "lean_nn.ops.shape", "n": n})) is int
    half = n / 4
    assert type(half) is DerivedFloat and type(half * n) is float and str(half) == "1.5" and [7][n // 6 - 1] == 7


FORGOTTEN = {
    "len": lambda x: F.relu(x) if len(x) > 3000 else x,
    "index": lambda x: F.relu(x) if operator.index(x.shape[0]) >= 60_000 else x,
    "range": lambda x: F.relu(x) if len(range(x.shape[0])) > 5000 else x,
    "float": lambda x: F.relu(x) if float(x.shape[0]) > 2000.5 else x,
    "math": lambda x: F.relu(x) if math.log2(x.shape[0] + 1) > 11.5 else x,
    "NumPy": lambda x: F.relu(x) if np.sqrt(x.shape[0]) > 50 else x,
    "NumPy's shapes": lambda x: F.relu(x) if np.zeros(x.shape[0]).size > 1500 else x,
    "a round number": lambda x: F.relu(x) if operator.index(x.shape[0]) == 1000 else x,
    "text": lambda x: F.relu(x) if len(str(x.shape[0])) == 5 else x,
}


@pytest.mark.parametrize("name", FORGOTTEN)
def test_comparisons_of_numbers_that_have_forgotten_are_refused(name, tmp_path):
    family = ln.compile(FORGOTTEN[name], (None, 4))
    with pytest.raises(GraphError, match=r"save: .* holds one graph for all sizes; got node %1: with None=\d+ it"):
        family.save(tmp_path / "f")


def test_a_loop_over_a_size_is_refused_before_it_runs_far():
    longest = 0

    def f(x):
        nonlocal longest
        longest = max(longest, x.shape[0])
        return sum((x[i] for i in range(x.shape[0])), 0 * x.sum(0))

    with pytest.raises(GraphError, match="one graph for all sizes"):
        files.to_bytes(ln.compile(f, (None, 4)))
    assert longest < 2000


def test_fit():
    fit = Fit([(2,), (3,), (5,), (1,), (7,)])
    assert fit.terms_of([4, 4, 4, 4, 4]) == [[4, []]]
    assert fit.terms_of([1, 4, 10, -2, 16]) == [[-5, []], [3, [0]]]
    assert fit.terms_of([4, 9, 25, 1, 49]) == [[1, [0, 0]]]
    assert fit.terms_of([8, 27, 125, 1, 343]) is None
    assert fit.terms_of([3, 6, 15, 1, 28]) is None  # n(n + 1)/2 has coefficients that are not whole
    two = Fit([(2, 3), (3, 2), (5, 5), (1, 4), (4, 1), (7, 2), (2, 2), (6, 1)])
    values = [2 * a * b - b + 4 for a, b in two.sizes]
    assert closed([{"x": {"n": two.terms_of(values)}}], (10, 7)) == [{"x": 137}]
    with pytest.raises(ValueError, match="sizes vary independently"):
        Fit([(n, n) for n in range(9)])


# --- hostile files ---

FAMILY = files.to_bytes(ln.compile(FUNCTIONS["recurrent"][0], (None, 2, 4)))


def outcome(data):
    """The loaded family's result for three samples, or the error's text; anything else is a failure."""
    try:
        family = files.from_bytes(bytes(data), "hostile")
        return flat(family(np.ones((3, 2, 4), np.float32)))
    except (ValueError, GraphError, MemoryError) as error:
        return str(error)


def test_a_family_cut_or_changed_anywhere_is_an_error_or_the_same():
    good, random_ = outcome(FAMILY), random.Random(0)
    assert not isinstance(good, str)
    for length in range(0, len(FAMILY), 11):
        assert "no program" in outcome(FAMILY[:length]), length
    for place in range(0, len(FAMILY), 2):
        changed = bytearray(FAMILY)
        changed[place] ^= random_.choice([1, 2, 4, 8, 16, 32, 64, 128, 255])
        got = outcome(changed)
        assert got == good or "no program" in got, place


LIES = {
    "open sizes have a name or null": lambda g: set_at(g["sizes"][0], 0, 3),
    "begin at 0 or 1": lambda g: set_at(g["sizes"][0], 1, 2),
    "have an example": lambda g: set_at(g["sizes"][0], 2, "2"),
    "sizes are whole numbers": lambda g: set_at(g["sizes"][0], 2, -1),
    "open sizes have a name or null.*got \\[\\]": lambda g: set_at(g, "sizes", []),
    "each open size is that of an input": lambda g: g["sizes"].append(["more", 0, 2]),
    "each open size is that of an input; got .*2": lambda g: set_at(g["inputs"][0][1], 0, {"n": [[2, [0]]]}),
    "at most 2 of 1 open sizes; got .*5": lambda g: set_at(g["inputs"][0][1], 1, {"n": [[1, [5]]]}) or lie(g, [[1, [5]]]),
    "at most 2 of 1 open sizes; got \\[1.5": lambda g: lie(g, [[1.5, [0]]]),
    "at most 2 of 1 open sizes; got \\[1, \\[0, 0, 0": lambda g: lie(g, [[1, [0, 0, 0]]]),
    "at most 2 of 1 open sizes; got \\[9223": lambda g: lie(g, [[2**63, []]]),
    "sum of products of sizes; got \\[\\]": lambda g: lie(g, []),
    "sum of products of sizes; got x": lambda g: lie(g, "x"),
    "sum of products of sizes; got \\[\\[1": lambda g: lie(g, [[1, []]] * 9),
    "node 1: .*": lambda g: set_at(g["nodes"][1], 1, [99]),
    "a constant is a tensor or one number": lambda g: set_at(full(g), "full", ["F32", [2, 3], "x"]),
    "a constant is a tensor or one number; got .*empty": lambda g: g["constants"].append({"empty": ["F32", [2], 0]}),
    "address range": lambda g: set_at(full(g), "full", ["F32", [2**40, 2**40], 0.0]),
    "a dtype is one of": lambda g: set_at(full(g), "full", ["F16", [2, 3], 0.0]),
    "unknown passes": lambda g: g["passes"].append("format_disk"),
    "share is true or false": lambda g: set_at(g, "share", 1),
    "keeps arguments has one size|kept arrays have": lambda g: set_at(g["kept"], 0, "constant.0"),
    "recursion|deep": lambda g: set_at(g["nodes"][0][2], "start", json.loads("[" * 900 + "]" * 900)),
}  # fmt: skip


def full(graph):
    return next(entry for entry in graph["constants"] if isinstance(entry, dict))


def lie(graph, terms):
    """A parameter of the first node that is another polynomial."""
    graph["inputs"][0][1][1] = 2
    graph["nodes"][0][2]["size"][0] = {"n": terms}


@pytest.mark.parametrize("words", LIES)
def test_lies_in_a_family(words):
    graph, table, data = parts(FAMILY)
    LIES[words](graph)
    with pytest.raises(ValueError, match=f"is no program that can be used: .*(?:{words})"):
        files.from_bytes(forge(graph, table, data))


def test_a_family_that_holds_for_its_example_only():
    """What the file says is checked again at every size: then the call is the error, and names the sizes."""
    graph, table, data = parts(files.to_bytes(ln.compile(lambda x: x.reshape(-1), (None, 4))))
    (node,) = graph["nodes"]
    node[2]["shape"], node[3] = [8], [["F32", [8]]]
    loaded = files.from_bytes(forge(graph, table, data), "mine")
    assert loaded(np.ones((2, 4), np.float32)).shape == (8,)
    with pytest.raises(ValueError, match="'mine' is no program that can be used: with None=3, node 0: reshape"):
        loaded(np.ones((3, 4), np.float32))


NUMBERS = [*HOSTILE, {"n": [[2**61, []]]}, {"n": [[-1, [0]]]}, {"over": 0}, {"n": [[1, [0, 0]]]}]


def test_whatever_a_family_says_loading_takes_no_memory():
    """A right checksum over wrong words; constants that are one number take memory when a size is planned, not before."""
    random_ = random.Random(2)
    files.from_bytes(FAMILY)
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(300):
                graph, table, data = parts(FAMILY)
                for _ in range(random_.choice([1, 1, 2])):
                    part, key = random_.choice(places(graph, []))
                    part[key] = random_.choice(NUMBERS)
                try:
                    files.from_bytes(forge(graph, table, data), "hostile")
                except ValueError as error:
                    assert "load_program: 'hostile' is no program" in str(error)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
