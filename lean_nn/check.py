"""`lean-nn check`: every operator's kernel against its specification, on this machine, with this build.

The cases are those the test suite runs (``lean_nn.cases``); the distance is `lean_nn.accuracy.measure`.
"""

from __future__ import annotations

import math
import re
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lean_nn.accuracy import bound_text, measure
from lean_nn.cases import Case, all_cases
from lean_nn.ops import load_all
from lean_nn.primitive import FLOATS, Primitive, comparable, get

__all__ = ["Finding", "check", "line"]

HEADINGS = ("operator", "cases", "float32", "float64", "stated bound", "verdict")
WIDTHS = (26, 6, 9, 9, 16, 0)


@dataclass
class Finding:
    """What was found for one operator; `worst` is the error in units of the stated bound, by dtype."""

    operator: str
    bound: str
    cases: int = 0
    worst: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def verdict(self) -> str:
        return "ok" if self.ok else "DIFFERS" if self.cases else "NO CASE"

    def as_json(self) -> dict[str, Any]:
        """Plain values; an infinite error (bits that differ where none may) is the string "inf"."""
        worst = {dtype: value if math.isfinite(value) else str(value) for dtype, value in self.worst.items()}
        return {
            "operator": self.operator, "ok": self.ok, "cases": self.cases, "bound": self.bound,
            "worst_error_in_bounds": worst, "problems": self.problems,
        }


def _try(finding: Finding, prim: Primitive, case: Case, dtype: np.dtype[Any], seed: int) -> None:
    where = f"{case} {dtype}"
    try:
        error = measure(prim, case.make(np.random.default_rng(seed), dtype), case.params)
    except Exception as problem:  # whatever a kernel raises here is a finding, and the other operators go on
        last = traceback.extract_tb(problem.__traceback__)[-1]
        finding.problems.append(f"{where}: {type(problem).__name__}: {problem} ({last.filename}:{last.lineno})")
        return
    finding.worst[str(dtype)] = max(error, finding.worst.get(str(dtype), 0.0))
    if not error <= 1:
        finding.problems.append(f"{where}: error is {error:.3g} times the stated bound")


def check(
    pattern: str = "", seed: int = 0, progress: Callable[[str], None] = lambda text: None
) -> Iterator[Finding]:
    """A `Finding` for every operator whose name matches `pattern`, in the order of their names."""
    wanted = re.compile(pattern)
    by_name: dict[str, list[Case]] = {}
    for case in all_cases():
        if "large" not in case.tags:
            by_name.setdefault(case.primitive, []).append(case)
    names = sorted(name for name in load_all() if wanted.search(name) and comparable(get(name)))
    for number, name in enumerate(names):
        prim, began = get(name), time.perf_counter()
        finding = Finding(name, bound_text(prim.accuracy), len(by_name.get(name, [])))
        if not finding.cases:
            finding.problems.append(f"{name}: no case; add one to lean_nn/cases")
        for case in by_name.get(name, []):
            progress(f"{number + 1}/{len(names)} {case}")
            for dtype in FLOATS:
                _try(finding, prim, case, dtype, seed)
        progress(f"{number + 1}/{len(names)} {name}: {time.perf_counter() - began:.2f} s")
        yield finding


def line(finding: Finding) -> str:
    """One line for one operator."""
    errors = [f"{finding.worst[str(d)]:.2g}" if str(d) in finding.worst else "-" for d in FLOATS]
    cells = (finding.operator, str(finding.cases), *errors, finding.bound, finding.verdict)
    return row(cells)


def row(cells: tuple[str, ...]) -> str:
    """Cells under the headings."""
    return "".join(f"{cell:<{width}}" for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()
