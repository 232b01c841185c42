"""Packages whose rooms open when one of their names is asked for: a saved program runs without what made it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def opener(package: str, rooms: Mapping[str, str]) -> Callable[[str], object]:
    """A ``__getattr__`` for `package`: each name is found in its room, or is the room itself where both are called alike.

    Examples
    --------
    >>> opener("lean_nn", {"leaves": "tree", "tree": "tree"})("leaves")((1, [2]))
    [1, 2]
    """

    def find(name: str) -> object:
        if name not in rooms:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        room = import_module(f"{package}.{rooms[name]}")
        value: object = room if name == rooms[name] else getattr(room, name)
        sys.modules[package].__dict__.setdefault(name, value)
        return value

    return find
