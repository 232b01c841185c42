"""Window geometry: closed formulas equal counting, tables equal membership, every error in its words."""

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lean_nn import window
from lean_nn.spec import geometry
from lean_nn.spec.conv_geometry import conv_transpose_shape
from lean_nn.window import Bins, Window, conv_spatial, conv_window, strided, transposed_spatial

PADS = st.integers(0, 6)
axis = st.tuples(st.integers(0, 12), st.integers(1, 5), st.integers(1, 4), PADS, PADS, st.integers(1, 3))
INTEGER = "must be an integer; got {!r}; use an int or a tuple of ints"


def window_of(axes, ceil_mode):
    n, k, s, a, b, r = zip(*axes, strict=True)
    return n, Window(k, s, tuple(zip(a, b, strict=True)), r, ceil_mode)


def result_or_error(f, *args):
    try:
        return f(*args)
    except ValueError as error:
        return str(error)


@given(st.lists(axis, min_size=1, max_size=4), st.booleans())
@settings(max_examples=400, deadline=None)
def test_closed_sizes_equal_counted_ones_and_errors_are_the_same(axes, ceil_mode):
    n, w = window_of(axes, ceil_mode)
    counted = result_or_error(
        geometry.out_spatial, "pool", n, w.kernel, w.stride, w.padding, w.dilation, ceil_mode
    )
    assert result_or_error(w.out_spatial, n, "pool") == counted


@given(st.lists(axis, min_size=1, max_size=3), st.booleans())
@settings(max_examples=300, deadline=None)
def test_strided_tables_list_the_real_cells(axes, ceil_mode):
    spatial, w = window_of(axes, ceil_mode)
    try:
        out = w.out_spatial(spatial)
    except ValueError:
        return
    for a, t in enumerate(w.tables(spatial)):
        n, k, s, r = spatial[a], w.kernel[a], w.stride[a], w.dilation[a]
        before, after = w.padding[a]
        assert len(t.first) == out[a] and t.stride == s
        for p in range(out[a]):
            cells = [p * s - before + i * r for i in range(k)]
            real = [q for q in cells if 0 <= q < n]
            assert [t.first[p] + r * i for i in range(t.count[p])] == real
            assert t.divisor[p] == sum(q < n + after for q in cells)
            for j in range(n):
                listed = t.low[j] <= p < t.high[j] and (j - t.begin[p]) % t.step == 0
                assert listed == (j in real)


@given(st.lists(st.tuples(st.integers(1, 15), st.integers(1, 20) | st.none()), min_size=1, max_size=3))
@settings(max_examples=200, deadline=None)
def test_adaptive_tables_list_the_bins(axes):
    spatial, output = zip(*axes, strict=True)
    bins = Bins(output)
    out = bins.out_spatial(spatial)
    assert out == tuple(n if o is None else o for n, o in axes)
    for n, m, t in zip(spatial, out, bins.tables(spatial), strict=True):
        for p in range(m):
            low, high = geometry.adaptive_start(n, m, p), geometry.adaptive_end(n, m, p)
            assert (t.first[p], t.first[p] + t.count[p], t.divisor[p]) == (low, high, high - low)
            for j in range(n):
                assert (t.low[j] <= p < t.high[j]) == (low <= j < high)
        if t.stride:
            assert list(t.first) == [t.first[0] + t.stride * p for p in range(m)]
            assert set(t.count) == {t.kernel}


def test_packed_tables_are_the_axis_tables_in_a_row():
    w = strided("max_pool", 2, (3, 2), 2, 1)
    packed = w.packed((5, 4))
    assert packed.axes.tolist() == [5, 3, 1, 2, -1, 3, 4, 3, 1, 2, -1, 2]
    tables = w.tables((5, 4))
    outputs = [column for t in tables for column in (t.first, t.count, t.divisor, t.begin)]
    np.testing.assert_array_equal(packed.outputs, np.concatenate(outputs))
    inputs = [column for t in tables for column in (t.low, t.high)]
    np.testing.assert_array_equal(packed.inputs, np.concatenate(inputs))
    assert w.packed((5, 4)) is packed and not packed.axes.flags.writeable


def test_large_adaptive_axes_do_not_overflow():
    big = 2**50
    scaled = window._scaled(np.array([0, 1, big - 1]), big, big + 1)
    assert scaled.tolist() == [0, 0, (big - 1) * big // (big + 1)]


@given(st.lists(axis, min_size=1, max_size=3), st.lists(st.integers(0, 4), min_size=3, max_size=3))
@settings(max_examples=300, deadline=None)
def test_transposed_sizes_equal_the_specs_and_invert_convolution(axes, extra):
    n, w = window_of(axes, False)
    e = tuple(extra[: len(n)])
    shape = ("t", (1, 1, *n), (1, 1, *w.kernel), None, w.stride, w.padding, e, w.dilation, 1)
    expected = result_or_error(lambda: conv_transpose_shape(*shape)[2:])
    got = result_or_error(transposed_spatial, "t", n, w.kernel, w.stride, w.padding, w.dilation, e)
    assert got == expected
    if not isinstance(got, str) and all(v < s for v, s in zip(e, w.stride, strict=True)):
        try:
            assert conv_spatial("c", got, w.kernel, w.stride, w.padding, w.dilation) == n
        except ValueError:
            assert 0 in n  # no input cell: the adjoint's input is smaller than a window


def test_windows_are_values():
    assert strided("p", 1, 2) == strided("p", 1, [2], [2])
    assert hash(strided("p", 1, 2)) == hash(strided("p", 1, [2]))
    assert strided("p", 3, np.int64(2)).kernel == (2, 2, 2)
    assert conv_window("c", (3,), padding="valid").padding == ((0, 0),)
    assert Bins((2, None)).rank == strided("p", 2, 1).rank == 2


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: strided("p", 2, 2.0), TypeError, "p: kernel " + INTEGER.format(2.0)),
        (lambda: strided("p", 2, True), TypeError, "p: kernel " + INTEGER.format(True)),
        (lambda: strided("p", 2, 2, "x"), TypeError, "p: stride " + INTEGER.format("x")),
        (
            lambda: strided("p", 2, (2, 2, 2)),
            ValueError,
            "p: kernel needs one entry per spatial axis; got (2, 2, 2) for 2 spatial axes; "
            "give 2 entries or one int",
        ),
        (
            lambda: strided("p", 1, 2, 2, [(1, 1, 1)]),
            ValueError,
            "p: padding of an axis is an int or (before, after); got (1, 1, 1); give two entries",
        ),
        (
            lambda: strided("max_pool", 2, 3, dilation=2).out_spatial((4, 6), "max_pool"),
            ValueError,
            "max_pool: kernel (3, 3) with dilation (2, 2) spans (5, 5), larger than padded input (4, 6) "
            "on spatial axis 0; reduce kernel or dilation, or add padding",
        ),
        (
            lambda: strided("p", 1, 0).out_spatial((4,), "p"),
            ValueError,
            "p: kernel must be at least 1; got (0,); use integers >= 1",
        ),
        (
            lambda: strided("p", 1, 1, 0).out_spatial((4,), "p"),
            ValueError,
            "p: stride must be at least 1; got (0,); use integers >= 1",
        ),
        (
            lambda: strided("p", 1, 1, 1, -1).out_spatial((4,), "p"),
            ValueError,
            "p: padding must not be negative; got ((-1, -1),); use integers >= 0, or slice the input",
        ),
        (
            lambda: strided("p", 1, 10**30).out_spatial((4,), "p"),
            ValueError,
            f"p: kernel must not exceed {geometry.MAX_ELEMENTS}; got ({10**30},); use smaller sizes",
        ),
        (
            lambda: strided("p", 1, 1, 1, 2**60 - 1).out_spatial((4,), "p"),
            ValueError,
            f"p: padded input must not exceed {geometry.MAX_ELEMENTS} elements; got shape ({2**61 + 2},); "
            "use smaller sizes",
        ),
        (
            lambda: Bins((0,)).out_spatial((4,), "p"),
            ValueError,
            "p: output_size must be at least 1; got (0,); use integers >= 1",
        ),
        (
            lambda: Bins((2,)).out_spatial((0,), "p"),
            ValueError,
            "p: spatial axes must not be empty; got spatial shape (0,); give at least one cell per axis",
        ),
        (
            lambda: conv_window("c", (3,), stride=2, padding="same"),
            ValueError,
            'c: padding "same" needs stride 1; got stride (2,); give the padding as ints',
        ),
        (
            lambda: conv_window("c", (3,), padding="full"),
            ValueError,
            "c: padding names are \"same\" and \"valid\"; got 'full'; use one of them or ints",
        ),
        (
            lambda: transposed_spatial("t", (1,), (1,), (1,), ((2, 2),), (1,), (0,)),
            ValueError,
            "t: output must have at least one cell per axis; got spatial shape (-3,) from input (1,); "
            "reduce padding or enlarge input or kernel",
        ),
        (
            lambda: transposed_spatial("t", (4,), (3,), (2,), ((0, 0),), (1,), (2,)),
            ValueError,
            "t: output_padding must be smaller than stride or dilation; got (2,) for stride (2,) and "
            "dilation (1,); use a smaller one",
        ),
    ],
)
def test_errors_say_rule_values_and_remedy(call, kind, words):
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == words


def test_examples_in_docstrings():
    assert doctest.testmod(window).failed == 0
