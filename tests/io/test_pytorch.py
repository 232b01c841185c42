"""PyTorch's files, read without it: the files in ``tests/data`` were written by it (``make_states.py`` beside them)."""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lean_nn import io
from lean_nn.io.pickles import CALLS, INSTRUCTIONS, unpickle

DATA = Path(__file__).resolve().parent.parent / "data"
FORMATS = ["zip", "legacy"]
BASE = np.arange(12, dtype=np.float32).reshape(3, 4) / 8


@pytest.mark.parametrize("kind", FORMATS)
def test_a_state_dict(kind: str) -> None:
    found = io.load(DATA / f"state_{kind}.pt")
    expected = {
        "weight": BASE, "shared": BASE[1:, ::2], "turned": BASE.T, "scalar": np.array(7), "empty": np.zeros((0, 3), np.float32),
        "parameter": np.ones((2, 2), np.float32), "double": np.array([np.float32(1 / 3), np.nan, np.inf], np.float64),
        "half": np.array([1.5, -2], np.float16), "int32": np.array([1, -2], np.int32), "int8": np.array([-3], np.int8),
        "uint8": np.array([200], np.uint8), "int16": np.array([300], np.int16), "bool": np.array([True, False]),
    }  # fmt: skip
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        np.testing.assert_array_equal(found[name], array, strict=True)
    assert np.shares_memory(found["weight"], found["turned"])


@pytest.mark.parametrize("kind", FORMATS)
def test_bfloat16_is_converted_when_asked(kind: str) -> None:
    with pytest.raises(ValueError, match="NumPy has no bfloat16; got 'brain' of that type"):
        io.load(DATA / f"bfloat16_{kind}.pt")
    found = io.load(DATA / f"bfloat16_{kind}.pt", dtype="float32")["brain"]
    np.testing.assert_array_equal(found, np.array([1, -3.140625, 65280], np.float32), strict=True)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_checkpoint(kind: str) -> None:
    path = DATA / f"checkpoint_{kind}.pt"
    with pytest.raises(ValueError, match="tensors by name; got the entries .*'epoch'.*load_pytorch"):
        io.load(path)
    found = io.load_pytorch(path, dtype="float64")
    assert {key: value for key, value in found.items() if key != "state_dict"} == {
        "epoch": 3, "lr": 0.5, "name": "net", "shape": (1, [2, None])}  # fmt: skip
    np.testing.assert_array_equal(found["state_dict"]["turned"], BASE.T.astype(np.float64), strict=True)


# --- damage ---


@pytest.mark.parametrize("name", ["bfloat16_zip", "bfloat16_legacy", "state_legacy"])
def test_cut_anywhere(name: str, tmp_path: Path) -> None:
    whole = (DATA / f"{name}.pt").read_bytes()
    path = tmp_path / "w.pt"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="load: .*cannot be used"):
            io.load(path, dtype="float32")
    path.write_bytes(whole + b"x")
    if name.endswith("legacy"):
        with pytest.raises(ValueError, match="1 bytes behind"):
            io.load(path)


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_flipped_bits_never_crash(kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    raw = bytearray((DATA / f"state_{kind}.pt").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("flip") / "w.pth"
    path.write_bytes(raw)
    try:
        found = io.load(path)
    except ValueError:
        return
    assert sum(array.nbytes for array in found.values()) < 64 * len(raw)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*map(lambda code: bytes([code]), INSTRUCTIONS), b"\x00", b"\x01", b"."]), max_size=40))
def test_any_row_of_instructions_ends(parts: list[bytes]) -> None:
    with contextlib.suppress(ValueError, struct.error):
        unpickle(b"".join(parts) + b".")


# --- hostility ---


class Call:
    """Pickles as a call of anything."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def __reduce__(self) -> Any:
        return self.parts[0], self.parts[1:]


def zipped(path: Path, pickled: bytes, storages: dict[str, bytes] | None = None, method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("archive/data.pkl", pickled)
        for name, data in (storages or {}).items():
            file.writestr(f"archive/data/{name}", data)
    return path


def rowed(path: Path, pickled: bytes) -> Path:
    head = b"".join(pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
    path.write_bytes(head + pickled + pickle.dumps([], 2))
    return path


def refused(path: Path, text: str) -> None:
    """The words, in both readers, and no more memory than a few files' worth."""
    for load in (io.load, io.load_pytorch):
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match=text):
                load(path)
            assert tracemalloc.get_traced_memory()[1] < 3_000_000 + 64 * path.stat().st_size
        finally:
            tracemalloc.stop()


def hostile() -> Iterator[Any]:
    for name, value in {
        "posix.system": Call(os.system, "touch /tmp/lean_nn_was_here"), "builtins.eval": Call(eval, "1"),
        "builtins.getattr": Call(getattr, "x", "y"), "builtins.exec": {"a": [Call(exec, "1")]},
        "subprocess.Popen": Call(subprocess.Popen, "ls"), "codecs.encode": OrderedDict(a=b"bytes"),
    }.items():  # fmt: skip
        for protocol in (2, 4):
            attribute = name.rpartition(".")[2]  # protocol 2 has Python 2's names for modules
            text = "refused" if name == "codecs.encode" else f"{attribute}', which is refused"
            yield pytest.param(pickle.dumps(value, protocol), text, id=f"{name}-{protocol}")
    for name in ("os.system", "torch.load", "torch._utils._rebuild_qtensor", "numpy.load", "lean_nn.load_program"):
        module, _, attribute = name.rpartition(".")
        yield pytest.param(f"c{module}\n{attribute}\n(tR.".encode(), f"'{name}', which is refused", id=name)
    yield pytest.param(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.", "'os.system', which is refused", id="stack")
    yield pytest.param(b"ios\nsystem\n.", "instruction b'i', which is refused", id="inst")
    yield pytest.param(b"(cos\nsystem\no.", "os.system", id="obj")
    yield pytest.param(b"\x82\x01.", "instruction", id="extension")
    yield pytest.param(b"\x8e" + (2**62).to_bytes(8, "little") + b".", "instruction", id="huge bytes")
    yield pytest.param(b"X\xff\xff\xff\x7fabc.", "goes on after its end", id="huge text")
    yield pytest.param(b"Nr\xff\xff\xff\x7f1.", "instruction", id="huge memo number")
    yield pytest.param(b"]" + b"\x85" * 20_000 + b".", "containers deep|tensors by name", id="deep")
    yield pytest.param(b"]q\x00h\x00a.", "containers deep|tensors by name", id="itself")
    yield pytest.param(b"})Ns.", "keys of a dict", id="tuple key")
    yield pytest.param(b"}(Ku.", "cannot be used", id="odd")
    yield pytest.param(b"", "cannot be used", id="empty")
    yield pytest.param(b"ccollections\nOrderedDict\n.", "cannot be used", id="name alone")
    yield pytest.param(b"ccollections\nOrderedDict\n)R}X\x01\x00\x00\x00xK\x01sb.", "own state is refused", id="state")


@pytest.mark.parametrize(("pickled", "text"), list(hostile()))
def test_hostile_pickles(pickled: bytes, text: str, tmp_path: Path) -> None:
    if pickled[:1] != b"\x80":
        pickled = b"\x80\x02" + pickled
    refused(zipped(tmp_path / "w.pt", pickled), text)
    refused(rowed(tmp_path / "w.pt", pickled), text)
    assert not os.path.exists("/tmp/lean_nn_was_here")


def tensor(kind: str, key: str, count: int, first: int, shape: Any, steps: Any) -> bytes:
    """The pickle of ``{"x": tensor}``, by hand."""
    def value(v: Any) -> bytes:
        return pickle.dumps(v, 2)[2:-1]

    storage = b"(" + value("storage") + f"ctorch\n{kind}Storage\n".encode() + value(key) + value("cpu") + value(count) + b"tQ"
    parts = storage + value(first) + value(shape) + value(steps) + b"\x89ccollections\nOrderedDict\n)R"
    return b"\x80\x02}" + value("x") + b"ctorch._utils\n_rebuild_tensor_v2\n(" + parts + b"tRs."


def test_the_pickle_by_hand_is_right(tmp_path: Path) -> None:
    path = zipped(tmp_path / "w.pt", tensor("Float", "0", 4, 1, (2,), (2,)), {"0": np.arange(4, dtype=np.float32).tobytes()})
    assert io.load(path)["x"].tolist() == [1, 3]


@pytest.mark.parametrize(
    ("pickled", "text"),
    [
        (tensor("Float", "0", 4, 0, (5,), (1,)), "within its storage of 4 numbers; got the last at 4"),
        (tensor("Float", "0", 4, 3, (2,), (1,)), "got the last at 4"),
        (tensor("Float", "0", 4, 0, (2, 2), (3, 1)), "got the last at 4"),
        (tensor("Float", "0", 4, -1, (2,), (1,)), "begins at a whole number"),
        (tensor("Float", "0", 4, 0, (-2,), (1,)), "sizes of a tensor"),
        (tensor("Float", "0", 4, 0, (2,), (-1,)), "strides of a tensor"),
        (tensor("Float", "0", 4, 0, (2,), (1, 1)), "a stride per size"),
        (tensor("Float", "0", 4, 0, [4], (1,)), "sizes of a tensor"),
        (tensor("Float", "0", 4, 0, (True,), (1,)), "sizes of a tensor"),
        (tensor("Float", "0", 4, 0, (10**12,), (0,)), "at most the numbers of its storage"),
        (tensor("Float", "0", 4, 0, (2**61, 2**61, 0), (1, 1, 1)), "cannot be used"),
        (tensor("Float", "0", 10**12, 0, (4,), (1,)), "takes 4000000000000 bytes; got 16"),
        (tensor("Float", "0", 2**62, 0, (4,), (2**61,)), "within its storage|takes"),
        (tensor("Float", "1", 4, 0, (4,), (1,)), "storage '1' is not in the file"),
        (tensor("Float", "../../../etc/passwd", 4, 0, (4,), (1,)), "is not in the file"),
        (tensor("Double", "0", 4, 0, (4,), (1,)), "takes 32 bytes; got 16"),
        (tensor("Bool", "0", 16, 0, (4,), (1,)), "truth values"),
        (tensor("Untyped", "0", 4, 0, (4,), (1,)), "torch.UntypedStorage', which is refused"),
    ],
)
def test_tensors_that_reach_beyond(pickled: bytes, text: str, tmp_path: Path) -> None:
    refused(zipped(tmp_path / "w.pt", pickled, {"0": np.arange(4, dtype=np.float32).tobytes()}), text)


def test_tensors_that_share_too_often(tmp_path: Path) -> None:
    one = tensor("Byte", "0", 100_000, 0, (100_000,), (1,))[3:-2]
    many = b"\x80\x02}(" + b"".join(one.replace(b"\x01\x00\x00\x00x", b"\x03\x00\x00\x00%03d" % i) for i in range(999)) + b"u."
    refused(zipped(tmp_path / "w.pt", many, {"0": bytes(100_000)}), "64 times")


def test_hostile_archives(tmp_path: Path) -> None:
    good = tensor("Byte", "0", 4, 0, (4,), (1,))
    refused(zipped(tmp_path / "w.pt", good, {"0": bytes(9_000_000)}, zipfile.ZIP_DEFLATED), "is not compressed")
    with zipfile.ZipFile(tmp_path / "w.pt", "w") as file:
        file.writestr("a/data.pkl", good)
        file.writestr("b/data.pkl", good)
    refused(tmp_path / "w.pt", "one data.pkl")
    with zipfile.ZipFile(tmp_path / "w.pt", "w") as file:
        file.writestr("code/__torch__.py", "import os")
    refused(tmp_path / "w.pt", "one data.pkl")
    with zipfile.ZipFile(tmp_path / "w.pt", "w") as file:
        file.writestr("a/data.pkl", good)
        file.writestr("a/byteorder", "big")
    refused(tmp_path / "w.pt", "little end first; got b'big'")
    (tmp_path / "w.pt").write_bytes(pickle.dumps({"x": 1}))
    refused(tmp_path / "w.pt", "PyTorch's magic number; got neither")


def test_legacy_counts_are_not_believed(tmp_path: Path) -> None:
    raw = bytearray((DATA / "bfloat16_legacy.pt").read_bytes())
    raw[-14:-6] = (2**61).to_bytes(8, "little")
    (tmp_path / "w.pt").write_bytes(raw)
    refused(tmp_path / "w.pt", "lies within the file")


def test_nothing_is_imported(tmp_path: Path) -> None:
    """A name that is refused is not even looked up."""
    path = zipped(tmp_path / "w.pt", b"\x80\x02cantigravity\nfly\n)R.")
    refused(path, "antigravity.fly")
    assert "antigravity" not in sys.modules
    assert all(function.__module__ == "lean_nn.io.pickles" for function in CALLS.values())


def test_limits_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pickles of millions of instructions are refused; here of more than thirty."""
    path = zipped(tmp_path / "w.pt", b"\x80\x02](" + b"N" * 40 + b"e.")
    with monkeypatch.context() as patch:
        patch.setattr("lean_nn.io.pickles.MOST", 30)
        refused(path, "more than 30 instructions")
    with monkeypatch.context() as patch:
        patch.setattr("lean_nn.io.pytorch.LONGEST_PICKLE", 40)
        patch.setattr("lean_nn.io.pytorch._entry.__defaults__", (40,))
        refused(path, "has at most 40 bytes; got 46")
    assert io.load_pytorch(path) == [None] * 40


def test_values_that_share_are_read_once(tmp_path: Path) -> None:
    """Thirty pairs, each twice in the next: a billion pairs if one walked them all, and as deep as is allowed."""
    doubled = b"\x80\x02]" + b"".join(b"q%ch%c\x86" % (i, i) for i in range(30)) + b"."
    found = io.load_pytorch(zipped(tmp_path / "w.pt", doubled))
    assert found[0] is found[1]
    refused(zipped(tmp_path / "w.pt", doubled[:-1] + b"\x85" * 3 + b"."), "containers deep|tensors by name")
