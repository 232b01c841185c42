"""Programs in files: the graph and its weights in one, read without running anything.

**Layout.** That of safetensors, so that other tools can read the weights: eight bytes with the length of the header
(little endian), the header in JSON (padded with spaces to a multiple of 64), then the data of all tensors, one after the
other without gaps, largest items first so that each is aligned. The header's ``__metadata__`` holds three strings:
``format``, ``graph`` (JSON again) and ``crc32`` of the graph, the tensors' table and the data.

**What is saved** is the graph as it was recorded, before any pass, and the names of the passes: a later version with better
passes makes better programs of old files. Arrays that a program keeps (`compile`, ``inplace=``) are saved as well: the file of
a training step is a checkpoint.

**What is loaded** was perhaps written by a stranger. Sizes are checked against the length of the file before anything is
allocated; there is no pickle and no name that is looked up anywhere but in the registry; the graph is put together node by
node through each primitive's ``abstract``, so every shape, dtype and number is checked as if somebody typed it in.
Constants are views of the file, mapped read-only: no copy is made, and processes that load one file share its pages. (Do
not overwrite such a file in place; `save` does not: it writes another and renames it.) Kept arrays are copies.
"""

from __future__ import annotations

import json
import mmap
import os
import stat
import sys
from collections.abc import Callable, Iterator
from math import isfinite, prod
from typing import Any
from zlib import crc32

import numpy as np

from lean_nn import tree
from lean_nn.atomic import write_atomically
from lean_nn.device import to_host
from lean_nn.graph.ir import Array, Graph, Node, as_avals
from lean_nn.graph.program import Program
from lean_nn.graph.trace import ArraySpec, Traced
from lean_nn.ops import find
from lean_nn.primitive import Aval
from lean_nn.window import Bins, Window

__all__ = ["from_bytes", "load_program", "save", "to_bytes"]

FORMAT = "lean_nn program 1"
ALIGNMENT = 64  # bytes: where the data begins
LONGEST_HEADER = 100_000_000  # bytes, safetensors' own limit
MOST_AXES = 32  # NumPy's limit, that of its oldest version we support
DEEPEST = 32  # tuples within tuples of a parameter or of the result
CODES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype(np.float32), "F64": np.dtype(np.float64), "I64": np.dtype(np.int64), "BOOL": np.dtype(np.bool_),
}  # fmt: skip
NAMES = {dtype: code for code, dtype in CODES.items()}


# --- parameters and forms as JSON ---


def encode(value: Any) -> Any:
    """A parameter as JSON: None, bool, int, float and str are themselves, a tuple is a list, the rest an object."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if isfinite(value) else {"float": repr(value)}
    if type(value) is tuple:
        return [encode(part) for part in value]
    if type(value) in (Window, Bins):
        return {type(value).__name__: [encode(part) for part in value]}
    raise ValueError(f"save: parameters are None, bool, int, float, str, tuples, Window and Bins; "
                     f"got {type(value).__name__}; convert it where the primitive is called")


def decode(value: Any, depth: int = 0) -> Any:
    """The parameter that `encode` wrote."""
    if depth > DEEPEST:
        raise ValueError(f"a parameter is at most {DEEPEST} tuples deep")
    if isinstance(value, list):
        return tuple(decode(part, depth + 1) for part in value)
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = _exactly(value, 1, "an object stands for one value").items()
    if kind == "float" and inner in ("nan", "inf", "-inf"):
        return float(inner)
    if kind not in ("Window", "Bins") or not isinstance(inner, list):
        raise ValueError(f"an object is a float, a Window or Bins; got {_short(value)}")
    return _window(kind, decode(inner, depth + 1))


def _window(kind: str, fields: tuple[Any, ...]) -> Window | Bins:
    """A window whose fields have the types that its formulas count on."""
    if kind == "Bins":
        (output,) = fields
        _tuple_of(output, lambda n: n is None or type(n) is int)
        return Bins(output)
    kernel, stride, padding, dilation, ceil_mode = fields
    for part in (kernel, stride, dilation):
        _tuple_of(part, lambda n: type(n) is int)
    _tuple_of(padding, lambda pair: type(pair) is tuple and [type(n) for n in pair] == [int, int])
    if type(ceil_mode) is not bool:
        raise ValueError(f"ceil_mode is true or false; got {_short(ceil_mode)}")
    return Window(kernel, stride, padding, dilation, ceil_mode)


def _tuple_of(values: Any, fits: Callable[[Any], bool]) -> None:
    if type(values) is not tuple or not all(fits(value) for value in values):
        raise ValueError(f"a window has whole numbers per axis; got {_short(values)}")


def encode_form(form: Any) -> Any:
    """The form of a result: ``"*"`` for an array, null, a list, or an object for tuples and dicts."""
    if form is None or form == "*":
        return form
    if type(form) is list:
        return [encode_form(part) for part in form]
    if type(form) is tuple:
        return {"tuple": [encode_form(part) for part in form]}
    if type(form) is dict:
        return {"dict": [[encode(key), encode_form(part)] for key, part in form.items()]}
    raise ValueError(f"save: a program returns tuples, lists and dicts; got {type(form).__name__}; "
                     f"return one of them from the function")


def decode_form(form: Any, depth: int = 0) -> Any:
    """The form that `encode_form` wrote."""
    if depth > DEEPEST:
        raise ValueError(f"a result is at most {DEEPEST} containers deep")
    if form is None or form == "*":
        return form
    if isinstance(form, list):
        return [decode_form(part, depth + 1) for part in form]
    if isinstance(form, dict):
        ((kind, inner),) = _exactly(form, 1, "a container has one kind").items()
        if kind == "tuple" and isinstance(inner, list):
            return tuple(decode_form(part, depth + 1) for part in inner)
        if kind == "dict" and isinstance(inner, list):
            pairs = [(decode(key), decode_form(part, depth + 1)) for key, part in inner]
            return _exactly(dict(pairs), len(pairs), "keys of a dict differ")
    raise ValueError(f"a result is made of arrays, tuples, lists and dicts; got {_short(form)}")


def _exactly(mapping: dict[Any, Any], count: int, rule: str) -> dict[Any, Any]:
    if len(mapping) != count:
        raise ValueError(f"{rule}; got {_short(mapping)}")
    return mapping


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


# --- writing ---


def _describe(program: Program) -> tuple[dict[str, Any], dict[str, Array]]:
    """The graph in JSON's types, its values numbered inputs first, then constants, then nodes; and the arrays by name."""
    graph, source = program.source.graph, program.source
    arrays = {f"constant.{i}": array for i, array in enumerate(graph.constants.values())}
    order = [*graph.inputs, *graph.constants, *(value for node in graph.nodes for value in node.outputs)]
    number = {value: i for i, value in enumerate(order)}
    states: dict[int, str] = {}
    for name, array in program.state.items():
        arrays[states.setdefault(id(array), f"state.{name}")] = to_host(array)

    def node_of(node: Node) -> list[Any]:
        params = {name: encode(value) for name, value in node.params.items()}
        return [node.prim.name, [number[v] for v in node.inputs], params, [_type(graph.avals[v]) for v in node.outputs]]

    return {
        "inputs": [[*_type(graph.avals[v]), graph.names.get(v, "")] for v in graph.inputs],
        "constants": list(arrays)[: len(graph.constants)],
        "nodes": [node_of(node) for node in graph.nodes],
        "outputs": [number[v] for v in graph.outputs],
        "updates": [[number[place], number[value]] for place, value in graph.updates],
        "kept": [None if array is None else states[id(array)] for array in program.kept],
        "result": encode_form(source.result),
        "passes": list(program.passes),
        "share": program.share,
    }, arrays


def _type(aval: Aval) -> list[Any]:
    return [NAMES[aval.dtype], list(aval.shape)]


def _chunks(program: Program) -> Iterator[Any]:
    """The file, piece by piece: the header, then each array where it lies."""
    description, arrays = _describe(program)
    graph = json.dumps(description, allow_nan=False, separators=(",", ":"))
    ordered = dict(sorted(arrays.items(), key=lambda item: -item[1].itemsize))
    tensors: dict[str, Any] = {}
    end = 0
    for name, array in ordered.items():
        code, shape = _type(Aval(array.shape, array.dtype))
        tensors[name] = {"dtype": code, "shape": shape, "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    data: list[Any] = [array.reshape(-1).view(np.uint8) for array in ordered.values()]
    checksum = _checksum(graph, tensors)
    for part in data:
        checksum = crc32(part, checksum)
    metadata = {"format": FORMAT, "graph": graph, "crc32": f"{checksum:08x}"}
    header = json.dumps({"__metadata__": metadata, **tensors}, separators=(",", ":")).encode()
    header = header.ljust(-(-(8 + len(header)) // ALIGNMENT) * ALIGNMENT - 8)
    yield len(header).to_bytes(8, "little")
    yield header
    yield from data


def _checksum(graph: str, tensors: dict[str, Any]) -> int:
    """Of everything in the header that means something, however it is spelt."""
    return crc32(json.dumps([graph, tensors], sort_keys=True).encode())


def to_bytes(program: Program) -> bytes:
    """What `save` writes, as bytes; `pickle` uses it."""
    return b"".join(memoryview(chunk) for chunk in _chunks(program))


def save(program: Program, path: str | os.PathLike[str]) -> None:
    """Write a program to one file, all of it or nothing."""
    write_atomically(path, _chunks(program))


# --- reading ---


def load_program(path: str | os.PathLike[str]) -> Program:
    """The program that `Program.save` wrote; its weights are views of the file, mapped read-only.

    Raises
    ------
    ValueError
        If the file is anything else: truncated, changed, or never a program. Nothing in it is ever executed.

    Examples
    --------
    >>> import tempfile, os
    >>> import numpy as np
    >>> import lean_nn as ln
    >>> w = np.array([1, 2, 3], np.float32)
    >>> path = os.path.join(tempfile.mkdtemp(), "dot.safetensors")
    >>> ln.compile(lambda x: (w * x).sum(), (3,)).save(path)
    >>> ln.load_program(path)(np.ones(3, np.float32))
    array(6., dtype=float32)
    """
    name = os.fspath(path)
    # A pipe would wait for its writer, if it were opened in the common way, before one could see that it is a pipe.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"load_program: a program is a regular file; got {name!r}; name the file that was saved")
        if not status.st_size:
            raise _damaged(name, "the file is empty")
        mapped = mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)
    return from_bytes(mapped, name)


def from_bytes(data: bytes | mmap.mmap, name: str = "the bytes") -> Program:
    """The program in `data`, which it keeps alive and looks at; `name` is for messages."""
    try:
        graph, tensors = _read(memoryview(data))
        return _program(graph, tensors)
    except MemoryError:
        raise
    except Exception as problem:  # whatever a stranger's numbers make a primitive's checks say, the file is wrong
        raise _damaged(name, str(problem) or type(problem).__name__) from problem


def _damaged(name: str, what: str) -> ValueError:
    return ValueError(f"load_program: {name!r} is no program that can be used: {what}; save it again")


def _read(data: memoryview) -> tuple[dict[str, Any], dict[str, Array]]:
    """The graph's description and the tensors of a file, both checked in themselves."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(len(data) - 8, LONGEST_HEADER):
        raise ValueError(f"the header fits into the file; got {length} bytes in a file of {len(data)}")
    header = _json(bytes(data[8 : 8 + length]).decode("utf-8"))
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise ValueError(f"the format is {FORMAT!r}; got {_short(metadata)}")
    if set(metadata) != {"format", "graph", "crc32"} or not all(isinstance(text, str) for text in metadata.values()):
        raise ValueError(f"the metadata are format, graph and crc32; got {_short(metadata)}")
    tensors = _tensors(header, data[8 + length :], 8 + length)
    checksum = crc32(data[8 + length :], _checksum(metadata["graph"], header))
    if metadata["crc32"] != f"{checksum:08x}":
        raise ValueError(f"the checksum is {_short(metadata['crc32'])}; got {checksum:08x}")
    return _json(metadata["graph"]), tensors


def _json(text: str) -> dict[str, Any]:
    """An object without anything that JSON does not have: no key twice, no NaN."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return _exactly(dict(pairs), len(pairs), "keys differ")

    def refused(text: str) -> None:
        raise ValueError(f"JSON has no {text}")

    try:
        found = json.loads(text, object_pairs_hook=unique, parse_constant=refused)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError(f"an object is expected; got {_short(found)}")
    return found


def _tensors(table: dict[str, Any], data: memoryview, begins: int) -> dict[str, Array]:
    """Views of the data, which the tensors cover exactly, in order, without gaps."""
    for name, entry in table.items():
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise ValueError(f"tensor {_short(name)} has dtype, shape and data_offsets; got {_short(entry)}")
        if [type(n) for n in entry["data_offsets"]] != [int, int]:
            raise ValueError(f"tensor {_short(name)} has two offsets; got {_short(entry['data_offsets'])}")
    found: dict[str, Array] = {}
    end = 0
    for name, entry in sorted(table.items(), key=lambda item: item[1]["data_offsets"]):
        aval = _aval(entry["dtype"], entry["shape"])
        size = prod(aval.shape) * aval.dtype.itemsize
        if entry["data_offsets"] != [end, end + size] or end + size > len(data):
            raise ValueError(f"tensor {_short(name)} takes {size} of {len(data)} bytes from {end}; "
                             f"got {_short(entry['data_offsets'])}")
        if (begins + end) % aval.dtype.itemsize:
            raise ValueError(f"tensor {_short(name)} is aligned; got offset {begins + end}")
        raw = np.frombuffer(data[end : end + size], np.uint8)
        if aval.dtype == np.bool_ and raw.max(initial=0) > 1:
            raise ValueError(f"tensor {_short(name)} has bytes 0 and 1; got {raw.max()}")
        found[name] = raw.view(aval.dtype).reshape(aval.shape)
        end += size
    if end != len(data):
        raise ValueError(f"the tensors fill the file; got {end} of {len(data)} bytes")
    return found


def _aval(code: Any, shape: Any) -> Aval:
    if not isinstance(code, str) or code not in CODES:
        raise ValueError(f"a dtype is one of {list(CODES)}; got {_short(code)}")
    if not isinstance(shape, list) or len(shape) > MOST_AXES:
        raise ValueError(f"a shape has at most {MOST_AXES} sizes; got {_short(shape)}")
    return _checked(Aval(tuple(shape), CODES[code]))


def _checked(aval: Aval) -> Aval:
    """The same, if an array can be like that."""
    if not all(type(n) is int and n >= 0 for n in aval.shape) or aval.dtype not in NAMES:
        raise ValueError(f"sizes are whole numbers; got {_short(aval)}")
    if prod(max(n, 1) for n in aval.shape) * aval.dtype.itemsize > sys.maxsize:
        raise ValueError(f"an array fits into memory's address range; got {_short(aval)}")
    return aval


# --- putting the graph together ---


def _program(described: dict[str, Any], tensors: dict[str, Array]) -> Program:
    parts = {"inputs", "constants", "nodes", "outputs", "updates", "kept", "result", "passes", "share"}
    if set(described) != parts:
        raise ValueError(f"a graph has {sorted(parts)}; got {_short(sorted(described))}")
    graph = Graph()
    for code, shape, name in described["inputs"]:
        if not isinstance(name, str):
            raise ValueError(f"names of inputs are text; got {_short(name)}")
        graph.add_input(_aval(code, shape), name)
    for name in described["constants"]:
        graph.add_constant(tensors[name])
    for i, node in enumerate(described["nodes"]):
        try:
            _add(graph, *node)
        except Exception as problem:
            raise ValueError(f"node {i}: {problem}") from problem
    graph.outputs = [_value(graph, v) for v in described["outputs"]]
    graph.updates = _updates(graph, described["updates"])
    kept = _kept(graph, described["kept"], tensors)
    if {*described["constants"], *(name for name in described["kept"] if name is not None)} != set(tensors):
        raise ValueError(f"each tensor is a constant or is kept; got {_short(sorted(tensors))}")
    result = decode_form(described["result"])
    if len(tree.leaves(result)) != len(graph.outputs):
        raise ValueError(f"the result has {len(graph.outputs)} arrays; got {_short(result)}")
    if type(described["share"]) is not bool or not isinstance(described["passes"], list):
        raise ValueError(f"share is true or false, passes are a list; got {_short(described['passes'])}")
    traced = Traced(graph, tuple(ArraySpec(*graph.avals[v]) for v in graph.inputs), result)
    return Program(traced, described["passes"], described["share"], kept)


def _value(graph: Graph, value: Any) -> int:
    if type(value) is not int or not 0 <= value < len(graph.avals):
        raise ValueError(f"values are numbered from 0, before they are read; got {_short(value)} of {len(graph.avals)}")
    return value


def _add(graph: Graph, op: Any, inputs: list[Any], params: dict[str, Any], types: list[Any]) -> None:
    """One node, checked by its primitive's ``abstract``, which must find the types that the file states."""
    prim = find(op) if isinstance(op, str) else None
    if prim is None:
        raise ValueError(f"no primitive is called {_short(op)}: import what registers it before you load the file")
    values = tuple(_value(graph, v) for v in inputs)
    given = {name: decode(value) for name, value in params.items()}
    avals = [_checked(aval) for aval in as_avals(prim.abstract(*(graph.avals[v] for v in values), **given))]
    stated = [_aval(code, shape) for code, shape in types]
    if avals != stated or len(avals) != prim.outputs:
        raise ValueError(f"{prim.name} makes {_short(avals)}; got {_short(stated)}")
    graph.add_node(prim, values, given, avals)


def _updates(graph: Graph, pairs: list[Any]) -> list[tuple[int, int]]:
    found = [(_value(graph, place), _value(graph, value)) for place, value in pairs]
    for place, value in found:
        if place >= len(graph.inputs) or graph.avals[place] != graph.avals[value]:
            raise ValueError(f"an input is updated with a value of its own type; got %{place} with %{value}")
    if len({place for place, _ in found}) < len(found):
        raise ValueError(f"an input is updated once; got {_short(found)}")
    return found


def _kept(graph: Graph, names: list[Any], tensors: dict[str, Array]) -> list[Array | None]:
    """Copies of the arrays that the program keeps: it writes to them."""
    if not isinstance(names, list) or len(names) != len(graph.inputs):
        raise ValueError(f"kept has an entry for each of {len(graph.inputs)} inputs; got {_short(names)}")
    for name, value in zip(names, graph.inputs, strict=True):
        if name is not None and Aval(tensors[name].shape, tensors[name].dtype) != graph.avals[value]:
            raise ValueError(f"kept arrays have their input's type {graph.avals[value]}; got {_short(name)}")
    copies = {name: tensors[name].copy() for name in names if name is not None}
    return [None if name is None else copies[name] for name in names]
