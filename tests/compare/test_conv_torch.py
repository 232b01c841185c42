"""Convolution beside PyTorch: values, gradients and JVPs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import lean_nn as ln  # noqa: E402
import lean_nn.functional as F  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # its own, inside torch.func.jvp
DTYPES = ("float32", "float64")
SCALE = {"float32": 3e-5, "float64": 1e-12}
CONV = [
    (1, (2, 3, 20), (4, 3, 5), {"stride": 2, "padding": 2}),
    (1, (3, 20), (4, 3, 5), {"dilation": 3}),
    (2, (2, 3, 9, 11), (8, 3, 3, 3), {"padding": 1}),
    (2, (1, 4, 12, 12), (6, 2, 3, 3), {"stride": 2, "groups": 2, "dilation": 2, "padding": (2, 1)}),
    (2, (2, 6, 9, 9), (6, 1, 3, 3), {"groups": 6, "padding": "same"}),
    (2, (1, 16, 14, 14), (24, 16, 1, 1), {}),
    (3, (1, 2, 6, 7, 8), (3, 2, 3, 3, 3), {"padding": 1, "stride": (1, 2, 1)}),
]
TRANSPOSED = [
    (1, (2, 3, 9), (3, 4, 4), {"stride": 2, "padding": 1, "output_padding": 1}),
    (2, (1, 4, 6, 7), (4, 3, 4, 4), {"stride": 2, "padding": 1}),
    (2, (1, 4, 6, 7), (4, 3, 3, 3), {"stride": 3, "groups": 2, "dilation": 2, "output_padding": (1, 2)}),
    (2, (4, 6, 7), (4, 3, 3, 3), {"dilation": 3, "output_padding": 2}),
    (3, (1, 2, 4, 4, 4), (2, 3, 4, 4, 4), {"stride": 2, "padding": 1}),
]
CASES = [("conv", *case) for case in CONV] + [("conv_transpose", *case) for case in TRANSPOSED]


def close(got: Any, want: Any, dtype: str) -> None:
    want = want.detach().numpy()
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=0, atol=SCALE[dtype] * (1 + abs(want).max(initial=0)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "d", "x_shape", "w_shape", "options"), CASES, ids=str)
def test_conv(name: str, d: int, x_shape: Any, w_shape: Any, options: Any, dtype: str) -> None:
    rng = np.random.default_rng(0)
    outputs = w_shape[0] if name == "conv" else w_shape[1] * options.get("groups", 1)
    primals = [rng.standard_normal(s).astype(dtype) for s in (x_shape, w_shape, (outputs,))]
    tangents = [rng.standard_normal(p.shape).astype(dtype) for p in primals]
    ours, theirs = getattr(F, f"{name}{d}d"), getattr(torch.nn.functional, f"{name}{d}d")

    y, y_dot = ln.jvp(
        lambda *a: ours(*a, **options), tuple(map(ln.tensor, primals)), tuple(map(ln.tensor, tangents))
    )
    leaves = [torch.tensor(p, requires_grad=True) for p in primals]
    want, want_dot = torch.func.jvp(
        lambda *a: theirs(*a, **options), tuple(leaves), tuple(torch.tensor(t) for t in tangents)
    )
    close(y.numpy(), want, dtype)
    close(y_dot.numpy(), want_dot, dtype)

    y_bar = rng.standard_normal(y.shape).astype(dtype)
    _, pull = ln.vjp(lambda *a: ours(*a, **options), *map(ln.tensor, primals))
    theirs(*leaves, **options).backward(torch.tensor(y_bar))
    for got, leaf in zip(pull(ln.tensor(y_bar)), leaves, strict=True):
        close(got.numpy(), leaf.grad, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_unfold_and_fold(dtype: str) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 8, 9)).astype(dtype)
    cols = F.unfold(x, (3, 2), dilation=(1, 2), padding=(1, 0), stride=2).numpy()
    want = torch.nn.functional.unfold(torch.tensor(x), (3, 2), dilation=(1, 2), padding=(1, 0), stride=2)
    np.testing.assert_array_equal(cols, want.numpy())
    back = F.fold(cols, (8, 9), (3, 2), dilation=(1, 2), padding=(1, 0), stride=2).numpy()
    close(back, torch.nn.functional.fold(want, (8, 9), (3, 2), (1, 2), (1, 0), 2), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_linear(dtype: str) -> None:
    rng = np.random.default_rng(2)
    x, w, b = (rng.standard_normal(s).astype(dtype) for s in ((3, 5, 20), (7, 20), (7,)))
    close(F.linear(x, w, b).numpy(), torch.nn.functional.linear(*map(torch.tensor, (x, w, b))), dtype)
