"""A reader of pickles that can only make data: no name is imported, nothing is called.

A pickle is a program for a small stack machine, and its usual interpreter looks names up in any module and calls what it
finds. This one is another interpreter of the same language. It has the instructions with which PyTorch writes state dicts:
numbers, texts, tuples, lists, dicts, a memo. A *name* pushes a text in a box; *calling* looks the text up in the table `CALLS`
below, which has four entries; everything else is refused by its name. There is no way from a byte of the file to a function
that is not in this file.

**Bounds.** One instruction makes at most one small object, `MOST` instructions are carried out, and no number in the pickle
says how much to allocate. Nothing here recurses; values within values are measured by who takes the result apart.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

__all__ = ["Name", "Storage", "StoredTensor", "unpickle"]

MOST = 2_000_000  # instructions
LONGEST_NAME = 200  # bytes


class Name:
    """What stood where a function or class is named."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class Storage:
    """A run of numbers that tensors are cut from: where it is kept, how many it has."""

    __slots__ = ("count", "key", "type")

    def __init__(self, type: str, key: str, count: int) -> None:
        self.type, self.key, self.count = type, key, count


class StoredTensor:
    """Cells of a storage: the first one, sizes and steps."""

    __slots__ = ("first", "shape", "steps", "storage")

    def __init__(self, storage: Storage, first: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> None:
        self.storage, self.first, self.shape, self.steps = storage, first, shape, steps


class _Mark:
    """Where the arguments of a tuple, list or dict begin."""


_MARK = _Mark()


def _short(value: Any) -> str:
    if isinstance(value, Name):
        return value.text
    return repr(value)[:60] if isinstance(value, (str, int, float, bool, type(None))) else type(value).__name__


# --- what may be called ---


def _sizes(what: str, value: Any) -> tuple[int, ...]:
    if type(value) is not tuple or len(value) > 32 or not all(type(n) is int and 0 <= n < 2**62 for n in value):
        raise ValueError(f"{what} of a tensor are whole numbers from 0 up; got {_short(value)}")
    return value


def _tensor(storage: Any, first: Any, shape: Any, steps: Any, *rest: Any) -> StoredTensor:
    """``torch._utils._rebuild_tensor_v2``: whether it wants a gradient and its hooks are nothing to us."""
    if not isinstance(storage, Storage):
        raise ValueError(f"a tensor is cut from a storage; got {_short(storage)}")
    if len(rest) > 3:
        raise ValueError(f"a tensor has at most seven parts; got {4 + len(rest)}")
    if type(first) is not int or first < 0:
        raise ValueError(f"a tensor begins at a whole number from 0 up; got {_short(first)}")
    shape, steps = _sizes("sizes", shape), _sizes("strides", steps)
    if len(shape) != len(steps):
        raise ValueError(f"a tensor has a stride per size; got {len(steps)} for {len(shape)}")
    cells = 1
    last = first
    for n, step in zip(shape, steps, strict=True):
        cells *= n
        last += (n - 1) * step
    if cells and last >= storage.count:
        raise ValueError(f"a tensor lies within its storage of {storage.count} numbers; got the last at {last}")
    if cells > storage.count:
        raise ValueError(f"a tensor has at most the numbers of its storage; got {cells} of {storage.count}: "
                         f"copy expanded tensors (.contiguous()) before they are saved")
    return StoredTensor(storage, first, shape, steps)


def _parameter(tensor: Any, *rest: Any) -> StoredTensor:
    """``torch._utils._rebuild_parameter``: a tensor that somebody trains."""
    if not isinstance(tensor, StoredTensor) or len(rest) > 2:
        raise ValueError(f"a parameter is made of a tensor; got {_short(tensor)}")
    return tensor


def _ordered(*pairs: Any) -> dict[Any, Any]:
    """``collections.OrderedDict``: empty, or from a list of pairs."""
    found: dict[Any, Any] = {}
    if pairs:
        given: Any = pairs[0]
        fits = len(pairs) == 1 and type(given) is list
        if not fits or not all(type(pair) in (tuple, list) and len(pair) == 2 for pair in given):
            raise ValueError("an OrderedDict is made of a list of pairs; got something else")
        found.update((_key(key), value) for key, value in given)
    return found


CALLS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": _ordered,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": _parameter,
}
STORAGES = {f"torch.{name}Storage" for name in (
    "Double", "Float", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool", "ComplexFloat", "ComplexDouble",
)}  # fmt: skip


def _key(key: Any) -> Any:
    if type(key) not in (str, int):
        raise ValueError(f"keys of a dict are texts or whole numbers; got {_short(key)}")
    return key


# --- the machine ---


class _Machine:
    def __init__(self, data: bytes | memoryview, position: int) -> None:
        self.data, self.position = memoryview(data), position
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def take(self, count: int) -> bytes:
        end = self.position + count
        if end > len(self.data):
            raise ValueError(f"the pickle goes on after its end at {len(self.data)} bytes")
        part = bytes(self.data[self.position : end])
        self.position = end
        return part

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def line(self) -> str:
        part = bytes(self.data[self.position : self.position + LONGEST_NAME])
        if b"\n" not in part:
            raise ValueError(f"names have at most {LONGEST_NAME} bytes and end; got {part[:40]!r}")
        text = part[: part.index(b"\n")]
        self.position += len(text) + 1
        return text.decode("ascii")

    def text(self, count: int, encoding: str = "utf-8") -> None:
        self.stack.append(self.take(count).decode(encoding))

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            raise ValueError("the pickle takes more from its stack than it put there")
        return self.stack.pop()

    def top(self, kind: type) -> Any:
        if not self.stack or type(self.stack[-1]) is not kind:
            raise ValueError(f"the pickle fills a {kind.__name__}; got {_short(self.stack[-1] if self.stack else None)}")
        return self.stack[-1]

    def since_mark(self) -> list[Any]:
        for start in range(len(self.stack) - 1, -1, -1):
            if self.stack[start] is _MARK:
                found = self.stack[start + 1 :]
                del self.stack[start:]
                return found
        raise ValueError("the pickle closes a group that was never opened")

    def set_items(self, items: list[Any]) -> None:
        target = self.top(dict)
        if len(items) % 2:
            raise ValueError("the pickle sets keys and values in pairs; got an odd number")
        for i in range(0, len(items), 2):
            target[_key(items[i])] = items[i + 1]

    def remember(self, number: int) -> None:
        if not self.stack or self.stack[-1] is _MARK:
            raise ValueError("the pickle remembers what is on its stack; got nothing there")
        self.memo[number] = self.stack[-1]

    def recall(self, number: int) -> None:
        if number not in self.memo:
            raise ValueError(f"the pickle recalls what it remembered; got {number}")
        self.stack.append(self.memo[number])

    def name(self, text: str) -> None:
        if text not in CALLS and text not in STORAGES:
            raise ValueError(f"it asks for {text[:100]!r}, which is refused: only tensors, dicts, lists, tuples, texts and "
                             f"numbers are read; save model.state_dict() and nothing else")
        self.stack.append(Name(text))

    def call(self) -> None:
        arguments, name = self.pop(), self.pop()
        if not isinstance(name, Name) or name.text not in CALLS or type(arguments) is not tuple:
            raise ValueError(f"the pickle calls {_short(name)}, which is refused")
        self.stack.append(CALLS[name.text](*arguments))

    def persistent(self) -> None:
        """``('storage', type, key, device, count, view)``: PyTorch's way to say where numbers are."""
        parts = self.pop()
        if type(parts) is not tuple or len(parts) not in (5, 6) or parts[0] != "storage" or not isinstance(parts[1], Name):
            raise ValueError(f"what lies outside the pickle is a storage; got {_short(parts)}")
        kind, key, count = parts[1].text, parts[2], parts[4]
        if kind not in STORAGES or type(key) is not str or type(count) is not int or count < 0:
            raise ValueError(f"a storage has a type, a key and a size; got {kind}, {_short(key)}, {_short(count)}")
        if len(parts) == 6 and parts[5] is not None:
            raise ValueError("a storage that is a view of another is refused: PyTorch 0.4 and later do not write them")
        self.stack.append(Storage(kind.removeprefix("torch.").removesuffix("Storage"), key, count))

    def build(self) -> None:
        """State for an object made before. Only an OrderedDict has some, PyTorch's note of versions: left out."""
        state = self.pop()
        self.top(dict)
        if type(state) is not dict or set(state) - {"_metadata"}:
            raise ValueError(f"an object's own state is refused; got {_short(state)}")

    def group(self, make: Callable[[list[Any]], Any], count: int | None = None) -> None:
        parts = self.since_mark() if count is None else [self.pop() for _ in range(count)][::-1]
        self.stack.append(make(parts))

    def make_dict(self) -> None:
        items = self.since_mark()
        self.stack.append({})
        self.set_items(items)

    def append(self, values: list[Any]) -> None:
        self.top(list).extend(values)


Push = Callable[[_Machine], Any]


def _push(value: Any) -> Push:
    return lambda m: m.stack.append(value)


def _append_one(m: _Machine) -> None:
    value = m.pop()
    m.append([value])


def _set_one(m: _Machine) -> None:
    value, key = m.pop(), m.pop()
    m.set_items([key, value])


def _stack_name(m: _Machine) -> None:
    name, module = m.pop(), m.pop()
    if type(name) is not str or type(module) is not str:
        raise ValueError(f"names are texts; got {_short(module)}.{_short(name)}")
    m.name(f"{module}.{name}")


INSTRUCTIONS: dict[int, Push] = {
    ord("("): _push(_MARK),
    ord("N"): _push(None),
    0x88: _push(True),
    0x89: _push(False),
    ord(")"): _push(()),
    ord("]"): lambda m: m.stack.append([]),
    ord("}"): lambda m: m.stack.append({}),
    ord("K"): lambda m: m.stack.append(m.number("<B")),
    ord("M"): lambda m: m.stack.append(m.number("<H")),
    ord("J"): lambda m: m.stack.append(m.number("<i")),
    0x8A: lambda m: m.stack.append(int.from_bytes(m.take(m.number("<B")), "little", signed=True)),
    ord("G"): lambda m: m.stack.append(m.number(">d")),
    ord("X"): lambda m: m.text(m.number("<I")),
    0x8C: lambda m: m.text(m.number("<B")),
    ord("U"): lambda m: m.text(m.number("<B"), "ascii"),  # texts as Python 2 wrote them
    ord("T"): lambda m: m.text(m.number("<I"), "ascii"),
    ord("t"): lambda m: m.group(tuple),
    0x85: lambda m: m.group(tuple, 1),
    0x86: lambda m: m.group(tuple, 2),
    0x87: lambda m: m.group(tuple, 3),
    ord("l"): lambda m: m.group(list),
    ord("d"): _Machine.make_dict,
    ord("a"): _append_one,
    ord("e"): lambda m: m.append(m.since_mark()),
    ord("s"): _set_one,
    ord("u"): lambda m: m.set_items(m.since_mark()),
    ord("q"): lambda m: m.remember(m.number("<B")),
    ord("r"): lambda m: m.remember(m.number("<I")),
    0x94: lambda m: m.remember(len(m.memo)),
    ord("h"): lambda m: m.recall(m.number("<B")),
    ord("j"): lambda m: m.recall(m.number("<I")),
    ord("c"): lambda m: m.name(f"{m.line()}.{m.line()}"),
    0x93: _stack_name,
    ord("R"): _Machine.call,
    ord("b"): _Machine.build,
    ord("Q"): _Machine.persistent,
    0x80: lambda m: m.take(1),  # the protocol's number
    0x95: lambda m: m.take(8),  # the length of a frame
}
STOP = ord(".")


def unpickle(data: bytes | memoryview, position: int = 0) -> tuple[Any, int]:
    """The value of the pickle that begins at `position`, and where it ends.

    Examples
    --------
    >>> import pickle
    >>> unpickle(pickle.dumps({"epoch": 3, "shape": (1, 2)}))[0]
    {'epoch': 3, 'shape': (1, 2)}
    >>> unpickle(pickle.dumps(print))
    Traceback (most recent call last):
    ...
    ValueError: it asks for 'builtins.print', which is refused: only tensors, ...
    """
    machine = _Machine(data, position)
    for _ in range(MOST):
        (code,) = machine.take(1)
        if code == STOP:
            value = machine.pop()
            if machine.stack:
                raise ValueError("the pickle leaves more than one value")
            return value, machine.position
        instruction = INSTRUCTIONS.get(code)
        if instruction is None:
            raise ValueError(f"the pickle has an instruction {bytes([code])!r}, which is refused: no state dict needs it")
        instruction(machine)
    raise ValueError(f"the pickle has more than {MOST} instructions")
