"""Tuples, lists and dicts of Tensors, taken apart and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def leaves(tree: Any) -> list[Any]:
    """The leaves from left to right (a dict in the order of its keys' insertion); None is no leaf."""
    if is_flat(tree):
        return list(tree)
    if isinstance(tree, (tuple, list)):
        return [leaf for branch in tree for leaf in leaves(branch)]
    if isinstance(tree, dict):
        return leaves(list(tree.values()))
    return [] if tree is None else [tree]


def is_flat(tree: Any) -> bool:
    """Whether `tree` is a tuple of leaves, as most are: it is its own list of leaves."""
    if type(tree) is not tuple:
        return False
    for branch in tree:  # noqa: SIM110  # every transform passes here, and a generator costs more than its loop
        if branch is None or isinstance(branch, (tuple, list, dict)):
            return False
    return True


def rebuild(tree: Any, new: Iterable[Any]) -> Any:
    """A tree of the same form with the leaves `new`."""
    if is_flat(tree):
        return tuple(new)
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
        return type(tree)([transform(f, branch) for branch in tree])
    return f(tree)


def form(tree: Any) -> Any:
    """The tree with its leaves taken out: two trees match when their forms are equal."""
    return transform(lambda _: "*", tree)
