"""Programs in files: the graph and its weights in one, read without running anything.

**Layout.** That of safetensors, so that other tools can read the weights: eight bytes with the length of the header
(little endian), the header in JSON (padded with spaces to a multiple of 64), then the data of all tensors, one after the
other without gaps, largest items first so that each is aligned. The header's ``__metadata__`` holds three strings:
``format``, ``graph`` (JSON again) and ``crc32`` of the graph, the tensors' table and the data.

**What is saved** is the graph as it was recorded, before any pass, and the names of the passes: a later version with better
passes makes better programs of old files. Arrays that a program keeps (`compile`, ``inplace=``) are saved as well: the file of
a training step is a checkpoint.

**A family** (`compile` with open sizes) is one graph in which some numbers are polynomials in the sizes
(``lean_nn/graph/sizes.py``; ``lean_nn/graph/general.py`` finds them), and some constants are one number in a shape.

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
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any
from zlib import crc32

import numpy as np

from lean_nn import tree
from lean_nn.atomic import write_atomically
from lean_nn.device import to_host
from lean_nn.graph.coding import CODES, NAMES, decode, decode_form, encode, encode_form, exactly, number_at, short
from lean_nn.graph.family import Family
from lean_nn.graph.ir import Array, Graph, Node, as_avals
from lean_nn.graph.passes import PASSES, check_names
from lean_nn.graph.program import Program
from lean_nn.graph.sizes import Size, closed, shown
from lean_nn.graph.trace import ArraySpec, Traced
from lean_nn.ops import find
from lean_nn.primitive import Aval, addressable

__all__ = ["from_bytes", "load_program", "save", "to_bytes"]

FORMAT = "lean_nn program 1"
ALIGNMENT = 64  # bytes: where the data begins
LONGEST_HEADER = 100_000_000  # bytes, safetensors' own limit
MOST_AXES = 32  # NumPy's limit, that of its oldest version we support


# --- writing ---


def _describe(program: Program | Family) -> tuple[dict[str, Any], dict[str, Array]]:
    """The graph in JSON's types, and the arrays by name."""
    if isinstance(program, Family):
        from lean_nn.graph.general import Described, describe_all, traces

        options = program.options
        return describe_all([
            Described(sizes, traced, _describe_graph(traced, options.get("passes", PASSES), options.get("share", True)),
                      list(traced.graph.constants.values()))
            for sizes, traced in traces(program)
        ])  # fmt: skip
    graph = program.source.graph
    described = _describe_graph(program.source, program.passes, program.share)
    arrays = dict(zip(described["constants"], graph.constants.values(), strict=True))
    states: dict[int, str] = {}
    for name, array in program.state.items():
        arrays[states.setdefault(id(array), f"state.{name}")] = to_host(array)
    described["kept"] = [None if array is None else states[id(array)] for array in program.kept]
    return described, arrays


def _describe_graph(source: Traced, passes: Iterable[str], share: bool) -> dict[str, Any]:
    """A recorded graph in JSON's types, its values numbered inputs first, then constants, then nodes."""
    graph = source.graph
    order = [*graph.inputs, *graph.constants, *(value for node in graph.nodes for value in node.outputs)]
    number = {value: i for i, value in enumerate(order)}

    def node_of(node: Node) -> list[Any]:
        params = {name: encode(value) for name, value in node.params.items()}
        return [node.prim.name, [number[v] for v in node.inputs], params, [_type(graph.avals[v]) for v in node.outputs]]

    return {
        "inputs": [[*_type(graph.avals[v]), graph.names.get(v, "")] for v in graph.inputs],
        "constants": [f"constant.{i}" for i in range(len(graph.constants))],
        "nodes": [node_of(node) for node in graph.nodes],
        "outputs": [number[v] for v in graph.outputs],
        "updates": [[number[place], number[value]] for place, value in graph.updates],
        "kept": [None] * len(graph.inputs),
        "result": encode_form(source.result),
        "passes": list(passes),
        "share": share,
    }


def _type(aval: Aval) -> list[Any]:
    return [NAMES[aval.dtype], list(aval.shape)]


def _chunks(program: Program | Family) -> Iterator[Any]:
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


def to_bytes(program: Program | Family) -> bytes:
    """What `save` writes, as bytes; `pickle` uses it."""
    return b"".join(memoryview(chunk) for chunk in _chunks(program))


def save(program: Program | Family, path: str | os.PathLike[str]) -> None:
    """Write a program or a family of them to one file, all of it or nothing."""
    write_atomically(path, _chunks(program))


# --- reading ---


def load_program(path: str | os.PathLike[str]) -> Any:
    """The `Program` that was saved, or the `Family` of them; its weights are views of the file, mapped read-only.

    A family plans for each size it meets, as before it was saved, and all its programs look at the same weights.

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


def from_bytes(data: bytes | mmap.mmap, name: str = "the bytes") -> Any:
    """The program or family in `data`, which it keeps alive and looks at; `name` is for messages."""
    try:
        described, tensors = _read(memoryview(data))
        if "sizes" in described:
            return _family(described, tensors, name)
        traced, kept = _traced(described, tensors)
        return Program(traced, described["passes"], described["share"], kept)
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
        raise ValueError(f"the format is {FORMAT!r}; got {short(metadata)}")
    if set(metadata) != {"format", "graph", "crc32"} or not all(isinstance(text, str) for text in metadata.values()):
        raise ValueError(f"the metadata are format, graph and crc32; got {short(metadata)}")
    tensors = _tensors(header, data[8 + length :], 8 + length)
    checksum = crc32(data[8 + length :], _checksum(metadata["graph"], header))
    if metadata["crc32"] != f"{checksum:08x}":
        raise ValueError(f"the checksum is {short(metadata['crc32'])}; got {checksum:08x}")
    return _json(metadata["graph"]), tensors


def _json(text: str) -> dict[str, Any]:
    """An object without anything that JSON does not have: no key twice, no NaN."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return exactly(dict(pairs), len(pairs), "keys differ")

    def refused(text: str) -> None:
        raise ValueError(f"JSON has no {text}")

    try:
        found = json.loads(text, object_pairs_hook=unique, parse_constant=refused)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError(f"an object is expected; got {short(found)}")
    return found


def _tensors(table: dict[str, Any], data: memoryview, begins: int) -> dict[str, Array]:
    """Views of the data, which the tensors cover exactly, in order, without gaps."""
    for name, entry in table.items():
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise ValueError(f"tensor {short(name)} has dtype, shape and data_offsets; got {short(entry)}")
        if [type(n) for n in entry["data_offsets"]] != [int, int]:
            raise ValueError(f"tensor {short(name)} has two offsets; got {short(entry['data_offsets'])}")
    found: dict[str, Array] = {}
    end = 0
    for name, entry in sorted(table.items(), key=lambda item: item[1]["data_offsets"]):
        aval = _aval(entry["dtype"], entry["shape"])
        size = prod(aval.shape) * aval.dtype.itemsize
        if entry["data_offsets"] != [end, end + size] or end + size > len(data):
            raise ValueError(f"tensor {short(name)} takes {size} of {len(data)} bytes from {end}; "
                             f"got {short(entry['data_offsets'])}")
        if (begins + end) % aval.dtype.itemsize:
            raise ValueError(f"tensor {short(name)} is aligned; got offset {begins + end}")
        raw = np.frombuffer(data[end : end + size], np.uint8)
        if aval.dtype == np.bool_ and raw.max(initial=0) > 1:
            raise ValueError(f"tensor {short(name)} has bytes 0 and 1; got {raw.max()}")
        found[name] = raw.view(aval.dtype).reshape(aval.shape)
        end += size
    if end != len(data):
        raise ValueError(f"the tensors fill the file; got {end} of {len(data)} bytes")
    return found


def _aval(code: Any, shape: Any) -> Aval:
    if not isinstance(code, str) or code not in CODES:
        raise ValueError(f"a dtype is one of {list(CODES)}; got {short(code)}")
    if not isinstance(shape, list) or len(shape) > MOST_AXES:
        raise ValueError(f"a shape has at most {MOST_AXES} sizes; got {short(shape)}")
    return _checked(Aval(tuple(shape), CODES[code]))


def _checked(aval: Aval) -> Aval:
    """The same, if an array can be like that."""
    if not all(type(n) is int and n >= 0 for n in aval.shape) or aval.dtype not in NAMES:
        raise ValueError(f"sizes are whole numbers; got {short(aval)}")
    if not addressable(aval):
        raise ValueError(f"an array fits into memory's address range; got {short(aval)}")
    return aval


# --- putting the graph together ---


def _family(described: dict[str, Any], tensors: dict[str, Array], name: str) -> Family:
    """A family whose graph is put together for each size it meets; here for one, so that a wrong file is known as such."""
    table = described.pop("sizes")
    names = [size for size, _, _ in table]
    if not names or not all((n is None or isinstance(n, str)) and type(a) is type(b) is int and a in (0, 1) for n, a, b in table):
        raise ValueError(f"open sizes have a name or null, begin at 0 or 1, and have an example; got {short(table)}")
    least = {size: n for size, n, _ in table}
    bare = {json.dumps({"n": [[1, [i]]]}): size for i, size in enumerate(names)}
    shapes = [tuple(bare.get(json.dumps(n), n) for n in shape) for _, shape, _ in described["inputs"]]
    if any(isinstance(n, dict) for shape in shapes for n in shape) or not set(names) <= {n for shape in shapes for n in shape}:
        raise ValueError(f"each open size is that of an input; got {short(names)} for {short(shapes)}")
    _, kept = _traced(closed(described, [example for _, _, example in table]), tensors)
    if any(array is not None for array in kept):
        raise ValueError("a program that keeps arguments has one size; got open ones")
    check_names(described["passes"])

    def made(sizes: dict[Size, int]) -> Traced:
        if any(n < least[size] for size, n in sizes.items()):
            raise ValueError(f"program: it was saved for sizes of at least 1; got {shown(sizes)}; compile it from its function")
        try:
            traced, _ = _traced(closed(described, [int(sizes[size]) for size in names]), tensors)
        except Exception as problem:
            raise _damaged(name, f"with {shown(sizes)}, {problem}") from problem
        for value, array in traced.graph.constants.items():
            if not array.flags.c_contiguous:
                traced.graph.constants[value] = array.copy()  # one number, which takes memory only now
        return traced

    return Family(made, shapes, {"passes": tuple(described["passes"]), "share": described["share"]})


def _constant(entry: Any, tensors: dict[str, Array]) -> Array:
    """A tensor of the file, or one number in a shape, which takes no memory yet."""
    if isinstance(entry, str):
        return tensors[entry]
    ((kind, inner),) = exactly(entry, 1, "a constant is a tensor or one number").items()
    code, shape, number = inner
    aval = _aval(code, shape)
    if kind != "full" or not isinstance(number, (bool, int, float, dict)):
        raise ValueError(f"a constant is a tensor or one number; got {short(entry)}")
    return np.broadcast_to(number_at(number, aval.dtype), aval.shape)


def _traced(described: dict[str, Any], tensors: dict[str, Array]) -> tuple[Traced, list[Array | None]]:
    """The graph, every node checked, and the arrays that are kept."""
    parts = {"inputs", "constants", "nodes", "outputs", "updates", "kept", "result", "passes", "share"}
    if set(described) != parts:
        raise ValueError(f"a graph has {sorted(parts)}; got {short(sorted(described))}")
    graph = Graph()
    for code, shape, name in described["inputs"]:
        if not isinstance(name, str):
            raise ValueError(f"names of inputs are text; got {short(name)}")
        graph.add_input(_aval(code, shape), name)
    for entry in described["constants"]:
        graph.add_constant(_constant(entry, tensors))
    for i, node in enumerate(described["nodes"]):
        try:
            _add(graph, *node)
        except Exception as problem:
            raise ValueError(f"node {i}: {problem}") from problem
    graph.outputs = [_value(graph, v) for v in described["outputs"]]
    graph.updates = _updates(graph, described["updates"])
    kept = _kept(graph, described["kept"], tensors)
    named = [entry for entry in (*described["constants"], *described["kept"]) if isinstance(entry, str)]
    if set(named) != set(tensors):
        raise ValueError(f"each tensor is a constant or is kept; got {short(sorted(tensors))}")
    result = decode_form(described["result"])
    if len(tree.leaves(result)) != len(graph.outputs):
        raise ValueError(f"the result has {len(graph.outputs)} arrays; got {short(result)}")
    if type(described["share"]) is not bool or not isinstance(described["passes"], list):
        raise ValueError(f"share is true or false, passes are a list; got {short(described['passes'])}")
    traced = Traced(graph, tuple(ArraySpec(*graph.avals[v]) for v in graph.inputs), result)
    return traced, kept


def _value(graph: Graph, value: Any) -> int:
    if type(value) is not int or not 0 <= value < len(graph.avals):
        raise ValueError(f"values are numbered from 0, before they are read; got {short(value)} of {len(graph.avals)}")
    return value


def _add(graph: Graph, op: Any, inputs: list[Any], params: dict[str, Any], types: list[Any] | None) -> None:
    """One node, checked by its primitive's ``abstract``, which must find the types that the file states."""
    prim = find(op) if isinstance(op, str) else None
    if prim is None:
        raise ValueError(f"no primitive is called {short(op)}: import what registers it before you load the file")
    values = tuple(_value(graph, v) for v in inputs)
    given = {name: decode(value) for name, value in params.items()}
    avals = [_checked(aval) for aval in as_avals(prim.abstract(*(graph.avals[v] for v in values), **given))]
    stated = avals if types is None else [_aval(code, shape) for code, shape in types]
    if avals != stated or len(avals) != prim.outputs:
        raise ValueError(f"{prim.name} makes {short(avals)}; got {short(stated)}")
    graph.add_node(prim, values, given, avals)


def _updates(graph: Graph, pairs: list[Any]) -> list[tuple[int, int]]:
    found = [(_value(graph, place), _value(graph, value)) for place, value in pairs]
    for place, value in found:
        if place >= len(graph.inputs) or graph.avals[place] != graph.avals[value]:
            raise ValueError(f"an input is updated with a value of its own type; got %{place} with %{value}")
    if len({place for place, _ in found}) < len(found):
        raise ValueError(f"an input is updated once; got {short(found)}")
    return found


def _kept(graph: Graph, names: list[Any], tensors: dict[str, Array]) -> list[Array | None]:
    """Copies of the arrays that the program keeps: it writes to them."""
    if not isinstance(names, list) or len(names) != len(graph.inputs):
        raise ValueError(f"kept has an entry for each of {len(graph.inputs)} inputs; got {short(names)}")
    for name, value in zip(names, graph.inputs, strict=True):
        if name is not None and Aval(tensors[name].shape, tensors[name].dtype) != graph.avals[value]:
            raise ValueError(f"kept arrays have their input's type {graph.avals[value]}; got {short(name)}")
    copies = {name: tensors[name].copy() for name in names if name is not None}
    return [None if name is None else copies[name] for name in names]
