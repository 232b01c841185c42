"""The seed map: each of the 91 names is served, and each serving object is called on data with a known result."""

from __future__ import annotations

import math
from fractions import Fraction as Q
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from lean_nn.graph import GraphBuilder
from lean_nn.spec import SEED_NAMES

NAMES = (Path(__file__).parents[1] / "seed_names.txt").read_text().split()
GRAPH = [f"Runtime.Autograd.Compiled.GraphM.{name}" for name in ("conv", "conv2d", "convTranspose", "convTranspose2d")]
ROW, KERNEL_DOT, BIAS, BIAS_DOT = [[1, 2, 3]], [[[0, 1]]], [100], [5]

IMAGE = [[Q(1), Q(5), Q(2)], [Q(7), Q(3), Q(8)], [Q(4), Q(9), Q(6)]]  # not monotone: no cell is always the winner
TANGENT = [[Q(10), Q(20), Q(30)], [Q(40), Q(50), Q(60)], [Q(70), Q(80), Q(90)]]
COTANGENT = [[Q(1), Q(2)], [Q(3), Q(4)]]
MAX, MAX_DOT = [[7, 8], [9, 9]], [[40, 60], [80, 80]]
MAX_BAR = [[0, 0, 0], [1, 0, 2], [0, 7, 0]]
MEAN = [[4, Q(9, 2)], [Q(23, 4), Q(13, 2)]]
MEAN_BAR = [[Q(1, 4), Q(3, 4), Q(1, 2)], [1, Q(5, 2), Q(3, 2)], [Q(3, 4), Q(7, 4), 1]]
PADDED_MAX, PADDED_DOT = [[1, 5], [7, 9]], [[10, 20], [40, 80]]
PADDED_BAR = [[1, 2, 0], [3, 0, 0], [0, 4, 0]]
PADDED_MEAN = [[Q(1, 4), Q(7, 4)], [Q(11, 4), Q(13, 2)]]
PADDED_MEAN_BAR = [[Q(1, 4), Q(1, 2), Q(1, 2)], [Q(3, 4), 1, 1], [Q(3, 4), 1, 1]]

# Two cells 0 and log 3, β = 1: y = log(1 + 3), weights 1/4 and 3/4.
SMOOTH = [[0.0, math.log(3)]]
SMOOTH_VALUE, SMOOTH_DOT, SMOOTH_BAR = [[math.log(4)]], [[0.25 * 8 + 0.75 * 4]], [[0.5, 1.5]]
SMOOTH_TANGENT, SMOOTH_COTANGENT = [[8.0, 4.0]], [[2.0]]


def resolve(name: str):
    """The object of a dotted name: attributes first, since a function may have the name of its module."""
    first, *rest = SEED_NAMES[name].split(".")
    found, path = import_module(first), first
    for part in rest:
        path = f"{path}.{part}"
        found = getattr(found, part) if hasattr(found, part) else import_module(path)
    return found


def plain(value):
    """Lists of numbers, whatever kind of array it was."""
    value = value.numpy() if hasattr(value, "numpy") else value
    return value.tolist() if isinstance(value, np.ndarray) else value


def nested(check, got, want):
    if isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            nested(check, g, w)
    else:
        assert check(got, want)


def equal(got, want):
    nested(lambda g, w: g == w, plain(got), want)


def near(got, want):
    nested(lambda g, w: math.isclose(g, w, rel_tol=1e-12, abs_tol=1e-12), plain(got), want)


def max2d(kernel=2, stride=1):
    return resolve("Spec.MaxPool2DSpec")(kernel, kernel, stride)


def avg2d(kernel=2, stride=1):
    return resolve("Spec.AvgPool2DSpec")(kernel, kernel, stride)


def max_nd(stride=1, padding=0):
    return resolve("Spec.MaxPoolSpec")((2, 2), (stride,) * 2, (padding,) * 2)


def avg_nd(stride=1, padding=0):
    return resolve("Spec.AvgPoolSpec")((2, 2), (stride,) * 2, (padding,) * 2)


def smooth2d():
    return resolve("Spec.MaxPool2DSpec")(1, 2, 1)


def smooth_nd():
    return resolve("Spec.MaxPoolSpec")((1, 2), (1, 1), (0, 0))


def floats(x):
    return np.asarray(x, dtype=float)


def conv_args():
    """One channel 1 2 3 as (1, 3), weight 1 10, bias 100."""
    return floats([[1, 2, 3]]), floats([[[1, 10]]]), floats([100])


def conv2d_args():
    return floats([IMAGE]), floats([[[[1, 0], [0, 10]]]]), floats([100])


def in_graph(method, kernel, bias, x, dots, y_bar, want, **options):
    """A builder's node, compiled: (value, tangent, cotangents of kernel, bias and input)."""
    arrays = [floats(kernel), floats(bias), floats(x)]
    g = GraphBuilder()
    program = g.compile(method(g, *(g.input(a.shape, "float64") for a in arrays), **options))
    y, y_dot = program.jvp(arrays, [floats(dot) for dot in dots])
    again, bars = program.vjp(arrays, floats(y_bar))
    equal([plain(program(*arrays)), plain(y), plain(again)], [want[0]] * 3)
    equal([plain(y_dot), *map(plain, bars)], list(want[1:]))


WINDOW = ([2, 2], [1, 1], [0, 0])  # kernel, stride, padding
PADDED = ([2, 2], [2, 2], [1, 1])
SMOOTH_WINDOW = ([1, 2], [1, 1], [0, 0])

CHECKS = {
    # --- configurations and shapes ---
    "Spec.MaxPool2DSpec": lambda f: equal([f(2, 3, 1).kernel_height, f(2, 3, 1).kernel_width], [2, 3]),
    "Spec.AvgPool2DSpec": lambda f: equal([f(2, 3, 1).kernel_width, f(2, 3, 1).stride], [3, 1]),
    "Spec.AdaptiveAvgPool2DSpec": lambda f: equal([f(2, 3).output_height, f(2, 3).output_width], [2, 3]),
    "Spec.AdaptiveMaxPool2DSpec": lambda f: equal([f(2, 3).output_height, f(2, 3).output_width], [2, 3]),
    "Spec.MaxPoolSpec": lambda f: equal([*f((2,), (3,), (1,)).kernel_sizes, *f((2,), (3,), (1,)).stride_sizes], [2, 3]),
    "Spec.AvgPoolSpec": lambda f: equal([*f((2,), (3,), (1,)).padding_sizes], [1]),
    "Spec.poolOutSpatial": lambda f: equal(list(f((7, 5), (3, 2), (2, 1))), [3, 4]),
    "Spec.poolOutSpatialPad": lambda f: equal(list(f((7, 5), (3, 2), (2, 1), (1, 0))), [4, 4]),
    "Spec.poolOutShape": lambda f: equal(list(f((7, 5), (3, 2), (2, 1))), [3, 4]),
    "Spec.poolOutShapePad": lambda f: equal(list(f((7, 5), (3, 2), (2, 1), (1, 0))), [4, 4]),
    "Spec.poolMultiOutShape": lambda f: equal(list(f(6, (7, 5), (3, 2), (2, 1))), [6, 3, 4]),
    "Spec.poolMultiOutShapePad": lambda f: equal(list(f(6, (7, 5), (3, 2), (2, 1), (1, 0))), [6, 4, 4]),
    "Spec.pool2dOutShape": lambda f: equal(list(f(7, 5, 3, 2, 2)), [3, 2]),
    "Spec.pool2dOutShapePad": lambda f: equal(list(f(7, 5, 3, 2, 2, 1)), [4, 3]),
    "Spec.pool2dMultiOutShape": lambda f: equal(list(f(6, 7, 5, 3, 2, 2)), [6, 3, 2]),
    "Spec.pool2dMultiOutShapePad": lambda f: equal(list(f(6, 7, 5, 3, 2, 2, 1)), [6, 4, 3]),
    "Spec.adaptiveStart": lambda f: equal([f(7, 3, i) for i in range(3)], [0, 2, 4]),
    "Spec.adaptiveEnd": lambda f: equal([f(7, 3, i) for i in range(3)], [3, 5, 7]),
    "Spec.unpadImage": lambda f: equal(f(IMAGE, 1), [[3]]),
    "Spec.unpadMultiChannel": lambda f: equal(f([IMAGE, TANGENT], 1), [[[3]], [[50]]]),
    # --- one window ---
    "Spec.Private.tensorOfDims": lambda f: equal(f((2, 2), lambda i: 10 * i[0] + i[1]), [[0, 1], [10, 11]]),
    "Spec.Private.foldlIndices'": lambda f: equal(f((2, 2), "", lambda s, i: f"{s}{i[0]}{i[1]} "), "00 01 10 11 "),
    "Spec.Private.paddedCoords?": lambda f: equal([*f((2, 1), (0, 1), (3, 2)), f((1,), (0, 0), (1, 1))], [6, 3, None]),
    "Spec.Private.unpadCoords?": lambda f: equal([*f((2, 1), (1, 1)), f((0, 1), (1, 1))], [1, 0, None]),
    "Spec.Private.getPaddedAverageInputVal": lambda f: equal(
        [f(IMAGE, (0, 0), (1, 1), (2, 2), (1, 1)), f(IMAGE, (0, 0), (0, 1), (2, 2), (1, 1))], [1, 0]),
    "Spec.Private.getPaddedMaxInputVal?": lambda f: equal(
        [f(IMAGE, (0, 0), (1, 1), (2, 2), (1, 1)), f(IMAGE, (0, 0), (0, 1), (2, 2), (1, 1))], [1, None]),
    "Spec.Private.maxPoolValue": lambda f: equal([f(IMAGE, (0, 1), *WINDOW), f(IMAGE, (1, 0), *PADDED)], [8, 7]),
    "Spec.Private.maxPoolJvpValue": lambda f: equal(
        [f(IMAGE, TANGENT, (0, 1), *WINDOW), f(IMAGE, TANGENT, (1, 0), *PADDED)], [60, 40]),
    "Spec.Private.avgPoolValue": lambda f: equal(
        [f(IMAGE, (0, 1), *WINDOW), f(IMAGE, (1, 0), *PADDED)], [Q(9, 2), Q(11, 4)]),
    "Spec.Private.smoothMaxPoolValue": lambda f: near(f(1.0, SMOOTH, (0, 0), *SMOOTH_WINDOW), math.log(4)),
    "Spec.Private.smoothMaxPoolJvpValue": lambda f: near(f(1.0, SMOOTH, SMOOTH_TANGENT, (0, 0), *SMOOTH_WINDOW), 5.0),
    # --- 2-D ---
    "Spec.maxPool2dSpec": lambda f: equal(f(max2d(), IMAGE), MAX),
    "Spec.maxPool2dJvpSpec": lambda f: equal(f(max2d(), IMAGE, TANGENT), MAX_DOT),
    "Spec.maxPool2dBackwardSpec": lambda f: equal(f(max2d(), IMAGE, COTANGENT), MAX_BAR),
    "Spec.maxPool2dMultiSpec": lambda f: equal(f(max2d(), [IMAGE, IMAGE]), [MAX, MAX]),
    "Spec.maxPool2dMultiJvpSpec": lambda f: equal(f(max2d(), [IMAGE], [TANGENT]), [MAX_DOT]),
    "Spec.maxPool2dMultiBackwardSpec": lambda f: equal(f(max2d(), [IMAGE], [COTANGENT]), [MAX_BAR]),
    "Spec.maxPool2dMultiSpecPad": lambda f: equal(f(max2d(stride=2), 1, [IMAGE]), [PADDED_MAX]),
    "Spec.maxPool2dMultiJvpSpecPad": lambda f: equal(f(max2d(stride=2), 1, [IMAGE], [TANGENT]), [PADDED_DOT]),
    "Spec.maxPool2dMultiBackwardSpecPad": lambda f: equal(f(max2d(stride=2), 1, [IMAGE], [COTANGENT]), [PADDED_BAR]),
    "Spec.avgPool2dSpec": lambda f: equal(f(avg2d(), IMAGE), MEAN),
    "Spec.avgPool2dBackwardSpec": lambda f: equal(f(avg2d(), COTANGENT, (3, 3)), MEAN_BAR),
    "Spec.avgPool2dMultiSpec": lambda f: equal(f(avg2d(), [IMAGE]), [MEAN]),
    "Spec.avgPool2dMultiSpecPad": lambda f: equal(f(avg2d(stride=2), 1, [IMAGE]), [PADDED_MEAN]),
    "Spec.avgPool2dMultiBackwardSpecPad": lambda f: equal(
        f(avg2d(stride=2), 1, [COTANGENT], (3, 3)), [PADDED_MEAN_BAR]),
    "Spec.smoothMaxPool2dSpec": lambda f: near(f(smooth2d(), 1.0, SMOOTH), SMOOTH_VALUE),
    "Spec.smoothMaxPool2dJvpSpec": lambda f: near(f(smooth2d(), 1.0, SMOOTH, SMOOTH_TANGENT), SMOOTH_DOT),
    "Spec.smoothMaxPool2dBackwardSpec": lambda f: near(f(smooth2d(), 1.0, SMOOTH, SMOOTH_COTANGENT), SMOOTH_BAR),
    "Spec.smoothMaxPool2dMultiSpec": lambda f: near(f(smooth2d(), 1.0, [SMOOTH]), [SMOOTH_VALUE]),
    "Spec.smoothMaxPool2dMultiJvpSpec": lambda f: near(f(smooth2d(), 1.0, [SMOOTH], [SMOOTH_TANGENT]), [SMOOTH_DOT]),
    "Spec.smoothMaxPool2dMultiBackwardSpec": lambda f: near(
        f(smooth2d(), 1.0, [SMOOTH], [SMOOTH_COTANGENT]), [SMOOTH_BAR]),
    "Spec.adaptiveAvgPool2dSpec": lambda f: equal(
        f(resolve("Spec.AdaptiveAvgPool2DSpec")(2, 1), [IMAGE]), [[[Q(26, 6)], [Q(37, 6)]]]),
    "Spec.adaptiveMaxPool2dSpec": lambda f: equal(
        f(resolve("Spec.AdaptiveMaxPool2DSpec")(2, 1), [IMAGE]), [[[8], [9]]]),
    # --- N-D ---
    "Spec.maxPoolSpatialSpec": lambda f: equal(f(max_nd(), IMAGE), MAX),
    "Spec.maxPoolSpatialJvpSpec": lambda f: equal(f(max_nd(), IMAGE, TANGENT), MAX_DOT),
    "Spec.maxPoolSpatialBackwardSpec": lambda f: equal(f(max_nd(), IMAGE, COTANGENT), MAX_BAR),
    "Spec.avgPoolSpatialSpec": lambda f: equal(f(avg_nd(), IMAGE), MEAN),
    "Spec.avgPoolSpatialBackwardSpec": lambda f: equal(f(avg_nd(), COTANGENT, (3, 3)), MEAN_BAR),
    "Spec.smoothMaxPoolSpatialSpec": lambda f: near(f(smooth_nd(), 1.0, SMOOTH), SMOOTH_VALUE),
    "Spec.smoothMaxPoolSpatialJvpSpec": lambda f: near(f(smooth_nd(), 1.0, SMOOTH, SMOOTH_TANGENT), SMOOTH_DOT),
    "Spec.smoothMaxPoolSpatialBackwardSpec": lambda f: near(f(smooth_nd(), 1.0, SMOOTH, SMOOTH_COTANGENT), SMOOTH_BAR),
    "Spec.maxPoolSpec": lambda f: equal(f(max_nd(2, 1), [IMAGE]), [PADDED_MAX]),
    "Spec.maxPoolJvpSpec": lambda f: equal(f(max_nd(2, 1), [IMAGE], [TANGENT]), [PADDED_DOT]),
    "Spec.maxPoolBackwardSpec": lambda f: equal(f(max_nd(2, 1), [IMAGE], [COTANGENT]), [PADDED_BAR]),
    "Spec.avgPoolSpec": lambda f: equal(f(avg_nd(2, 1), [IMAGE]), [PADDED_MEAN]),
    "Spec.avgPoolBackwardSpec": lambda f: equal(f(avg_nd(2, 1), [COTANGENT], (3, 3)), [PADDED_MEAN_BAR]),
    "Spec.smoothMaxPoolSpec": lambda f: near(f(smooth_nd(), 1.0, [SMOOTH]), [SMOOTH_VALUE]),
    "Spec.smoothMaxPoolJvpSpec": lambda f: near(f(smooth_nd(), 1.0, [SMOOTH], [SMOOTH_TANGENT]), [SMOOTH_DOT]),
    "Spec.smoothMaxPoolBackwardSpec": lambda f: near(f(smooth_nd(), 1.0, [SMOOTH], [SMOOTH_COTANGENT]), [SMOOTH_BAR]),
    "Spec.maxPool": lambda f: equal(f(max_nd(), [IMAGE]), [MAX]),
    "Spec.maxPoolBackward": lambda f: equal(f(max_nd(), [IMAGE], [COTANGENT]), [MAX_BAR]),
    "Spec.avgPool": lambda f: equal(f(avg_nd(), [IMAGE]), [MEAN]),
    "Spec.avgPoolBackward": lambda f: equal(f(avg_nd(), [COTANGENT], (3, 3)), [MEAN_BAR]),
    "Spec.smoothMaxPool": lambda f: near(f(smooth_nd(), 1.0, [SMOOTH]), [SMOOTH_VALUE]),
    "Spec.smoothMaxPoolBackward": lambda f: near(f(smooth_nd(), 1.0, [SMOOTH], [SMOOTH_COTANGENT]), [SMOOTH_BAR]),
    # --- the tape's rows: the user-facing functions, on one sample ---
    "Runtime.Autograd.Tape.conv": lambda f: equal(f(*conv_args()), [[121, 132]]),
    "Runtime.Autograd.Tape.conv2d": lambda f: equal(f(*conv2d_args()), [[[131, 185], [197, 163]]]),
    "Runtime.Autograd.Tape.convTranspose": lambda f: equal(f(*conv_args()), [[101, 112, 123, 130]]),
    "Runtime.Autograd.Tape.convTranspose2d": lambda f: equal(
        f(floats([[[1, 2]]]), floats([[[[1, 10]]]]), floats([100]), stride=2), [[[101, 110, 102, 120]]]),
    "Runtime.Autograd.Tape.maxPool": lambda f: equal(f(floats([IMAGE]), (2, 2), 2, 1), [PADDED_MAX]),
    "Runtime.Autograd.Tape.maxPool2d": lambda f: equal(f(floats([IMAGE]), 2, 1), [MAX]),
    "Runtime.Autograd.Tape.maxPool2dPad": lambda f: equal(f(floats([IMAGE]), 2, 2, padding=1), [PADDED_MAX]),
    "Runtime.Autograd.Tape.avgPool": lambda f: equal(f(floats([IMAGE]), (2, 2), 2, 1), [PADDED_MEAN]),
    "Runtime.Autograd.Tape.avgPool2d": lambda f: equal(f(floats([IMAGE]), 2, 1), [MEAN]),
    "Runtime.Autograd.Tape.avgPool2dPad": lambda f: equal(f(floats([IMAGE]), 2, 2, padding=1), [PADDED_MEAN]),
    "Runtime.Autograd.Tape.smoothMaxPool": lambda f: near(f(floats([SMOOTH]), (1, 2), 1.0, 1), [SMOOTH_VALUE]),
    "Runtime.Autograd.Tape.smoothMaxPool2d": lambda f: near(f(floats([SMOOTH]), (1, 2), 1.0, 1), [SMOOTH_VALUE]),
    # --- the graph's rows: a node of a builder, compiled, with both derivatives ---
    GRAPH[0]: lambda f: in_graph(
        f, [[[1, 10]]], BIAS, ROW, (KERNEL_DOT, BIAS_DOT, [[1, 0, 0]]), [[1, 2]],
        ([[121, 132]], [[8, 8]], [[[5, 8]]], [3], [[1, 12, 20]])),
    GRAPH[1]: lambda f: in_graph(
        f, [[[[1, 0], [0, 10]]]], BIAS, [IMAGE], ([[[[0, 0], [0, 0]]]], [0], [TANGENT]), [COTANGENT],
        ([[[131, 185], [197, 163]]], [[[510, 620], [840, 950]]], [[[[44, 50], [61, 70]]]], [10],
         [[[1, 2, 0], [3, 14, 20], [0, 30, 40]]])),
    GRAPH[2]: lambda f: in_graph(
        f, [[[1, 10]]], BIAS, ROW, (KERNEL_DOT, BIAS_DOT, [[1, 0, 0]]), [[1, 2, 3, 4]],
        ([[101, 112, 123, 130]], [[6, 16, 7, 8]], [[[14, 20]]], [10], [[21, 32, 43]])),
    GRAPH[3]: lambda f: in_graph(
        f, [[[[1, 10]]]], BIAS, [[[1, 2]]], ([KERNEL_DOT], BIAS_DOT, [[[1, 0]]]), [[[1, 2, 3, 4]]],
        ([[[101, 110, 102, 120]]], [[[6, 16, 5, 7]]], [[[[7, 10]]]], [10], [[[21, 43]]]), stride=2),
}  # fmt: skip


def test_the_map_has_exactly_the_91_names():
    assert len(NAMES) == len(set(NAMES)) == 91
    assert sorted(SEED_NAMES) == sorted(NAMES)


def test_every_name_has_its_check():
    assert sorted(CHECKS) == sorted(NAMES)


def test_every_layer_has_its_place():
    for name, target in SEED_NAMES.items():
        layer = "graph.GraphBuilder" if "GraphM" in name else "functional" if ".Tape." in name else "spec"
        assert target.startswith(f"lean_nn.{layer}.")


@pytest.mark.parametrize("name", CHECKS)
def test_each_name_is_served(name):
    CHECKS[name](resolve(name))
