"""Tuples, lists and dicts of Tensors, taken apart and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


def leaves(tree: Any) -> list[Any]:
    """The leaves from left to right (a dict in the order of its keys' insertion); None is no leaf."""
    return list(_walk(tree))


def _walk(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict):
        tree = tree.values()
    elif not isinstance(tree, (tuple, list)):
        if tree is not None:
            yield tree
        return
    for branch in tree:
        yield from _walk(branch)


def rebuild(tree: Any, new: Iterable[Any]) -> Any:
    """A tree of the same form with the leaves `new`."""
    source = iter(new)
    return transform(lambda _: next(source), tree)


def transform(f: Callable[[Any], Any], tree: Any) -> Any:
    """A tree of the same form with f(leaf) for every leaf."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return type(tree)((key, transform(f, branch)) for key, branch in tree.items())
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(transform(f, branch) for branch in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(transform(f, branch) for branch in tree)
    return f(tree)


def form(tree: Any) -> Any:
    """The tree with its leaves taken out: two trees match when their forms are equal."""
    return transform(lambda _: "*", tree)
