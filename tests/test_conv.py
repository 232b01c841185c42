"""Convolution as people call it: exact values, the specification, SciPy, adjoints, errors, threads, algorithms."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

import lean_nn as ln
import lean_nn.functional as F
from lean_nn import spec
from lean_nn.backend import cpu_conv
from lean_nn.cases.conv import FORMS, Form

DTYPES = ("float32", "float64")
UNIT = {"float32": 2.0**-24, "float64": 2.0**-53}


def arrays(form: Form, dtype: str, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype) for shape in form.shapes]


def fractions(shape: tuple[int, ...], seed: int) -> Any:
    rng = np.random.default_rng(seed)
    out = np.empty(shape, object)
    out.reshape(-1)[:] = [Fraction(int(v), 7) for v in rng.integers(-9, 10, prod(shape))]
    return out


def geometry(form: Form) -> dict[str, Any]:
    return {**form.window, "groups": form.groups}


def inner(a: Any, b: Any) -> Any:
    return sum((x * y for x, y in zip(a.reshape(-1), b.reshape(-1), strict=True)), Fraction(0))


@st.composite
def forms(draw: st.DrawFn) -> Form:
    rank = draw(st.integers(0, 4))
    groups = draw(st.integers(1, 2))
    c, o = (groups * draw(st.integers(0, 2)) for _ in range(2))
    axes = []
    for _ in range(rank):
        k, d, s = (draw(st.integers(1, 3)) for _ in range(3))
        pads = (draw(st.integers(0, 2)), draw(st.integers(0, 2)))
        least = max(1, d * (k - 1) + 1 - sum(pads))
        axes.append((draw(st.integers(least, least + (4 if rank < 3 else 1))), k, s, pads, d))
    spatial, kernel, stride, padding, dilation = zip(*axes, strict=True) if axes else ((),) * 5
    return Form("drawn", draw(st.integers(0, 2)), c, o, groups, spatial, kernel, stride, padding, dilation)


@given(forms(), st.sampled_from(DTYPES), st.booleans())
@settings(max_examples=80, deadline=None)
def test_any_geometry_is_the_specification(form: Form, dtype: str, with_bias: bool) -> None:
    x, w, _ = arrays(form, dtype)
    b = np.random.default_rng(9).standard_normal(form.o).astype(dtype) if with_bias else None
    y = F.conv(x, w, b, **geometry(form)).numpy()
    bias = () if b is None else (b.astype(float),)
    want = np.asarray(spec.conv(x.astype(float), w.astype(float), *bias, **geometry(form)), float)
    size = np.asarray(spec.conv(abs(x), abs(w), *map(abs, bias), **geometry(form)), float)
    terms = prod(w.shape[1:]) + 2
    assert y.shape == want.shape and y.dtype == dtype
    assert np.all(abs(y - want.reshape(y.shape)) <= 2 * terms * UNIT[dtype] * size.reshape(y.shape))


# --- values ---


def test_values_one_can_check_by_hand() -> None:
    x = np.array([[1.0, 2.0, 3.0, 4.0]])
    w = np.array([[[1.0, 10.0]]])
    assert F.conv1d(x, w).numpy().tolist() == [[21.0, 32.0, 43.0]]
    assert F.conv1d(x, w, np.array([0.5]), 2).numpy().tolist() == [[21.5, 43.5]]
    assert F.conv1d(x, w, None, 1, [(2, 0)]).numpy().tolist() == [[0.0, 10.0, 21.0, 32.0, 43.0]]
    assert F.conv1d(x, w, None, 1, "same").numpy().tolist() == [[21.0, 32.0, 43.0, 4.0]]
    assert F.conv1d(x, w, None, 1, 0, 2).numpy().tolist() == [[31.0, 42.0]]
    assert F.conv_transpose1d(x, w, None, 2).numpy().tolist() == [[1.0, 10.0, 2.0, 20.0, 3.0, 30.0, 4.0, 40.0]]
    assert F.conv_transpose1d(x, w, np.array([1.0]), 1, 1).numpy().tolist() == [[13.0, 24.0, 35.0]]


def test_no_spatial_axes_is_a_linear_layer() -> None:
    x, w, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 1.0], [0.0, 2.0], [5.0, 0.0]]), np.ones(3)
    np.testing.assert_array_equal(F.conv(x, w, b).numpy(), x @ w.T + b)
    np.testing.assert_array_equal(F.conv(x[0], w, b).numpy(), w @ x[0] + b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_scipy(dtype: str) -> None:
    rng = np.random.default_rng(4)
    for shape, kernel in (((40,), (7,)), ((13, 17), (4, 3)), ((6, 7, 8), (3, 2, 4)), ((4, 5, 4, 3), (2, 3, 2, 2))):
        x, w = rng.standard_normal(shape).astype(dtype), rng.standard_normal(kernel).astype(dtype)
        y = F.conv(x[None], w[None, None]).numpy()[0]
        size = signal.correlate(abs(x).astype(float), abs(w).astype(float), "valid", "direct")
        want = signal.correlate(x.astype(float), w.astype(float), "valid", "direct")
        assert np.all(abs(y - want) <= 2 * w.size * UNIT[dtype] * size)
        back = F.conv_transpose(x[None], w[None, None]).numpy()[0]
        want = signal.convolve(x.astype(float), w.astype(float), "full", "direct")
        size = signal.convolve(abs(x).astype(float), abs(w).astype(float), "full", "direct")
        assert np.all(abs(back - want) <= 2 * w.size * UNIT[dtype] * size)


def test_one_sample_is_a_batch_of_one() -> None:
    rng = np.random.default_rng(5)
    for d in (1, 2, 3):
        x, w = rng.standard_normal((2, 3, *(6,) * d)), rng.standard_normal((4, 3, *(3,) * d))
        forward, back = getattr(F, f"conv{d}d"), getattr(F, f"conv_transpose{d}d")
        y = forward(x, w, padding=1).numpy()
        np.testing.assert_array_equal(forward(x[1], w, padding=1).numpy(), y[1])
        z = back(y, w, padding=1).numpy()
        np.testing.assert_array_equal(back(y[0], w, padding=1).numpy(), z[0])


def test_strided_and_read_only_arrays() -> None:
    x = np.random.default_rng(6).standard_normal((2, 6, 10, 3)).transpose(0, 3, 1, 2)[:, :, ::2, ::-1]
    w = np.ones((2, 3, 2, 2))
    x.flags.writeable = w.flags.writeable = False
    np.testing.assert_array_equal(F.conv2d(x, w).numpy(), F.conv2d(x.copy(), w.copy()).numpy())


# --- adjoints ---


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.name)
def test_adjoints_are_exact_on_fractions(form: Form) -> None:
    x, w, y_bar = (fractions(shape, i) for i, shape in enumerate(form.shapes))
    y, pull = ln.vjp(lambda x, w: F.conv(x, w, **geometry(form)), ln.tensor(x), ln.tensor(w))
    x_bar, w_bar = pull(ln.tensor(y_bar))
    form_value = inner(y.numpy(), y_bar)
    assert form_value == inner(x, x_bar.numpy()) == inner(w, w_bar.numpy())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", [f for f in FORMS if f.spatial], ids=lambda f: f.name)
def test_transposed_is_the_adjoint(form: Form, dtype: str) -> None:
    """⟨conv(x), y⟩ = ⟨x, conv_transpose(y)⟩, where the output padding restores x's size."""
    x, w, y = arrays(form, dtype)
    steps = zip(form.spatial, form.out, form.kernel, form.stride, form.padding, form.dilation, strict=True)
    extra = [n - ((p - 1) * s - sum(pads) + d * (k - 1) + 1) for n, p, k, s, pads, d in steps]
    z = F.conv_transpose(y, w, output_padding=extra, **geometry(form)).numpy()
    assert z.shape == x.shape
    left = np.sum(F.conv(x, w, **geometry(form)).numpy().astype(float) * y)
    right = np.sum(x.astype(float) * z)
    assert abs(left - right) <= 1e3 * UNIT[dtype] * (1 + abs(left))


def test_output_padding_beyond_a_stride() -> None:
    """Legal when the dilation is larger; the added cells are those no input reaches."""
    x, w = np.arange(1.0, 5.0).reshape(1, 4), np.ones((1, 1, 2))
    y = F.conv_transpose1d(x, w, dilation=3, output_padding=2).numpy()
    np.testing.assert_array_equal(y, [[1.0, 2.0, 3.0, 5.0, 2.0, 3.0, 4.0, 0.0, 0.0]])
    want = spec.conv_transpose(x, w, dilation=3, output_padding=2)
    np.testing.assert_array_equal(y, np.asarray(want, float))


@pytest.mark.parametrize("rank", [4, 5])
def test_high_rank_derivatives(rank: int) -> None:
    rng = np.random.default_rng(rank)
    x, w = rng.standard_normal((1, 2, *(3,) * rank)), rng.standard_normal((2, 2, *(2,) * rank))
    x_dot, w_dot = rng.standard_normal(x.shape), rng.standard_normal(w.shape)

    def f(x: Any, w: Any) -> Any:
        return F.conv(x, w, padding=1, stride=2)

    y, y_dot = ln.jvp(f, (ln.tensor(x), ln.tensor(w)), (ln.tensor(x_dot), ln.tensor(w_dot)))
    _, pull = ln.vjp(f, ln.tensor(x), ln.tensor(w))
    y_bar = rng.standard_normal(y.shape)
    x_bar, w_bar = pull(ln.tensor(y_bar))
    left = np.sum(y_dot.numpy() * y_bar)
    right = np.sum(x_dot * x_bar.numpy()) + np.sum(w_dot * w_bar.numpy())
    assert abs(left - right) <= 1e-12 * (1 + abs(left))


# --- algorithms and threads ---


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.name)
def test_algorithms_agree(form: Form, dtype: str) -> None:
    x, w, y = arrays(form, dtype)
    b = np.ones(form.o, dtype)

    def everything() -> list[Any]:
        results = [F.conv(x, w, b, **geometry(form))]
        _, pull = ln.vjp(lambda x, w: F.conv(x, w, **geometry(form)), ln.tensor(x), ln.tensor(w))
        return [r.numpy() for r in (*results, *pull(ln.tensor(y)))]

    first = everything()
    suited = form.kernel == (3, 3) and set(form.stride) == set(form.dilation) == {1}
    for name in cpu_conv.ALGORITHMS[1:]:
        if name == "winograd" and not suited:
            continue
        with cpu_conv.algorithm(name):
            for a, b_ in zip(first, everything(), strict=True):
                np.testing.assert_allclose(a, b_, rtol=0, atol=200 * UNIT[dtype] * (1 + abs(a).max(initial=0)))


def test_unknown_algorithm() -> None:
    with pytest.raises(ValueError, match=r"algorithm: unknown; got 'fast'; choose from"), cpu_conv.algorithm("fast"):
        pass


@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_do_not_change_a_bit(dtype: str) -> None:
    rng = np.random.default_rng(8)
    x, w = rng.standard_normal((3, 20, 17, 18)).astype(dtype), rng.standard_normal((22, 20, 3, 3)).astype(dtype)
    g = ln.tensor(rng.standard_normal((3, 22, 9, 9)).astype(dtype))
    seen = set()
    for count in (1, 2, 5):
        with ln.num_threads(count):
            y, pull = ln.vjp(lambda x, w: F.conv2d(x, w, stride=2, padding=1), ln.tensor(x), ln.tensor(w))
            seen.add(b"".join(r.numpy().tobytes() for r in (y, *pull(g))))
    assert len(seen) == 1


# --- errors ---

X, W = np.zeros((1, 4, 8, 8)), np.zeros((6, 4, 3, 3))
ERRORS = [
    (lambda: F.conv2d(X, W[..., 0]),
     r"conv2d: weight must be \(out_channels, in_channels / groups, \*kernel\) with 4 axes; "
     r"got shape \(6, 4, 3\); reshape it"),
    (lambda: F.conv(X, np.zeros(3)),
     r"conv: weight must be .*; got shape \(3,\); reshape it"),
    (lambda: F.conv2d(X[0, 0], W),
     r"conv: input must be \(batch, channels, \*spatial\) with 4 axes; got shape \(8, 8\)"),
    (lambda: F.conv2d(X[:, :3], W),
     r"conv: input channels must equal groups x weight channels; got 3 channels, "
     r"groups 1, weight channels 4; change the weight or groups"),
    (lambda: F.conv2d(X, W[:5, :2], groups=2),
     r"conv: output channels must be a multiple of groups; got 5 output "
     r"channels, groups 2"),
    (lambda: F.conv2d(X, W, groups=0),
     r"conv: groups must be an integer of at least 1; got 0"),
    (lambda: F.conv2d(X, W, np.zeros(5)),
     r"conv: bias must have shape \(6,\), one entry per output channel; got \(5,\)"),
    (lambda: F.conv2d(X, W, stride=0),
     r"conv: stride must be at least 1; got \(0, 0\)"),
    (lambda: F.conv2d(X, W, dilation=(1, -1)),
     r"conv: dilation must be at least 1; got \(1, -1\)"),
    (lambda: F.conv2d(X, W, padding=-1),
     r"conv: padding must not be negative; got \(\(-1, -1\), \(-1, -1\)\)"),
    (lambda: F.conv2d(X, W, padding=(1, 1, 1)),
     r"conv: padding needs one entry per spatial axis; got \(1, 1, 1\)"),
    (lambda: F.conv2d(X, W, padding="reflect"),
     r'conv: padding names are "same" and "valid"; got \'reflect\''),
    (lambda: F.conv2d(X, W, stride=2, padding="same"),
     r'conv: padding "same" needs stride 1; got stride \(2, 2\)'),
    (lambda: F.conv2d(X, W, dilation=4),
     r"conv: kernel \(3, 3\) with dilation \(4, 4\) spans \(9, 9\), larger than "
     r"padded input \(8, 8\) on spatial axis 0; reduce kernel or dilation, or add padding"),
    (lambda: F.conv2d(X, W, padding=2**40),
     r"conv: padded input must not exceed \d+ elements"),
    (lambda: F.conv_transpose2d(X, W),
     r"conv_transpose: input channels must equal the weight's input channels; got 4 and 6"),
    (lambda: F.conv_transpose2d(X, W[:4], groups=3),
     r"conv_transpose: input channels must be a multiple of groups; "
     r"got 4 channels, groups 3"),
    (lambda: F.conv_transpose2d(X, W[:4], np.zeros(3)),
     r"conv_transpose: bias must have shape \(4,\)"),
    (lambda: F.conv_transpose2d(X, W[:4], output_padding=1),
     r"conv_transpose: output_padding must be smaller than "
     r"stride or dilation; got \(1, 1\) for stride \(1, 1\) and dilation \(1, 1\)"),
    (lambda: F.conv_transpose2d(X, W[:4], padding=5),
     r"conv_transpose: output must have at least one cell per axis; "
     r"got spatial shape \(0, 0\) from input \(8, 8\)"),
    (lambda: F.conv_transpose1d(X, W),
     r"conv_transpose1d: weight must be \(in_channels, out_channels / groups, "
     r"\*kernel\) with 3 axes"),
    (lambda: F.unfold(X, (3,) * 4),
     r"unfold: input must be \(batch, channels, \*spatial\) with 6 axes; got shape"),
    (lambda: F.fold(np.zeros((1, 5, 3)), (4,), 2),
     r"fold: columns must be \(batch, channels x 2, windows\); got shape "
     r"\(1, 5, 3\); use unfold's layout"),
    (lambda: F.fold(np.zeros((1, 4, 2)), (4,), 2),
     r"fold: columns must have shape \(1, 4, 3\); got \(1, 4, 2\)"),
]


@pytest.mark.parametrize(("call", "text"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


def test_dtype_errors() -> None:
    with pytest.raises(TypeError, match=r"conv: arguments of one dtype are needed; got float64, float32"):
        F.conv2d(X, W.astype("float32"))
    with pytest.raises(TypeError, match=r"^conv2d: Tensors, arrays or numbers are needed; got NoneType"):
        F.conv2d(np.zeros((1, 1, 2, 2)), None)
    with pytest.raises(TypeError, match="float16"):
        F.conv2d(X.astype("float16"), W.astype("float16"))
    with pytest.raises(TypeError, match="int64"):
        F.conv2d(X.astype("int64"), W.astype("int64"))
    with pytest.raises(TypeError, match=r"conv: stride must be an integer; got 1.5"):
        F.conv2d(X, W, stride=1.5)


def test_the_specification_says_the_same_words() -> None:
    for bad in ({"stride": 0}, {"padding": -1}, {"dilation": 4}, {"groups": 3}, {"padding": "reflect"}):
        with pytest.raises(ValueError) as fast:
            F.conv(X, W, **bad)
        with pytest.raises(ValueError) as slow:
            spec.conv(X, W, **bad)
        assert str(fast.value) == str(slow.value)
