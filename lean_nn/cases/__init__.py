"""``CASES`` of conv, pool, elementwise, reduce, linear, shape, norm, optim: one list of cases per family of primitives.

A ``Case`` is one call of one primitive. The matrix in ``tests/test_primitives.py`` runs every check of
``lean_nn.testing.check_primitive`` over it; ``lean-nn check`` and the docs read the same lists, which is why they
live in the package and not in ``tests``. A family's module says ``from lean_nn.cases import Case, normal`` and
looks like

    CASES = [
        Case(
            "3x3",
            "conv",
            lambda rng, dtype: (normal(rng, dtype, 2, 3, 5, 5), normal(rng, dtype, 4, 3, 3, 3)),
            {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1},
        ),
    ]

Tags
----
kink      the function is not smooth at some sampled point: numerical differences are left out
large     too big for the spec to evaluate quickly: compared by the family's own tests only
no-order3 the third derivative is not evaluated (only where it would take seconds)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Make = Callable[[np.random.Generator, "np.dtype[Any]"], tuple[Array, ...]]


@dataclass(frozen=True)
class Case:
    """One call: ``primitive(*make(rng, dtype), **params)``; ``primitive`` is the registered name."""

    name: str
    primitive: str
    make: Make
    params: Mapping[str, Any] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.primitive}:{self.name}"


def normal(rng: np.random.Generator, dtype: np.dtype[Any], *shape: int) -> Array:
    """Standard normal values, no two equal in a window in practice."""
    return rng.standard_normal(shape).astype(dtype)


def uniform(rng: np.random.Generator, dtype: np.dtype[Any], low: float, high: float, *shape: int) -> Array:
    """Values in ``[low, high)``: for functions with a domain (log, sqrt, pow)."""
    return rng.uniform(low, high, shape).astype(dtype)


def all_cases() -> Iterator[Case]:
    """Every case of every family, in file order."""
    for module in sorted(m.name for m in iter_modules(__path__)):
        yield from import_module(f"{__name__}.{module}").CASES
