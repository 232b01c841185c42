"""The CPU's matrix of cases on the device: same values, indices, tangents, cotangents and second derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from device_runs import Call, bitwise, compare

import lean_nn as ln
from lean_nn.cases import Case, all_cases
from lean_nn.primitive import registry

CASES = [case for case in all_cases() if "large" not in case.tags and case.primitive != "to_device"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_device_agrees_with_the_cpu(case: Case, dtype: str) -> None:
    call = Call(case, dtype)
    with np.errstate(all="ignore"):
        wanted, got = call.on(ln.from_numpy), call.on(lambda a: ln.from_numpy(a, "cuda"))
    for name in wanted:
        compare(name, got[name], wanted[name], name == "value" and bitwise(call.prim))


def test_every_primitive_has_a_cuda_slot() -> None:
    ln.tensor([1.0]).cuda()
    assert [name for name, prim in registry.items() if prim.cuda is None and prim.view is None] == []
