"""Pooling refuses wrong input in the documented words, before anything is allocated."""

import math

import numpy as np
import pytest

import lean_nn as ln
from lean_nn import functional as F
from lean_nn.ops.pool import gather_at, scatter_add_at

NAN, INF = math.nan, math.inf
X = np.zeros((1, 1, 4, 6))
INTEGER = "must be an integer; got {!r}; use an int or a tuple of ints"


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda: F.max_pool2d(X, 3, dilation=2),
            ValueError,
            "max_pool: kernel (3, 3) with dilation (2, 2) spans (5, 5), larger than padded input (4, 6) "
            "on spatial axis 0; reduce kernel or dilation, or add padding",
        ),
        (lambda: F.max_pool2d(X, 0), ValueError, "max_pool: kernel must be at least 1; got (0, 0); use integers >= 1"),
        (
            lambda: F.avg_pool2d(X, 2, 0),
            ValueError,
            "avg_pool: stride must be at least 1; got (0, 0); use integers >= 1",
        ),
        (
            lambda: F.max_pool2d(X, 2, dilation=0),
            ValueError,
            "max_pool: dilation must be at least 1; got (0, 0); use integers >= 1",
        ),
        (
            lambda: F.avg_pool2d(X, 2, padding=-1),
            ValueError,
            "avg_pool: padding must not be negative; got ((-1, -1), (-1, -1)); use integers >= 0, or slice the input",
        ),
        (lambda: F.max_pool2d(X, 2.0), TypeError, "max_pool: kernel " + INTEGER.format(2.0)),
        (lambda: F.max_pool2d(X, 2, True), TypeError, "max_pool: stride " + INTEGER.format(True)),
        (
            lambda: F.max_pool2d(X, (2, 2, 2)),
            ValueError,
            "max_pool: kernel needs one entry per spatial axis; got (2, 2, 2) for 2 spatial axes; "
            "give 2 entries or one int",
        ),
        (
            lambda: F.max_pool(X, 2),
            ValueError,
            "max_pool: kernel_size must be a tuple, one entry per spatial axis; got 2; use a tuple or max_pool2d",
        ),
        (
            lambda: F.smooth_max_pool(X, (), 1.0),
            ValueError,
            "smooth_max_pool: kernel_size must have at least one entry; got (); give one per spatial axis",
        ),
        (
            lambda: F.adaptive_avg_pool(X, 7),
            ValueError,
            "adaptive_avg_pool: output_size must be a tuple, one entry per spatial axis; got 7; "
            "use a tuple or adaptive_avg_pool2d",
        ),
        (
            lambda: F.adaptive_max_pool2d(X, (2, 0)),
            ValueError,
            "max_pool: output_size must be at least 1; got (2, 0); use integers >= 1",
        ),
        (
            lambda: F.adaptive_avg_pool2d(np.zeros((1, 1, 0, 3)), 2),
            ValueError,
            "avg_pool: spatial axes must not be empty; got spatial shape (0, 3); give at least one cell per axis",
        ),
        (lambda: F.adaptive_avg_pool2d(X, "7"), TypeError, "avg_pool: output_size " + INTEGER.format("7")),
        (
            lambda: F.max_pool3d(np.zeros((2, 2)), 1),
            ValueError,
            "max_pool: input must be (*spatial), (channels, *spatial) or (batch, channels, *spatial) "
            "with 3 spatial axes; got shape (2, 2); reshape it or change the kernel",
        ),
        (
            lambda: F.max_pool2d(X.astype(np.float16), 2),
            TypeError,
            "max_pool: data of float32, float64, object, int64, bool is needed; got float16; "
            "convert to float32 or float64",
        ),
        (
            lambda: F.max_pool2d(np.zeros((1, 1, 4, 4), np.int64), 2),
            TypeError,
            "max_pool: float32, float64 or object data is needed; got int64; convert with .astype('float32')",
        ),
        (
            lambda: F.avg_pool2d(X, 2, divisor_override=0),
            ValueError,
            "avg_pool: divisor_override must not be 0; got 0; use a non-zero int or None",
        ),
        (
            lambda: F.avg_pool2d(X, 2, divisor_override=1.5),
            TypeError,
            "avg_pool: divisor_override " + INTEGER.format(1.5),
        ),
        (
            lambda: F.smooth_max_pool2d(X, 2, ln.tensor([1.0, 2.0])),
            TypeError,
            "smooth_max_pool: arguments of one dtype are needed; got float64, float32; convert one with .astype(...)",
        ),
        (
            lambda: F.smooth_max_pool2d(X, 2, ln.tensor(np.ones(2))),
            ValueError,
            "smooth_max_pool: beta must be a scalar; got shape (2,); use one number",
        ),
    ],
)
def test_errors_say_rule_values_and_remedy(call, kind, words):
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == words


@pytest.mark.parametrize("beta", [0.0, 0, NAN, INF, -INF])
@pytest.mark.parametrize("boxed", [False, True])
def test_beta_is_finite_and_not_zero(beta, boxed):
    words = (
        f"smooth_max_pool: beta must be finite and not 0; got {float(beta) if boxed else beta}; "
        "use beta > 0 for a smooth maximum, beta < 0 for a smooth minimum"
    )
    with pytest.raises(ValueError) as error:
        F.smooth_max_pool2d(X, 2, ln.tensor(np.array(beta, float)) if boxed else beta)
    assert str(error.value) == words


@pytest.mark.parametrize("huge", [2**59, 2**62, 10**30])
def test_sizes_that_overflow_are_refused_before_anything_is_allocated(huge):
    for call in (
        lambda: F.max_pool2d(X, 2, padding=huge),
        lambda: F.max_pool2d(X, huge),
        lambda: F.avg_pool2d(X, 2, 1, padding=huge),
        lambda: F.adaptive_avg_pool2d(X, huge),
    ):
        with pytest.raises(ValueError, match=r"use smaller sizes|larger than padded input"):
            call()
    assert F.max_pool2d(X, 2, stride=huge if huge < 2**60 else 2**59).shape == (1, 1, 1, 1)


def test_a_huge_divisor_gives_zero():
    assert F.avg_pool1d(np.ones((1, 2)), 2, divisor_override=10**400).tolist() == [[0]]


def test_winners_of_another_input_are_refused():
    idx = np.array([[[0, 9]]])
    with pytest.raises(IndexError, match=r"gather_at: indices must be in \[-1, 4\); got \[0, 9\]; use this input's"):
        gather_at(np.zeros((1, 1, 4)), idx)
    with pytest.raises(IndexError, match=r"scatter_add_at: indices must be in \[-1, 4\); got \[0, 9\]"):
        scatter_add_at(np.zeros((1, 1, 2)), idx, spatial=(4,))
    words = "gather_at: array and index must share (batch, channels); got (1, 2, 4) and (1, 1, 2); "
    with pytest.raises(ValueError) as error:
        gather_at(np.zeros((1, 2, 4)), idx)
    assert str(error.value) == words + "use the index of this input"
    with pytest.raises(TypeError, match="gather_at: indices are int64; got float64"):
        gather_at(np.zeros((1, 1, 4)), np.zeros((1, 1, 2)))
