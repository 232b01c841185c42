"""Every Case of every primitive as a compiled graph: value, JVP and VJP equal eager's, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from lean_nn.cases import Case, all_cases
from lean_nn.convert import as_tensor
from lean_nn.graph.compiler import compile
from lean_nn.graph.passes import EXACT
from lean_nn.primitive import get
from lean_nn.testing.primitives import Run
from lean_nn.transforms import jvp, vjp

CASES = list(all_cases())


def bits(arrays) -> list[tuple[str, tuple[int, ...], bytes]]:
    plain = [np.asarray(getattr(a, "data", a)) if not isinstance(a, np.ndarray) else a for a in arrays]
    return [(str(a.dtype), a.shape, a.tobytes()) for a in plain]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_compiled_case_has_eagers_bits(case: Case, dtype: str):
    run = Run(get(case.primitive), case, dtype, 0)
    program = compile(lambda *args: run.prim(*args, **run.params), *run.arrays, passes=EXACT)
    got = program(*run.arrays)
    assert bits(got if isinstance(got, tuple) else (got,)) == bits(run.value())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", [case for case in CASES if "large" not in case.tags], ids=str)
def test_its_derivatives_have_eagers_bits(case: Case, dtype: str):
    run = Run(get(case.primitive), case, dtype, 0)
    if not run.smooth:
        return
    f = run.function(run.arrays)
    x = [run.arrays[i] for i in run.moving]
    program = compile(f, *x, passes=EXACT)
    v = run.directions(x)
    y, y_dot = jvp(f, [as_tensor(a) for a in x], [as_tensor(t) for t in v])
    got, got_dot = program.jvp(x, v)
    assert bits(got) == bits(y) and bits(got_dot) == bits(y_dot)
    u = run.directions([b.data for b in y])
    _, x_bar = program.vjp(x, tuple(u))
    assert bits(x_bar) == bits(vjp(f, *(as_tensor(a) for a in x))[1](tuple(as_tensor(t) for t in u)))
