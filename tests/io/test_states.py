"""`lean_nn.io` on ``.npz`` and ``.safetensors``: what is saved comes back; what is wrong is refused before memory is taken."""

from __future__ import annotations

import io as bytes_io
import os
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lean_nn as ln
from lean_nn import io
from lean_nn.atomic import open_atomically

STATE: dict[str, Any] = {
    "conv.weight": np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2), "bn.num_batches_tracked": np.array(7),
    "f64": np.array([1 / 3, np.nan, -np.inf]), "half": np.array([1.5], np.float16), "empty": np.zeros((0, 3), np.int32),
    "flags": np.array([True, False]), "a/../b": np.uint8([1, 2]),
}  # fmt: skip
SUFFIXES = [".npz", ".safetensors"]


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_there_and_back(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"w{suffix}"
    io.save(path, STATE, {"made": "today", "ü": "ß"})
    same(io.load(path), STATE)
    assert io.metadata(path) == {"made": "today", "ü": "ß"}
    assert all(array.flags.writeable and array.flags.c_contiguous for array in io.load(path).values())
    io.save(path, {})
    assert io.load(path) == {} and io.metadata(path) == {}
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_arrays_that_lie_otherwise_and_tensors(suffix: str, tmp_path: Path) -> None:
    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    given_, expected = {"t": base.T, "f": np.asfortranarray(base), "s": base[::2, ::-1]}, {}
    for name, array in given_.items():
        expected[name] = np.array(array, order="C")
    io.save(tmp_path / f"w{suffix}", {**given_, "tensor": ln.tensor([1.0, 2.0]), "number": 3.5})
    found = io.load(tmp_path / f"w{suffix}")
    same({name: found[name] for name in expected}, expected)
    assert found["tensor"].tolist() == [1, 2] and found["number"].shape == ()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_dtype_converts_floats_and_only_when_asked(suffix: str, tmp_path: Path) -> None:
    io.save(tmp_path / f"w{suffix}", {"h": np.array([1.5], np.float16), "d": np.array([0.1]), "i": np.array([1])})
    assert {k: str(v.dtype) for k, v in io.load(tmp_path / f"w{suffix}").items()} == {
        "h": "float16", "d": "float64", "i": "int64"}  # fmt: skip
    found = io.load(tmp_path / f"w{suffix}", dtype="float32")
    assert {k: str(v.dtype) for k, v in found.items()} == {"h": "float32", "d": "float32", "i": "int64"}
    with pytest.raises(ValueError, match="dtype is float32, float64 or float16; got 'int8'"):
        io.load(tmp_path / f"w{suffix}", dtype="int8")


def test_numpy_reads_and_writes_the_same_npz(tmp_path: Path) -> None:
    arrays = {name: array for name, array in STATE.items() if "/" not in name}
    io.save(tmp_path / "ours.npz", arrays)
    with np.load(tmp_path / "ours.npz", allow_pickle=False) as found:
        same(dict(found), arrays)
    for write in (np.savez, np.savez_compressed):
        write(tmp_path / "theirs.npz", **arrays)
        same(io.load(tmp_path / "theirs.npz"), arrays)
    np.savez(tmp_path / "big.npz", x=np.arange(3, dtype=">f4"))
    assert io.load(tmp_path / "big.npz")["x"].dtype == np.float32 and io.load(tmp_path / "big.npz")["x"].tolist() == [0, 1, 2]


def test_same_state_same_bytes(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        io.save(tmp_path / name, STATE, {"x": "y"})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_bfloat16_is_converted_when_asked(tmp_path: Path) -> None:
    bits = np.array([0x3F80, 0xC049, 0x477F], np.uint16)  # 1, -3.140625, 65280
    header = b'{"x":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}'
    (tmp_path / "w.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bits.tobytes())
    with pytest.raises(ValueError, match='NumPy has no bfloat16; got \'x\' of that type; pass dtype="float32"'):
        io.load(tmp_path / "w.safetensors")
    assert io.load(tmp_path / "w.safetensors", dtype=np.float64)["x"].tolist() == [1, -3.140625, 65280]


@pytest.mark.parametrize(
    ("path", "state", "notes", "error", "text"),
    [
        ("w.bin", {}, None, ValueError, "save: a file ends in .npz, .safetensors; got 'w.bin'"),
        ("w.pt", {}, None, ValueError, "save: a file ends in .npz, .safetensors; got 'w.pt'"),
        ("w.npz", {"x": np.array([None])}, None, TypeError, "arrays of numbers; got object for 'x'"),
        ("w.npz", {"x": np.array(["a"])}, None, TypeError, "arrays of numbers"),
        ("w.npz", {3: np.zeros(1)}, None, TypeError, "names are text; got 3"),
        ("w.npz", {"__metadata__": np.zeros(1)}, None, ValueError, "rename it"),
        ("w.npz", {}, {"epoch": 3}, TypeError, "metadata are texts by name; got 'epoch': int"),
        ("w.safetensors", {"z": np.zeros(1, complex)}, None, TypeError, "got complex128 for 'z'; convert it"),
    ],
)
def test_what_cannot_be_saved(
    path: str, state: Any, notes: Any, error: type[Exception], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=text):
        io.save(path, state, notes)
    assert os.listdir(tmp_path) == []


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), open_atomically(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]
    with pytest.raises(FileNotFoundError), open_atomically(tmp_path / "no" / "folder"):
        pass


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    for call in (lambda: io.save(tmp_path / "w.safetensors", {}), lambda: io.load(tmp_path / "w.safetensors")):
        with pytest.raises(ImportError, match=r"pip install 'lean_nn\[safetensors\]'"):
            call()


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for suffix in (*SUFFIXES, ".pt"):
        with pytest.raises(FileNotFoundError):
            io.load(tmp_path / f"no{suffix}")


# --- damaged and hostile ---


def refused(path: Path, text: str = "") -> None:
    """A clear error, and no more memory than the file and a margin."""
    size = path.stat().st_size
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"load: .*{text}"):
            io.load(path)
        assert tracemalloc.get_traced_memory()[1] < 3_000_000 + 8 * size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_cut_anywhere(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"w{suffix}"
    io.save(path, {"a": np.ones(3, np.float32), "b": np.array([True])}, {"k": "v"})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="load: .*cannot be used"):
            io.load(path)


NPZ = bytes_io.BytesIO()
np.savez(NPZ, a=np.arange(5, dtype=np.float32), b=np.array([True, False]))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(NPZ.getvalue()) - 1), st.integers(1, 255)), min_size=1, max_size=4))
def test_flipped_bits_never_crash(tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]) -> None:
    data = bytearray(NPZ.getvalue())
    for place, mask in flips:
        data[place] ^= mask
    path = tmp_path_factory.mktemp("flip") / "w.npz"
    path.write_bytes(data)
    try:
        found = io.load(path)
    except ValueError:
        return
    assert all(isinstance(array, np.ndarray) and array.nbytes < 10_000 for array in found.values())


def npy(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text + data


def archive(path: Path, entries: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in entries.items():
            file.writestr(name, data)
    return path


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"), "takes 4000000000000 bytes; got 0"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", b"12345678x"), "takes 8 bytes; got 9"),
        (npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"cos\nsystem\n"), "never unpickled"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }"), "sizes from 0 up"),
        (npy("{'descr': '<U5', 'fortran_order': False, 'shape': (1,), }", b"0" * 20), "holds numbers"),
        (npy("{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }", b"\x07"), "truth values"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", b"1234", b"\x09\x00"), "version"),
        (npy("__import__('os').system('x')"), "cannot be used"),
        (b"", "cannot be used"),
    ],
)  # fmt: skip
def test_hostile_arrays(entry: bytes, text: str, tmp_path: Path) -> None:
    refused(archive(tmp_path / "w.npz", {"x.npy": entry}), text)


def test_hostile_archives(tmp_path: Path) -> None:
    refused(archive(tmp_path / "w.npz", {"evil.py": b"import os"}), "entries end in .npy")
    bomb = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (50000000,), }") + bytes(40_000_000)
    refused(archive(tmp_path / "w.npz", {"x.npy": bomb}, zipfile.ZIP_DEFLATED), "takes 50000000 bytes")
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(tmp_path / "w.npz", "w") as file:
        for _ in range(2):
            file.writestr("x.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }"))
    refused(tmp_path / "w.npz", "'x' twice")
    archive(tmp_path / "w.npz", {"x.npy": b"1234"}, zipfile.ZIP_LZMA)
    refused(tmp_path / "w.npz", "stored or deflated; got method 14")


def test_sizes_in_the_table_of_an_archive_are_not_believed(tmp_path: Path) -> None:
    """The central directory claims what it likes; the length of the file is what counts."""
    path = archive(tmp_path / "w.npz", {"x.npy": npy("{'descr': '|u1', 'fortran_order': False, 'shape': (9,), }", b"9" * 9)})
    data = bytearray(path.read_bytes())
    table = data.rindex(b"PK\x01\x02")
    data[table + 20 : table + 28] = (2_000_000_000).to_bytes(4, "little") * 2
    path.write_bytes(data)
    refused(path, "they overlap")


def test_a_huge_header_of_safetensors_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes((10**15).to_bytes(8, "little") + b"{}")
    refused(path)
    header = b'{"x":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    refused(path)
