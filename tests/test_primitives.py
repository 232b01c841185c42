"""The matrix: every check of `lean_nn.testing.CHECKS` over every case of every primitive, in both dtypes."""

from __future__ import annotations

import numpy as np
import pytest

from lean_nn.cases import Case, all_cases
from lean_nn.ops import load_all
from lean_nn.testing import check_primitive

CASES = list(all_cases())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_matrix(case: Case, dtype: str):
    check_primitive(case.primitive, case, (np.dtype(dtype),))


def test_case_names_are_unique():
    names = [str(case) for case in CASES]
    assert sorted(set(names)) == sorted(names)


def test_every_primitive_has_cases():
    assert set(load_all()) - {case.primitive for case in CASES} == set()


def sizes(case: Case) -> set[int]:
    return {np.size(a) for a in case.make(np.random.default_rng(0), np.dtype("float64"))}


@pytest.mark.parametrize("size", [0, 1])
def test_every_primitive_is_called_on_no_element_and_on_one(size: int):
    small = [case for case in CASES if "large" not in case.tags]
    assert set(load_all()) - {case.primitive for case in small if size in sizes(case)} == set()
