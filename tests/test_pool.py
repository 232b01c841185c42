"""Pooling as users meet it: every sentence of the semantics, the derivatives, the error texts."""

import doctest
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lean_nn as ln
from lean_nn import functional as F
from lean_nn import spec
from lean_nn.functional import adaptive_pool, pool
from lean_nn.window import Bins, strided

NAN, INF = math.nan, math.inf


def gradient(f, x, y_bar=None):
    """The cotangent of x for `y_bar` (ones by default)."""
    y, pull = ln.vjp(f, x)
    (x_bar,) = pull(ln.tensor(np.ones(y.shape, y.dtype) if y_bar is None else y_bar))
    return x_bar.numpy()


# --- max pooling ---


def test_padding_is_never_a_candidate():
    x = ln.tensor([[-3.0, -2.0, -5.0]])
    y, idx = F.max_pool1d(x, 3, stride=1, padding=1, return_indices=True)
    assert y.tolist() == [[-2, -2, -2]] and idx.tolist() == [[1, 1, 1]]


def test_the_first_maximum_in_row_major_order_wins_everywhere():
    x = ln.tensor([[[1.0, 7.0], [7.0, 7.0]]])
    y, idx = F.max_pool2d(x, 2, return_indices=True)
    assert (y.tolist(), idx.tolist()) == ([[[7]]], [[[1]]])
    assert gradient(lambda v: F.max_pool2d(v, 2), x).tolist() == [[[0, 1], [0, 0]]]
    _, y_dot = ln.jvp(lambda v: F.max_pool2d(v, 2), (x,), (ln.tensor([[[1.0, 2.0], [4.0, 8.0]]]),))
    assert y_dot.tolist() == [[[2]]]


def test_a_window_without_a_real_cell_is_zero_with_index_minus_one_and_no_derivative():
    x = ln.tensor([[-4.0, -5.0]])

    def f(v):
        return F.max_pool1d(v, 2, stride=2, padding=2)

    y, idx = F.max_pool1d(x, 2, stride=2, padding=2, return_indices=True)
    assert y.tolist() == [[0, -4, 0]] and idx.tolist() == [[-1, 0, -1]]
    assert ln.jvp(f, (x,), (ln.tensor([[1.0, 1.0]]),))[1].tolist() == [[0, 1, 0]]
    assert gradient(f, x).tolist() == [[1, 0]]


def test_the_first_nan_wins():
    x = np.array([[5.0, NAN, 9.0, NAN]])
    y, idx = F.max_pool1d(x, 4, return_indices=True)
    assert np.isnan(y.item()) and idx.item() == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("stride", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5, 9, 17])
def test_values_alone_have_the_bits_of_values_with_places(dtype, stride, kernel):
    """Along one axis they take a shorter way: of zeros with two signs, and of NaNs, it must keep the first, too."""
    rng = np.random.default_rng(kernel)
    for size in (33, 100, 1001):
        zeros = rng.choice(np.array([-1, -0.0, 0.0], dtype), (3, size))
        holes = np.where(rng.random((3, size)) < 0.01, dtype(NAN), rng.standard_normal((3, size)).astype(dtype))
        for x in (zeros, holes):
            for padding in (0, kernel // 2):
                y, _ = F.max_pool1d(x, kernel, stride, padding, return_indices=True)
                assert F.max_pool1d(x, kernel, stride, padding).numpy().tobytes() == y.numpy().tobytes()


def test_minus_infinity_everywhere_names_the_first_real_cell():
    y, idx = F.max_pool1d(np.array([[-INF, -INF]]), 3, stride=1, padding=1, return_indices=True)
    assert y.tolist() == [[-INF, -INF]] and idx.tolist() == [[0, 0]]


def test_dilation_and_indices_into_the_unpadded_input():
    x = np.arange(24.0).reshape(1, 4, 6)
    y, idx = F.max_pool2d(x, 2, stride=1, padding=1, dilation=2, return_indices=True)
    assert y.shape == (1, 4, 6) and idx.dtype == np.int64
    np.testing.assert_array_equal(x.reshape(-1)[idx.numpy()], y.numpy())
    assert y.tolist()[0][0] == [7, 8, 9, 10, 11, 10]


def test_ceil_mode_keeps_an_overhanging_window_but_not_one_in_the_trailing_padding():
    x = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]])
    assert F.max_pool1d(x, 2).tolist() == [[2, 4]]
    assert F.max_pool1d(x, 2, ceil_mode=True).tolist() == [[2, 4, 5]]
    assert F.max_pool1d(x[:, :4], 2, stride=3, padding=1, ceil_mode=True).tolist() == [[1, 4]]


def test_the_gradient_goes_to_the_winner_and_overlapping_windows_add_up():
    x = ln.tensor([[0.0, 3.0, 1.0, 2.0]])
    x_bar = gradient(lambda v: F.max_pool1d(v, 3, stride=1), x, np.array([[10, 1]], np.float32))
    assert x_bar.tolist() == [[0, 11, 0, 0]]


# --- average pooling ---


def test_padding_counts_as_zeros_and_in_the_divisor():
    x = np.array([[6.0, 6.0, 6.0]])
    assert F.avg_pool1d(x, 3, stride=1, padding=1).tolist() == [[4, 6, 4]]
    assert F.avg_pool1d(x, 3, stride=1, padding=1, count_include_pad=False).tolist() == [[6, 6, 6]]
    assert F.avg_pool1d(x, 3, stride=1, padding=1, divisor_override=2).tolist() == [[6, 9, 6]]


def test_ceil_mode_divides_by_the_cells_inside_the_padded_input():
    x = np.array([[2.0, 4.0, 6.0]])
    assert F.avg_pool1d(x, 2, ceil_mode=True).tolist() == [[3, 6]]
    assert F.avg_pool1d(x, 3, stride=3, padding=1, ceil_mode=True).tolist() == [[2, 3]]


def test_the_share_of_padding_is_lost_and_the_average_is_its_own_tangent():
    x, t = np.zeros((1, 3)), np.array([[3.0, 6.0, 9.0]])

    def f(v):
        return F.avg_pool1d(v, 3, stride=1, padding=1)

    assert gradient(f, x).tolist() == [[2 / 3, 1, 2 / 3]]
    assert ln.jvp(f, (x,), (t,))[1].tolist() == f(t).tolist()


def test_an_average_without_a_real_cell_is_zero():
    x = np.array([[3.0]])
    assert F.avg_pool1d(x, 1, padding=1, count_include_pad=False).tolist() == [[0, 3, 0]]
    assert gradient(lambda v: F.avg_pool1d(v, 1, padding=1, count_include_pad=False), x).tolist() == [[1]]


# --- smooth max pooling ---


def test_a_constant_window_of_n_cells_gives_c_plus_log_n_over_beta():
    for beta in (0.5, -2.0, 30.0):
        y = F.smooth_max_pool2d(np.full((1, 2, 3), 7.0), (2, 3), beta)
        np.testing.assert_allclose(y.item(), 7 + math.log(6) / beta, rtol=1e-15)


def test_padding_counts_as_value_zero():
    y = F.smooth_max_pool1d(np.array([[2.0]]), 2, 1.0, stride=1, padding=1)
    np.testing.assert_allclose(y.tolist(), [[math.log(1 + math.exp(2))] * 2], rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("beta", [1e20, -1e20])
def test_huge_beta_and_values_stay_finite_in_both_modes(dtype, beta):
    x = np.array([[1e20, -1e20, 1e20, 1e20]], dtype)

    def f(v):
        return F.smooth_max_pool1d(v, 2, beta)

    y, y_dot = ln.jvp(f, (x,), (np.array([[1, 2, 4, 8]], dtype),))
    assert y.tolist() == [[x[0, 0] if beta > 0 else x[0, 1], x[0, 2]]]
    assert y_dot.tolist() == [[1 if beta > 0 else 2, 6]]
    assert gradient(f, x).tolist() == [[1, 0, 0.5, 0.5] if beta > 0 else [0, 1, 0.5, 0.5]]


def test_beta_has_a_derivative():
    x, beta, h = np.random.default_rng(0).standard_normal((2, 5, 6)), 1.3, 1e-6

    def f(b):
        return F.smooth_max_pool2d(x, 2, b, padding=1).sum()

    numeric = (f(beta + h).item() - f(beta - h).item()) / (2 * h)
    _, forward = ln.jvp(f, (np.array(beta),), (np.array(1.0),))
    np.testing.assert_allclose(gradient(f, np.array(beta)), numeric, rtol=1e-8)
    np.testing.assert_allclose(forward.item(), numeric, rtol=1e-8)


def test_three_orders_of_a_window_of_two_are_those_of_softplus():
    # log(exp(a) + exp(0)): the sigmoid, its derivative, and so on
    x = np.array([[0.7]])

    def f(v):
        return F.smooth_max_pool1d(v, 2, 1.0, stride=2, padding=[(0, 1)]).sum()

    s = 1 / (1 + math.exp(-0.7))
    orders = [s, s * (1 - s), s * (1 - s) * (1 - 2 * s)]
    reverse, forward = ln.grad(f), lambda g: lambda v: ln.jvp(g, (v,), (np.ones((1, 1)),))[1]
    second = ln.grad(lambda v: reverse(v).sum())
    third = ln.grad(lambda v: second(v).sum())
    np.testing.assert_allclose([reverse(x).item(), second(x).item(), third(x).item()], orders, rtol=1e-13)
    pushed = [forward(f), forward(forward(f)), forward(forward(forward(f)))]
    np.testing.assert_allclose([g(x).item() for g in pushed], orders, rtol=1e-13)
    np.testing.assert_allclose(forward(second)(x).item(), orders[2], rtol=1e-13)


# --- adaptive pooling ---


def test_adaptive_bins():
    x = np.arange(5.0).reshape(1, 5)
    assert F.adaptive_avg_pool1d(x, 3).tolist() == [[0.5, 2, 3.5]]
    assert F.adaptive_max_pool1d(x, 3).tolist() == [[1, 3, 4]]
    assert F.adaptive_max_pool1d(x[:, :2], 4).tolist() == [[0, 0, 1, 1]]  # out > in repeats cells
    assert F.adaptive_avg_pool2d(np.ones((1, 4, 5)), (2, None)).shape == (1, 2, 5)
    assert gradient(lambda v: F.adaptive_avg_pool1d(v, 3), x).tolist() == [[0.5, 0.5 + 1 / 3, 1 / 3, 0.5 + 1 / 3, 0.5]]
    y, idx = F.adaptive_max_pool2d(np.arange(6.0).reshape(1, 2, 3), 1, return_indices=True)
    assert (y.item(), idx.item()) == (5, 5)


# --- every rank, every layout ---


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_rank_equals_the_spec_in_value_and_both_derivatives(rank, dtype):
    rng = np.random.default_rng(rank)
    spatial = (4, 3, 3, 4, 3)[:rank]
    x, t = (rng.standard_normal((2, 2, *spatial)).astype(dtype) for _ in range(2))
    w = strided("p", rank, 2, (1, 2, 1, 2, 1)[:rank], 1)
    kernel, stride = (2,) * rank, w.stride
    tolerance = {"rtol": 1e-5 if dtype == np.float32 else 1e-13, "atol": 1e-5 if dtype == np.float32 else 1e-13}
    y, idx = F.max_pool(x, kernel, stride, 1, return_indices=True)
    expected = spec.max_pool(x, window=w)
    np.testing.assert_array_equal(y.numpy(), expected[0].astype(dtype))
    np.testing.assert_array_equal(idx.numpy(), expected[1])
    g = rng.standard_normal(y.shape).astype(dtype)
    for f, jvp, vjp in [
        (
            lambda v: F.max_pool(v, kernel, stride, 1),
            spec.max_pool_jvp(x, t, window=w),
            spec.max_pool_vjp(x, g, window=w),
        ),
        (
            lambda v: F.avg_pool(v, kernel, stride, 1),
            spec.avg_pool_jvp(t, window=w),
            spec.avg_pool_vjp(g, spatial=spatial, window=w),
        ),
        (
            lambda v: F.smooth_max_pool(v, kernel, 1.5, stride, 1),
            spec.smooth_max_pool_jvp(x, 1.5, t, window=w),
            spec.smooth_max_pool_vjp(x, 1.5, g, window=w),
        ),
    ]:
        np.testing.assert_allclose(ln.jvp(f, (x,), (t,))[1].numpy(), jvp.astype(dtype), **tolerance)
        np.testing.assert_allclose(gradient(f, x, g), vjp.astype(dtype), **tolerance)


@st.composite
def poolings(draw):
    """A window, strided or adaptive, and an input shape it fits."""
    rank = draw(st.integers(1, 3))
    spatial = tuple(draw(st.integers(1, 7)) for _ in range(rank))
    shape = (draw(st.integers(0, 2)), draw(st.integers(1, 2)), *spatial)
    if draw(st.integers(0, 3)) == 0:
        return Bins(tuple(draw(st.none() | st.integers(1, 5)) for _ in range(rank))), shape
    ints = {name: tuple(draw(st.integers(1, 3)) for _ in range(rank)) for name in ("kernel", "stride", "dilation")}
    pads = tuple((draw(st.integers(0, 4)), draw(st.integers(0, 4))) for _ in range(rank))
    return strided("p", rank, ints["kernel"], ints["stride"], pads, ints["dilation"], draw(st.booleans())), shape


def pool_with(w, x, **options):
    if isinstance(w, Bins):
        return F.adaptive_max_pool(x, w.output, **options)
    return F.max_pool(x, w.kernel, w.stride, w.padding, w.dilation, w.ceil_mode, **options)


def result_or_error(f, *args, **params):
    try:
        return f(*args, **params)
    except ValueError as error:
        return str(error)


@given(poolings(), st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_random_geometry_gives_the_specs_bits_or_the_specs_words(case, seed):
    w, shape = case
    x = np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)
    expected = result_or_error(spec.max_pool, x, window=w)
    got = result_or_error(pool_with, w, x, return_indices=True)
    if isinstance(expected, str):
        assert got == expected
        return
    np.testing.assert_array_equal(got[0].numpy(), expected[0].astype(np.float32))
    np.testing.assert_array_equal(got[1].numpy(), expected[1])
    assert pool_with(w, x).numpy().tobytes() == got[0].numpy().tobytes()


def test_samples_planes_and_batches_agree():
    x = np.random.default_rng(0).standard_normal((3, 4, 6, 6))
    for f in (
        lambda v: F.max_pool2d(v, 2),
        lambda v: F.avg_pool2d(v, 2),
        lambda v: F.smooth_max_pool2d(v, 2, 2.0),
        lambda v: F.adaptive_avg_pool2d(v, 4),
        lambda v: F.max_pool2d(v, 2, return_indices=True)[1],
    ):
        batch = f(x).numpy()
        np.testing.assert_array_equal(f(x[1]).numpy(), batch[1])
        np.testing.assert_array_equal(f(x[1, 2]).numpy(), batch[1, 2])
        np.testing.assert_array_equal(f(ln.tensor(x)).numpy(), batch)
        np.testing.assert_array_equal(f(x[:, ::-1])[:, ::-1].numpy(), batch)  # a strided array


def test_the_value_is_the_same_with_and_without_somebody_watching():
    x = np.random.default_rng(0).standard_normal((2, 3, 9, 9)).astype(np.float32)
    watched = F.max_pool2d(ln.tensor(x, requires_grad=True), 3, 2, 1)
    assert watched.node.prim.name == "max_pool"
    assert F.max_pool2d(x, 3, 2, 1).numpy().tobytes() == watched.numpy().tobytes()
    with ln.no_grad():
        assert F.max_pool2d(ln.tensor(x, requires_grad=True), 3, 2, 1).node is None


def test_empty_batches_have_empty_results_and_gradients():
    x = np.zeros((0, 2, 4, 4), np.float32)
    for f in (lambda v: F.max_pool2d(v, 2), lambda v: F.avg_pool2d(v, 2), lambda v: F.smooth_max_pool2d(v, 2, 1.0)):
        assert f(x).shape == (0, 2, 2, 2) and gradient(f, x).shape == x.shape


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_adjoints_are_exact_on_fractions(kind):
    rng = np.random.default_rng(0)

    def fractions(*shape):
        return np.vectorize(Fraction, otypes=[object])(rng.integers(-9, 9, shape), rng.integers(1, 9, shape))

    x, t = fractions(1, 2, 5, 5), fractions(1, 2, 5, 5)

    def f(v):
        return F.max_pool2d(v, 3, 2, 1) if kind == "max" else F.avg_pool2d(v, 3, 2, 1, count_include_pad=False)

    y, y_dot = ln.jvp(f, (x,), (t,))
    g = fractions(*y.shape)
    x_bar = gradient(f, x, g)
    assert (y_dot.numpy() * g).sum() == (t * x_bar).sum() and isinstance(x_bar.flat[0], (Fraction, int))


def test_bits_do_not_depend_on_the_number_of_threads():
    x = np.random.default_rng(0).standard_normal((4, 8, 40, 40)).astype(np.float32)

    def everything():
        results = []
        for f in (
            lambda v: F.max_pool2d(v, 3, 2, 1),
            lambda v: F.avg_pool2d(v, 3, 2, 1),
            lambda v: F.smooth_max_pool2d(v, 3, 2.0, 2, 1),
            lambda v: F.adaptive_avg_pool2d(v, 7),
        ):
            results += [f(x).numpy().tobytes(), gradient(f, x).tobytes()]
        return results

    runs = []
    for n in (1, 2, 5):
        with ln.num_threads(n):
            runs.append(everything())
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("module", [pool, adaptive_pool])
def test_examples_in_docstrings(module):
    assert doctest.testmod(module).failed == 0
