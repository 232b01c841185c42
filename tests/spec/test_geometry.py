"""Window geometry: sizes by hand, every error text, coordinates."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from lean_nn import spec
from lean_nn.spec import conv_geometry, geometry
from lean_nn.spec.windows import Cells, Strided, as_strided

MAX = (2**63 - 1) // 8


def says(error: type[Exception], text: str):
    return pytest.raises(error, match="^" + re.escape(text) + "$")


@pytest.mark.parametrize(
    ("n", "k", "s", "pad", "r", "ceil", "starts"),
    [
        (5, 2, 2, (0, 0), 1, False, [0, 2]),
        (5, 2, 2, (0, 0), 1, True, [0, 2, 4]),
        (6, 3, 2, (1, 1), 1, False, [0, 2, 4]),
        (5, 3, 2, (0, 0), 2, False, [0]),
        (6, 3, 2, (0, 0), 2, True, [0, 2]),
        (1, 1, 2, (1, 1), 1, False, [0, 2]),
        (1, 1, 2, (1, 1), 1, True, [0]),  # the window at 2 would start in the trailing padding
        (2, 3, 2, (0, 0), 1, True, [0]),  # sticks out by less than a stride
        (3, 1, 1, (0, 0), 1, False, [0, 1, 2]),
    ],
)
def test_window_starts(n, k, s, pad, r, ceil, starts):
    assert list(geometry.window_starts(n, k, s, pad, r, ceil)) == starts
    assert geometry.out_spatial("op", (n,), (k,), (s,), (pad,), (r,), ceil) == (len(starts),)


def window(**changes):
    fields = {
        "in_spatial": (4, 6), "kernel": (3, 3), "stride": (1, 1), "pads": ((0, 0), (0, 0)), "dilation": (1, 1),
    }  # fmt: skip
    return {**fields, **changes}


WINDOW_ERRORS = [
    (
        {"dilation": (2, 2)},
        "max_pool: kernel (3, 3) with dilation (2, 2) spans (5, 5), larger than padded input (4, 6) on spatial axis 0; "
        "reduce kernel or dilation, or add padding",
    ),
    ({"kernel": (0, 3)}, "max_pool: kernel must be at least 1; got (0, 3); use integers >= 1"),
    ({"stride": (1, -1)}, "max_pool: stride must be at least 1; got (1, -1); use integers >= 1"),
    ({"dilation": (0, 1)}, "max_pool: dilation must be at least 1; got (0, 1); use integers >= 1"),
    (
        {"pads": ((0, -1), (0, 0))},
        "max_pool: padding must not be negative; got ((0, -1), (0, 0)); use integers >= 0, or slice the input",
    ),
    (
        {"stride": (1,)},
        "max_pool: stride needs one entry per spatial axis; got (1,) for 2 spatial axes; give 2 entries or one int",
    ),
    (
        {"stride": (2**70, 1)},
        f"max_pool: stride must not exceed {MAX}; got ({2**70}, 1); use smaller sizes",
    ),
    (
        {"pads": ((2**70, 0), (0, 0))},
        f"max_pool: padding must not exceed {MAX}; got (({2**70}, 0), (0, 0)); use smaller sizes",
    ),
    (
        {"pads": ((2**40, 0), (2**40, 0))},
        f"max_pool: padded input must not exceed {MAX} elements; got shape ({2**40 + 4}, {2**40 + 6}); "
        "use smaller sizes",
    ),
]


@pytest.mark.parametrize(("changes", "text"), WINDOW_ERRORS)
def test_window_errors(changes, text):
    with says(ValueError, text):
        geometry.check_window("max_pool", **window(**changes))


def test_window_larger_than_ceil_allows():
    with pytest.raises(ValueError, match="spans"):
        geometry.check_window("max_pool", (1,), (3,), (2,), ((0, 0),), (1,), True)
    geometry.check_window("max_pool", (2,), (3,), (2,), ((0, 0),), (1,), True)


ARGUMENT_ERRORS = [
    (lambda: geometry.per_axis("f", "stride", 1.5, 2), TypeError,
     "f: stride must be an integer; got 1.5; use an int or a tuple of ints"),
    (lambda: geometry.per_axis("f", "stride", (1, True), 2), TypeError,
     "f: stride must be an integer; got True; use an int or a tuple of ints"),
    (lambda: geometry.pad_pairs("f", ((1, 2, 3), 0), 2), ValueError,
     "f: padding of an axis is an int or (before, after); got (1, 2, 3); give two entries"),
    (lambda: geometry.pad_pairs("f", "full", 2), TypeError,
     "f: padding must be an integer; got 'full'; use an int or a tuple of ints"),
    (lambda: geometry.named_padding("f", "full", (3,), (1,), (1,)), ValueError,
     "f: padding names are \"same\" and \"valid\"; got 'full'; use one of them or ints"),
    (lambda: geometry.named_padding("f", "same", (3,), (2,), (1,)), ValueError,
     'f: padding "same" needs stride 1; got stride (2,); give the padding as ints'),
    (lambda: geometry.check_pool_rank("f", (4,), 2), ValueError,
     "f: input must be (*spatial), (channels, *spatial) or (batch, channels, *spatial) with 2 spatial axes; "
     "got shape (4,); reshape it or change the kernel"),
    (lambda: geometry.check_adaptive("f", (4, 0), (1, 1)), ValueError,
     "f: spatial axes must not be empty; got spatial shape (4, 0); give at least one cell per axis"),
    (lambda: geometry.check_adaptive("f", (4, 4), (0, 1)), ValueError,
     "f: output_size must be at least 1; got (0, 1); use integers >= 1"),
    (lambda: geometry.check_adaptive("f", (4, 4), (1,)), ValueError,
     "f: output_size needs one entry per spatial axis; got (1,) for 2 spatial axes; give 2 entries or one int"),
    (lambda: geometry.check_divisor("f", 0), ValueError,
     "f: divisor_override must not be 0; got 0; use a non-zero int or None"),
    (lambda: geometry.check_same_shape("f", "tangent", (2,), (3,)), ValueError,
     "f: tangent must have shape (3,); got (2,); reshape or recompute it"),
    (lambda: geometry.check_elements("f", (2**40, 2**40)), ValueError,
     f"f: output must not exceed {MAX} elements; got shape ({2**40}, {2**40}); use smaller sizes"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), ARGUMENT_ERRORS)
def test_argument_errors(call, error, text):
    with says(error, text):
        call()


@pytest.mark.parametrize("beta", [0, 0.0, float("nan"), float("inf"), -float("inf")])
def test_beta_errors(beta):
    text = (
        f"smooth_max_pool: beta must be finite and not 0; got {beta}; use beta > 0 for a smooth maximum, "
        "beta < 0 for a smooth minimum"
    )
    with says(ValueError, text):
        spec.smooth_max_pool([1.0, 2.0], beta, window=as_strided("f", (2,)))


def x(*shape):
    return np.zeros(shape, dtype=object)


CONV_ERRORS = [
    (lambda: spec.conv(x(1, 4, 5), x(2, 3, 3)),
     "conv: input channels must equal groups x weight channels; got 4 channels, groups 1, weight channels 3; "
     "change the weight or groups"),
    (lambda: spec.conv(x(1, 4, 5), x(3, 2, 3), groups=2),
     "conv: output channels must be a multiple of groups; got 3 output channels, groups 2; "
     "change the weight or groups"),
    (lambda: spec.conv(x(1, 4, 5), x(3, 2, 3), groups=0),
     "conv: groups must be an integer of at least 1; got 0; use 1 for no groups"),
    (lambda: spec.conv(x(1, 4, 5), x(3, 4, 3), x(2)),
     "conv: bias must have shape (3,), one entry per output channel; got (2,); reshape it or leave it out"),
    (lambda: spec.conv(x(1, 4, 5, 5), x(3, 4, 3)),
     "conv: input must be (batch, channels, *spatial) with 3 axes; got shape (1, 4, 5, 5); "
     "reshape it or change the weight"),
    (lambda: spec.conv(x(4), x(3)),
     "conv: weight must be (out_channels, in_channels / groups, *kernel); got shape (3,); reshape it"),
    (lambda: spec.conv(x(1, 4, 2), x(3, 4, 3)),
     "conv: kernel (3,) with dilation (1,) spans (3,), larger than padded input (2,) on spatial axis 0; "
     "reduce kernel or dilation, or add padding"),
    (lambda: spec.conv(x(1, 4, 2), x(3, 4, 0)), "conv: kernel must be at least 1; got (0,); use integers >= 1"),
    (lambda: spec.conv_input(x(1, 3, 3), x(3, 4, 3), spatial=(6,)),
     "conv_input: cotangent must have spatial shape (4,) for this geometry; got (3,); "
     "use the shape of the convolution's output"),
    (lambda: spec.conv_input(x(1, 2, 4), x(3, 4, 3), spatial=(6,)),
     "conv_input: cotangent channels must equal the weight's output channels; got 2 and 3; "
     "use the cotangent of this convolution"),
    (lambda: spec.conv_weight(x(1, 4, 6), x(2, 3, 4), kernel=(3,)),
     "conv_weight: input and cotangent must have the same batch size; got 1 and 2; use this input's cotangent"),
    (lambda: spec.conv_transpose(x(1, 2, 3), x(3, 2, 3)),
     "conv_transpose: input channels must equal the weight's input channels; got 2 and 3; change the weight"),
    (lambda: spec.conv_transpose(x(1, 3, 3), x(3, 2, 3), groups=2),
     "conv_transpose: input channels must be a multiple of groups; got 3 channels, groups 2; "
     "change the weight or groups"),
    (lambda: spec.conv_transpose(x(1, 3, 1), x(3, 2, 1), padding=1),
     "conv_transpose: output must have at least one cell per axis; got spatial shape (-1,) from input (1,); "
     "reduce padding or enlarge input or kernel"),
    (lambda: spec.conv_transpose(x(1, 3, 3), x(3, 2, 3), stride=2, output_padding=2),
     "conv_transpose: output_padding must be smaller than stride or dilation; got (2,) for stride (2,) and "
     "dilation (1,); use a smaller one"),
    (lambda: spec.unfold(x(1, 2, 3, 3), kernel=(2,)),
     "unfold: input must be (batch, channels, *spatial) with 3 axes; got shape (1, 2, 3, 3); "
     "reshape it or change the kernel"),
    (lambda: spec.fold(x(1, 3, 2), spatial=(3,), kernel=(2,)),
     "fold: columns must be (batch, channels x 2, windows); got shape (1, 3, 2); use unfold's layout"),
    (lambda: spec.fold(x(1, 4, 3), spatial=(3,), kernel=(2,)),
     "fold: columns must have shape (1, 4, 2); got (1, 4, 3); use unfold's layout"),
    (lambda: spec.conv_vjp(x(1, 3, 3), x(1, 4, 6), x(3, 4, 3)),
     "conv: cotangent must have shape (1, 3, 4); got (1, 3, 3); reshape or recompute it"),
    (lambda: spec.conv_jvp(x(1, 4, 6), x(3, 4, 3), None, x(1, 4, 5), None),
     "conv: tangent of x must have shape (1, 4, 6); got (1, 4, 5); reshape or recompute it"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), CONV_ERRORS)
def test_convolution_errors(call, text):
    with says(ValueError, text):
        call()


def test_sizes_that_overflow():
    huge = (1, 2**31, 2**20)
    with pytest.raises(ValueError, match=r"conv: output must not exceed \d+ elements; got shape"):
        conv_geometry.conv_shape("conv", huge, (2**62, 2**31, 1), None, (1,), ((0, 0),), (1,), 1)
    with pytest.raises(ValueError, match=r"conv_transpose: output must not exceed"):
        conv_geometry.conv_transpose_shape(
            "conv_transpose", (1, 1, 2**30), (1, 1, 1), None, (2**50,), ((0, 0),), (0,), (1,), 1
        )


def test_padded_and_unpadded_coordinates():
    assert geometry.padded_coords((2, 1), (0, 2), (3, 1), (1, 2)) == (6, 5)
    assert geometry.unpad_coords((1, 4), (1, 1)) == (0, 3)
    assert geometry.unpad_coords((0, 4), (1, 1)) is None
    assert geometry.unpad_coords((1, 4), (1, 1), (5, 3)) is None
    assert geometry.flat_index((1, 2, 3), (4, 5, 6)) == 45


def test_cells_of_a_window():
    cells = Cells("f", Strided((2, 2), (2, 2), ((1, 0), (0, 0)), (1, 1), True), (2, 3))
    assert cells.out == (2, 2)
    assert cells.of((0, 0)) == [None, None, (0, 0), (0, 1)]
    assert cells.of((1, 1)) == [(1, 2)]  # the rest is beyond the padded input
    assert cells.real((0, 0)) == [(0, 0), (0, 1)]


@pytest.mark.parametrize(("n", "out"), [(7, 3), (3, 7), (5, 5), (10, 4), (1, 3)])
def test_adaptive_bins_cover_the_axis(n, out):
    bins = [(geometry.adaptive_start(n, out, i), geometry.adaptive_end(n, out, i)) for i in range(out)]
    assert bins[0][0] == 0 and bins[-1][1] == n
    assert all(a < b for a, b in bins)
    assert all(b >= c for (_, b), (c, _) in itertools.pairwise(bins))
    assert bins == [(int(np.floor(i * n / out)), int(np.ceil((i + 1) * n / out))) for i in range(out)]
