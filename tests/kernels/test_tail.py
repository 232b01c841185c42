"""What follows a sum inside the kernels (tail.h), and weights that are transformed beforehand: the same bits as without."""

from __future__ import annotations

import numpy as np
import pytest

from lean_nn import threads
from lean_nn.window import conv_spatial
from lean_nn_c import conv, gemm

DTYPES = [np.float32, np.float64]
# n, c, o, groups, spatial, kernel, stride, pad, dilation
FORMS = {
    "3x3": (2, 9, 10, 1, (11, 13), (3, 3), (1, 1), (1, 1), (1, 1)),
    "3x3-deep": (1, 70, 13, 1, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
    "3x3-wide": (5, 8, 8, 1, (30, 30), (3, 3), (1, 1), (1, 1), (1, 1)),
    "3x3-small": (3, 8, 9, 1, (5, 5), (3, 3), (1, 1), (1, 1), (1, 1)),
    "3x3-groups": (2, 16, 24, 2, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
    "5x5": (1, 8, 16, 1, (14, 14), (5, 5), (1, 1), (2, 2), (1, 1)),
    "4x4-stride": (2, 6, 8, 1, (18, 18), (4, 4), (2, 2), (1, 1), (1, 1)),
    "3x3-stride": (2, 8, 12, 1, (17, 16), (3, 3), (2, 2), (1, 1), (1, 1)),
    "3x3-stride-groups": (2, 8, 12, 2, (17, 16), (3, 3), (2, 2), (1, 1), (1, 1)),
    "1x1": (2, 20, 33, 1, (9, 10), (1, 1), (1, 1), (0, 0), (1, 1)),
    "1x1-groups": (2, 20, 30, 5, (9, 10), (1, 1), (1, 1), (0, 0), (1, 1)),
    "1x1-stride": (1, 8, 16, 1, (8, 8), (1, 1), (2, 2), (0, 0), (1, 1)),
    "2x2-stride-3": (1, 9, 9, 1, (14, 14), (2, 2), (3, 3), (0, 0), (1, 1)),
    "depthwise": (2, 12, 12, 12, (15, 15), (3, 3), (1, 1), (1, 1), (1, 1)),
    "depthwise-small": (6, 5, 5, 5, (4, 5), (3, 3), (1, 1), (1, 1), (1, 1)),
    "3x3-bands": (40, 8, 9, 1, (4, 4), (5, 5), (1, 1), (2, 2), (1, 1)),
    "first-layer": (2, 3, 8, 1, (28, 28), (7, 7), (2, 2), (3, 3), (1, 1)),
    "line": (2, 8, 8, 1, (90,), (9,), (1,), (4,), (1,)),
    "line-stride": (2, 6, 8, 1, (50,), (4,), (2,), (1,), (1,)),
    "volume": (1, 8, 8, 1, (6, 7, 8), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    "tiny-samples": (16, 8, 8, 1, (3, 3), (2, 2), (1, 1), (0, 0), (1, 1)),
    "few-outputs": (3, 4, 40, 2, (7, 6), (5, 5), (1, 1), (0, 0), (1, 1)),
    "3x3-stride-long": (2, 12, 20, 1, (34, 33), (3, 3), (2, 2), (1, 1), (1, 1)),
    "no-terms": (2, 0, 4, 1, (5, 5), (2, 2), (1, 1), (0, 0), (1, 1)),
}
ALGORITHMS = ["auto", "taps", "points", "winograd", "strips", "depthwise", "spread", "direct"]
ACTS = ["", "relu", "leaky_relu"]


def acted(act, y):
    if act == "relu":
        return np.where(y <= 0, np.zeros_like(y), y)
    return np.where(y > 0, y, y.dtype.type(0.1) * y) if act else y


def arrays_of(name, form, dtype):
    """What goes in (source, weight, bias), the result's shape, and the arguments of a step."""
    n, c, o, groups, spatial, kernel, stride, pad, dilation = form
    out = conv_spatial("conv", spatial, kernel, stride, tuple((p, p) for p in pad), dilation)
    x, y, w = (n, c, *spatial), (n, o, *out), (o, c // groups, *kernel)
    source, result = (x, y) if name == "conv" else (y, x)
    rng = np.random.default_rng(0)
    data = [rng.standard_normal(shape).astype(dtype) for shape in (source, w, result[1:2], result)]
    return data, (n, c, o, groups, spatial, kernel, out, stride, pad, dilation)


def run(name, sizes, algorithm, source, w, b, y, *more, **options):
    """A step's result, which starts as NaN, so that an unwritten cell shows."""
    out = np.full_like(y, np.nan)
    wide = y.dtype == np.float64
    conv.step(name, wide, b is not None, *sizes, algorithm, **options)(source, w, *([] if b is None else [b]), *more, out)
    return out


def applicable(name, sizes, algorithm):
    try:
        conv.step(name, False, False, *sizes, algorithm)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["conv", "conv_input"])
@pytest.mark.parametrize("form", FORMS)
def test_a_tail_gives_the_bits_of_separate_operations(form, name, dtype):
    (source, w, b, other), sizes = arrays_of(name, FORMS[form], dtype)
    for algorithm in ALGORITHMS:
        if not applicable(name, sizes, algorithm):
            continue
        plain = run(name, sizes, algorithm, source, w, b, other)
        for act in [*ACTS, "relu_gate"]:
            for adds in (False, True):
                want = acted("" if act == "relu_gate" else act, plain + other if adds else plain)
                more = [other] if adds else []
                if act == "relu_gate":
                    gate = np.roll(other, 1)
                    gate.flat[::5] = 0
                    want, more = np.where(gate <= 0, np.zeros_like(want), want), [*more, gate]
                got = run(name, sizes, algorithm, source, w, b, other, *more, other=adds, act=act, slope=0.1)
                assert got.tobytes() == want.tobytes(), (algorithm, act, adds)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_the_bias_of_conv_input_reaches_every_cell(form, dtype):
    (source, w, b, x), sizes = arrays_of("conv_input", FORMS[form], dtype)
    for algorithm in ALGORITHMS:
        if applicable("conv_input", sizes, algorithm):
            without = run("conv_input", sizes, algorithm, source, w, None, x)
            got = run("conv_input", sizes, algorithm, source, w, b, x)
            want = without + b.reshape(-1, *(1,) * (x.ndim - 2))
            np.testing.assert_allclose(got, want, rtol=0, atol=200 * np.finfo(dtype).eps, err_msg=algorithm)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["conv", "conv_input"])
@pytest.mark.parametrize("form", FORMS)
def test_a_packed_weight_gives_the_same_bits_with_any_number_of_threads(form, name, dtype):
    (source, w, b, other), sizes = arrays_of(name, FORMS[form], dtype)
    for algorithm in ("auto", "winograd"):
        if not applicable(name, sizes, algorithm):
            continue
        pack = conv.pack(name, dtype == np.float64, *sizes, algorithm)
        if pack is None:
            assert algorithm == "auto" or w.size == 0
            continue
        packed = np.full(pack.sizes[1] // w.itemsize, np.nan, dtype)
        pack(w, packed)
        want = run(name, sizes, "winograd", source, w, b, other, other, other=True, act="relu")
        for count in (1, 2, 3):
            with threads.num_threads(count):
                got = run(name, sizes, algorithm, source, w, b, other, other, packed, other=True, act="relu", packed=True)
            assert got.tobytes() == want.tobytes()


def test_what_is_not_finite_is_found_behind_an_activation():
    (source, w, b, other), sizes = arrays_of("conv", FORMS["3x3"], np.float32)
    w[3, 2, 1, 1] = np.inf
    with np.errstate(all="ignore"):
        for algorithm in ("winograd", "taps", "strips", "depthwise", "auto"):
            got = run("conv", sizes, algorithm, source, w, b, other, other, other=True, act="relu")
            want = run("conv", sizes, "direct", source, w, b, other, other, other=True, act="relu")
            assert (np.isnan(got) == np.isnan(want)).all()


PRODUCTS = {
    "dots": (1, 70, 3000, False, True), "one-column": (40, 1, 50, False, False), "few": (4, 50, 60, False, False),
    "many": (50, 70, 600, False, True), "turned": (33, 40, 20, True, False), "no-terms": (3, 5, 0, False, True),
    "turned-column": (33, 1, 40, True, False), "turned-column-no-terms": (9, 1, 0, True, True),
    "few-terms": (20, 600, 5, False, False),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", PRODUCTS)
def test_a_product_with_bias_and_tail_gives_the_bits_of_separate_operations(case, dtype):
    m, n, k, ta, tb = PRODUCTS[case]
    rng = np.random.default_rng(0)
    a, b, bias, other = (rng.standard_normal(s).astype(dtype) for s in (m * k, k * n, n, (m, n)))
    head = (dtype == np.float64, a.size, b.size, m, n, k, ta, tb, (), (), ())

    def product(*more, **options):
        out = np.full((m, n), np.nan, dtype)
        gemm.step(*head, **options)(a, b, *more, out)
        return out

    plain = product()
    for act in ACTS:
        for adds in (False, True):
            want = acted(act, plain + bias + other if adds else plain + bias)
            more = [bias, other] if adds else [bias]
            assert product(*more, bias=True, other=adds, act=act, slope=0.1).tobytes() == want.tobytes()


def test_an_unknown_activation_is_refused():
    for act in ("tanh", "relu_gate"):  # a product has no array that a gate could look at
        with pytest.raises(ValueError, match=f"unknown activation '{act}'"):
            gemm.step(False, 1, 1, 1, 1, 1, False, False, (), (), (), act=act)
