"""The CPU's matrix of cases on the device: same values, indices, tangents, cotangents and second derivatives."""

from __future__ import annotations

import doctest
from importlib import import_module

import numpy as np
import pytest
from conftest import LANE
from device_runs import KERNELS, Call, compare_all

import lean_nn as ln
from lean_nn.cases import Case, all_cases
from lean_nn.ops import load_all

CASES = list(all_cases())
if LANE == "ptx":  # what reaches no kernel of ours is lane A's alone, and what is large: PTX runs a tenth as fast
    CASES = [case for case in CASES if case.primitive in KERNELS and "large" not in case.tags]


LARGE = [case for case in CASES if "large" in case.tags]


def agree(case: Case, dtype: str, derivatives: bool) -> None:
    call = Call(case, dtype)
    with np.errstate(all="ignore"):
        wanted, got = (call.on(lambda a, d=d: ln.from_numpy(a, d), derivatives) for d in ("cpu", "cuda"))
    compare_all(call.prim, got, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_device_agrees_with_the_cpu(case: Case, dtype: str) -> None:
    """Of large cases the values, as in the CPU's matrix: their derivatives are other large cases."""
    agree(case, dtype, "large" not in case.tags)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", LARGE, ids=str)
def test_derivatives_of_large_cases(case: Case, dtype: str) -> None:
    agree(case, dtype, True)


COMPILED = [case for case in CASES if "large" not in case.tags and case.primitive != "to_device"]  # programs do not move


@pytest.mark.skipif(LANE == "ptx", reason="programs run the same kernels as eager calls: lane A shows it")
@pytest.mark.parametrize("case", COMPILED, ids=str)
def test_a_compiled_case_has_eagers_bits_on_the_device(case: Case) -> None:
    """Value, tangent and cotangent; the program is made once, of host arrays, and run where its arguments lie."""
    call = Call(case, "float32")
    place = lambda a: ln.from_numpy(a, "cuda")  # noqa: E731
    with np.errstate(all="ignore"):
        wanted, got = call.on(place, second=False), call.compiled(place)
    assert {name: [a.tobytes() for a in arrays] for name, arrays in got.items()} == {
        name: [a.tobytes() for a in arrays] for name, arrays in wanted.items()
    }


def test_every_primitive_has_a_cuda_slot() -> None:
    ln.tensor([1.0]).cuda()
    from lean_nn.backend.cuda import SLOTS, slot_of

    computed = {name: prim for name, prim in load_all().items() if prim.view is None}
    assert all(callable(slot_of(prim)) for prim in computed.values())
    assert not set(SLOTS) - set(computed)


MODULES = ["conv", "device", "elementwise", "indexing", "launch", "library", "loss", "move", "optim", "pool", "reduce"]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    ln.tensor([1.0]).cuda()
    module = import_module(f"lean_nn.backend.cuda.{name}")
    assert module.__doc__ and doctest.testmod(module).failed == 0
