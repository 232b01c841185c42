"""Programs in files: they come back as they were, or the error says what is wrong; never anything else."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import random
import stat
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from graph_forging import HOSTILE, forge, parts, places, set_at

import lean_nn as ln
import lean_nn.functional as F
from lean_nn.graph import coding, files
from lean_nn.window import Bins, Window

RNG = np.random.default_rng(0)
W = RNG.standard_normal((4, 2, 3, 3)).astype(np.float32)
B = RNG.standard_normal(4).astype(np.float32)
IDX = np.array([[2], [0]])
MASK = np.array([True, False, True, True])


def network(x):
    """A window, bins, floats, strings, bools, None, nested tuples; constants of all four dtypes."""
    h = F.conv2d(x, W, B, stride=2, padding=(1, (0, 1)))
    h = F.where(MASK[:, None, None], F.leaky_relu(F.avg_pool2d(h, 2, 1, count_include_pad=False), 0.1), h[:, :, :-1, :-1])
    pooled, winners = F.adaptive_max_pool2d(F.max_pool2d(h, 2, 1), (1, None), return_indices=True)
    wide = F.gather(h.sum((2, 3)), 1, IDX).astype("float64") + np.array(0.5)
    return {"pooled": pooled, "rest": [winners, (wide, None)]}


X = RNG.standard_normal((2, 2, 9, 9)).astype(np.float32)


def example():
    return ln.compile(network, X)


def trainer():
    w = {"a": np.array([1.0, 2.0]), "b": np.array(0.5)}

    def step(p, x):
        loss, g = ln.value_and_grad(lambda p: ((p["a"] * x).sum() + p["b"]) ** 2)(p)
        return {name: p[name] - 0.01 * g[name] for name in p}, loss

    return ln.compile(step, w, np.zeros(2), inplace=0), w


def identity(program):
    """All that makes a program what it is."""
    graph = program.source.graph
    arrays = [*graph.constants.values(), *program.state.values()]
    nodes = [(n.prim.name, n.inputs, n.outputs, repr(n.params)) for n in program.graph.nodes]
    return (str(program), nodes, program.passes, program.share, repr(program.source.result), list(program.state),
            sorted((a.dtype.str, a.shape, a.tobytes()) for a in arrays))  # fmt: skip


def flat(result):
    return [(a.dtype, a.shape, a.tobytes()) for a in (result["pooled"], result["rest"][0], result["rest"][1][0])]


# --- there and back ---


def test_a_saved_program_is_the_same_program(tmp_path):
    program, path = example(), tmp_path / "net.safetensors"
    program.save(path)
    loaded = ln.load_program(path)
    assert identity(loaded) == identity(ln.load_program(path))
    assert [n.prim.name for n in loaded.graph.nodes] == [n.prim.name for n in program.graph.nodes]
    assert [repr(n.params) for n in loaded.graph.nodes] == [repr(n.params) for n in program.graph.nodes]
    got, want = loaded(X), program(X)
    assert list(got) == list(want) and isinstance(got["rest"], list) and got["rest"][1][1] is None
    assert flat(got) == flat(want)
    assert loaded.memory == program.memory
    (_, a), (_, b) = loaded.jvp((X,), (X,)), program.jvp((X,), (X,))
    assert a["pooled"].tobytes() == b["pooled"].tobytes()
    assert files.to_bytes(loaded) == files.to_bytes(files.from_bytes(files.to_bytes(loaded)))


@pytest.mark.parametrize("options", [{"passes": ()}, {"passes": ("dead", "constants")}, {"share": False}])
def test_options_are_kept(options):
    program = ln.compile(network, X, **options)
    loaded = pickle.loads(pickle.dumps(program))
    assert (loaded.passes, loaded.share) == (program.passes, program.share)
    assert flat(loaded(X)) == flat(program(X))


def test_weights_are_views_of_the_file_that_nobody_can_write(tmp_path):
    path = tmp_path / "net.safetensors"
    ln.compile(lambda x: x @ np.ones((8, 8), np.float32), (2, 8), passes=()).save(path)
    (weight,) = ln.load_program(path).graph.constants.values()
    assert not weight.flags.writeable and not weight.flags.owndata and weight.flags.aligned
    root = weight
    while isinstance(root, np.ndarray):
        root = root.base
    assert isinstance(root, memoryview) and type(root.obj).__name__ == "mmap"


VALUES = [
    None, True, False, 0, -3, 2**80, 0.0, -0.0, 1.0, 0.1, 5e-324, math.inf, -math.inf, math.nan, "", "é\"\\\n", (),
    (1, 1.0, True), ((0, 1), (None, ("x", (2.5,)))), Window((3, 2), (1, 2), ((0, 1), (2, 3)), (1, 1), True), Bins((2, None)),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_parameters_keep_value_and_type(value):
    back = coding.decode(json.loads(json.dumps(coding.encode(value), allow_nan=False)))
    assert repr(back) == repr(value) and type(back) is type(value)


@pytest.mark.parametrize("value", [[1], {"a": 1}, np.float64(1), np.int64(1), np.dtype("float32"), object(), 1j])
def test_other_parameters_are_refused(value):
    with pytest.raises(ValueError, match=r"save: parameters are None, bool, .* got .*; convert it"):
        coding.encode(value)


def test_pickle_and_copy_go_through_the_same_bytes():
    program = example()
    for twin in (pickle.loads(pickle.dumps(program)), copy.deepcopy(program)):
        assert flat(twin(X)) == flat(program(X))
    assert b"lean_nn program 1" in pickle.dumps(program)


def test_a_program_that_trains_takes_its_state_along(tmp_path):
    """Saved after two steps and loaded, the third step is that of the original; the arrays are its own."""
    program, w = trainer()
    x = np.array([1.0, -1.0])
    losses = [float(program(x)) for _ in range(2)]
    path = tmp_path / "step.safetensors"
    program.save(path)
    loaded = ln.load_program(path)
    assert list(loaded.state) == ["0.a", "0.b"] and loaded.state["0.a"].tolist() == w["a"].tolist()
    before = w["a"].copy()
    assert float(loaded(x)) < losses[1] and w["a"].tolist() == before.tolist()
    assert float(ln.load_program(path)(x)) == float(program(x))
    assert loaded.state["0.a"].tobytes() == w["a"].tobytes() and loaded.state["0.b"].tobytes() == w["b"].tobytes()


def test_one_tensor_is_kept_once():
    w = {"a": np.zeros(2), "b": np.zeros(2)}
    step = ln.compile(lambda w: {name: a + 1 for name, a in w.items()}, w, inplace=0)
    graph, table, data = parts(files.to_bytes(step))
    graph["kept"] = [graph["kept"][0]] * 2
    del table["state.0.b"]
    with pytest.raises(ValueError, match="arrays that a program keeps do not overlap"):
        files.from_bytes(forge(graph, table, data[:-16]))


def test_other_tools_read_the_weights(tmp_path):
    """By the letter of safetensors: the table is contiguous, in order, aligned; its own package agrees, where it is."""
    path = tmp_path / "net.safetensors"
    example().save(path)
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    table = json.loads(data[8 : 8 + length])
    assert all(isinstance(text, str) for text in table.pop("__metadata__").values())
    assert (8 + length) % 64 == 0 and data[8:9] == b"{"
    end = 0
    for entry in table.values():
        assert entry["data_offsets"][0] == end
        end = entry["data_offsets"][1]
    assert 8 + length + end == len(data)
    numpy = pytest.importorskip("safetensors.numpy", reason="the package safetensors is not installed")
    found = numpy.load_file(path)
    assert {a.tobytes() for a in found.values()} == {a.tobytes() for a in ln.load_program(path).source.graph.constants.values()}


def test_saving_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "net.safetensors"
    program = example()
    program.save(path)
    good = path.read_bytes()
    loaded = ln.load_program(path)

    def fails(descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="disk full"):
        ln.compile(lambda x: x + 1, (3,)).save(path)
    assert path.read_bytes() == good and os.listdir(tmp_path) == ["net.safetensors"]
    monkeypatch.undo()
    ln.compile(lambda x: x + 1, (3,)).save(path)
    assert flat(loaded(X)) == flat(program(X))  # the old file lives on in its map


def test_files_have_the_permissions_of_any_other(tmp_path):
    before = os.umask(0o022)
    try:
        example().save(tmp_path / "net.safetensors")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "net.safetensors").stat().st_mode) == 0o644


def test_another_process_runs_it(tmp_path):
    path = tmp_path / "net.safetensors"
    ln.compile(lambda x: x * 2, (2,)).save(path)
    code = f"import lean_nn as ln, numpy as np; print(ln.load_program({str(path)!r})(np.ones(2, np.float32)).tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[2.0, 2.0]\n"


def test_forms_that_a_file_cannot_hold_are_refused(tmp_path):
    from collections import OrderedDict

    program = ln.compile(lambda x: OrderedDict(y=x), (2,))
    with pytest.raises(ValueError, match="save: a program returns tuples, lists and dicts; got OrderedDict"):
        program.save(tmp_path / "f")
    assert os.listdir(tmp_path) == []


# --- damaged and hostile files ---

SMALL = files.to_bytes(ln.compile(network, X))
TRAIN = files.to_bytes(trainer()[0])


def outcome(data):
    """The program's identity, or the error's text; anything else is a failure."""
    try:
        return identity(files.from_bytes(bytes(data), "hostile"))
    except ValueError as error:
        assert "load_program: 'hostile' is no program" in str(error)
        return str(error)


def test_a_file_cut_anywhere_is_an_error():
    for length in [*range(600), *range(600, len(SMALL), 7), len(SMALL) - 1]:
        assert isinstance(outcome(SMALL[:length]), str), length
    assert isinstance(outcome(SMALL + b"\0"), str)


@pytest.mark.parametrize("data", [SMALL, TRAIN], ids=["network", "trainer"])
def test_a_changed_byte_is_an_error_or_changes_nothing(data):
    good, random_ = outcome(data), random.Random(0)
    assert not isinstance(good, str)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= random_.choice([1, 2, 4, 8, 16, 32, 64, 128, 255])
        got = outcome(changed)
        assert isinstance(got, str) or got == good, place


@pytest.mark.parametrize("kind", ["missing", "empty", "folder", "pipe", "device", "text"])
def test_what_is_no_program_file(tmp_path, kind):
    path = tmp_path / "file"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path = "/dev/zero"
    elif kind != "missing":
        path.write_text("" if kind == "empty" else "This is a text, and quite a long one at that.")
    error = FileNotFoundError if kind == "missing" else ValueError
    with pytest.raises(error, match="file|zero"):
        ln.load_program(path)


def test_a_forged_file_without_changes_loads():
    assert outcome(forge(*parts(SMALL))) == outcome(SMALL)


def node(graph, name):
    return next(node for node in graph["nodes"] if node[0] == name)


GRAPH_LIES = {
    "no primitive is called 'eval'": lambda g: set_at(g["nodes"][0], 0, "eval"),
    "no primitive is called 3": lambda g: set_at(g["nodes"][0], 0, 3),
    "before they are read; got 99999": lambda g: g["nodes"][0][1].append(99999),
    "before they are read; got -1": lambda g: set_at(g["nodes"][0][1], 0, -1),
    "before they are read; got True": lambda g: set_at(g["nodes"][0][1], 0, True),
    "before they are read; got 1e": lambda g: set_at(g["outputs"], 0, 1e300),
    "node 0: .*conv": lambda g: g["nodes"][0][1].extend([0, 0, 0]),
    "stride": lambda g: set_at(node(g, "conv")[2], "stride", [0, 0]),
    "unexpected keyword argument": lambda g: set_at(node(g, "conv")[2], "strides", [1, 1]),
    "an object is a float, a Window or Bins": lambda g: set_at(node(g, "conv")[2], "stride", {"eval": "1"}),
    "an object stands for one value": lambda g: set_at(node(g, "conv")[2], "stride", {}),
    "at most 32 tuples deep": lambda g: set_at(node(g, "conv")[2], "stride", json.loads("[" * 500 + "]" * 500)),
    "whole numbers per axis": lambda g: set_at(node(g, "avg_pool")[2]["window"]["Window"], 0, [2.0, 2.0]),
    "ceil_mode is true or false": lambda g: set_at(node(g, "avg_pool")[2]["window"]["Window"], 4, 1),
    "conv makes": lambda g: set_at(node(g, "conv"), 3, [["F32", [1]]]),
    "max_pool makes": lambda g: node(g, "max_pool")[3].pop(),
    "a dtype is one of": lambda g: set_at(g["inputs"][0], 0, "F16"),
    "sizes are whole numbers": lambda g: set_at(g["inputs"][0], 1, [-1, 2, 9, 9]),
    "sizes are whole numbers; got .*9.0": lambda g: set_at(g["inputs"][0], 1, [2, 2, 9, 9.0]),
    "memory's address range": lambda g: set_at(g["inputs"][0], 1, [2**40, 2**40, 9, 9]),
    "at most 32 sizes": lambda g: set_at(g["inputs"][0], 1, [1] * 33),
    "names of inputs are text": lambda g: set_at(g["inputs"][0], 2, 1),
    "a graph has": lambda g: g.pop("share"),
    "a graph has .*extra": lambda g: set_at(g, "extra", 1),
    "nobody": lambda g: set_at(g["constants"], 0, "nobody"),
    "unknown passes": lambda g: g["passes"].append("format_disk"),
    "share is true or false": lambda g: set_at(g, "share", 1),
    "the result has 3 arrays": lambda g: set_at(g, "result", "*"),
    "a result is made of arrays": lambda g: set_at(g, "result", {"set": []}),
    "keys of a dict differ": lambda g: set_at(g, "result", {"dict": [["a", "*"], ["a", "*"]]}),
    "a result is at most 32 containers deep": lambda g: set_at(g, "result", json.loads("[" * 500 + "]" * 500)),
    "updated with a value of its own type": lambda g: g["updates"].append([0, 1]),
    "kept has an entry for each of": lambda g: g["kept"].append(None),
    "kept arrays have their input's type": lambda g: set_at(g["kept"], 0, "constant.0"),
}  # fmt: skip


@pytest.mark.parametrize("words", GRAPH_LIES)
def test_lies_in_the_graph(words):
    graph, table, data = parts(SMALL)
    GRAPH_LIES[words](graph)
    with pytest.raises(ValueError, match=words):
        files.from_bytes(forge(graph, table, data))


TABLE_LIES = {
    "from 0; got \\[8, 24\\]": lambda e: set_at(e, "data_offsets", [8, 24]),
    "has two offsets; got \\[0\\]": lambda e: set_at(e, "data_offsets", [0]),
    "has two offsets; got \\[0.0": lambda e: set_at(e, "data_offsets", [0.0, 16]),
    "got \\[0, 1[0-9]{30}\\]": lambda e: set_at(e, "data_offsets", [0, 10**30]),
    "got \\[-8, 8\\]": lambda e: set_at(e, "data_offsets", [-8, 8]),
    "address range": lambda e: set_at(e, "shape", [2**31, 2**31, 2**31]),
    "sizes are whole": lambda e: set_at(e, "shape", [-2]),
    "sizes are whole .*True": lambda e: set_at(e, "shape", [True]),
    "a dtype is one of": lambda e: set_at(e, "dtype", "BF16"),
    "has dtype, shape and": lambda e: e.pop("dtype"),
}  # fmt: skip


@pytest.mark.parametrize("words", TABLE_LIES)
def test_lies_in_the_table_of_tensors(words):
    graph, table, data = parts(SMALL)
    TABLE_LIES[words](next(iter(table.values())))
    with pytest.raises(ValueError, match=words.replace("sizes are whole .*True", "sizes are whole")):
        files.from_bytes(forge(graph, table, data))


def test_lies_about_the_file_itself():
    graph, table, data = parts(SMALL)
    for words, forged in {
        "header fits into the file": (2**63).to_bytes(8, "little") + SMALL[8:],
        "utf-8": (64).to_bytes(8, "little") + b"\xff" * 64,
        "Expecting|JSON": (64).to_bytes(8, "little") + b"{" * 64,
        "nested too deeply": (10**5).to_bytes(8, "little") + b"[" * 10**5,
        "JSON has no NaN": forge('{"a": NaN}', table, data),
        "keys differ": forge('{"a": 1, "a": 2}', table, data),
        "an object is expected": forge("[]", table, data),
        "the format is": forge(graph, table, data, format="pt"),
        "the checksum is": forge(graph, table, data, crc32="00000000"),
        "metadata are format": forge(graph, table, data, note="x"),
        "metadata are format, graph and crc32": forge(graph, table, data, crc32=5),
        "the tensors fill the file": forge(graph, table, data + b"\0" * 8),
        "integer string": forge('{"a": ' + "9" * 5000 + "}", table, data),
    }.items():
        with pytest.raises(ValueError, match=words):
            files.from_bytes(forged)


def test_a_tensor_that_nothing_uses():
    graph, table, data = parts(SMALL)
    table["more"] = {"dtype": "BOOL", "shape": [0], "data_offsets": [len(data), len(data)]}
    with pytest.raises(ValueError, match="each tensor is a constant or is kept"):
        files.from_bytes(forge(graph, table, data))


def test_a_bool_is_0_or_1():
    graph, table, data = parts(SMALL)
    (name,) = [name for name, entry in table.items() if entry["dtype"] == "BOOL"]
    start = table[name]["data_offsets"][0]
    with pytest.raises(ValueError, match="has bytes 0 and 1; got 7"):
        files.from_bytes(forge(graph, table, data[:start] + b"\7" + data[start + 1 :]))


def test_whatever_the_graph_says_loading_is_an_error_or_a_program_of_the_files_size():
    """A right checksum over wrong words: one or two slots of the graph hold something else."""
    random_ = random.Random(1)
    files.from_bytes(SMALL)
    tracemalloc.start()
    try:
        for _ in range(250):
            graph, table, data = parts(random_.choice([SMALL, TRAIN]))
            for _ in range(random_.choice([1, 1, 2])):
                part, key = random_.choice(places(graph, []))
                part[key] = random_.choice(HOSTILE)
            outcome(forge(graph, table, data))
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
