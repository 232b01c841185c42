"""What the specification's tests share: exact random arrays, random geometry, inner products, a formal scalar."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np
from hypothesis import strategies as st

from lean_nn.spec import Dual
from lean_nn.spec.dual import tangent
from lean_nn.spec.windows import Adaptive, Strided

Q = Fraction


def fractions(rng: np.random.Generator, shape, few: bool = False) -> np.ndarray:
    """Random small Fractions; ``few`` distinct values make ties likely."""
    n = prod(shape)
    top = rng.integers(-2, 3, n) if few else rng.integers(-60, 61, n)
    bottom = np.ones(n, int) if few else rng.integers(1, 8, n)
    out = np.empty(n, dtype=object)
    out[:] = [Q(int(a), int(b)) for a, b in zip(top, bottom, strict=True)]
    return out.reshape(shape)


def dot(a, b):
    """``<a, b>``."""
    a, b = np.asarray(a, dtype=object), np.asarray(b, dtype=object)
    assert a.shape == b.shape
    return sum((p * q for p, q in zip(a.reshape(-1), b.reshape(-1), strict=True)), Q(0))


def duals(x, x_dot, level: int = 0) -> np.ndarray:
    """``x + ẋ ε`` elementwise."""
    x, x_dot = np.asarray(x, dtype=object), np.asarray(x_dot, dtype=object)
    out = np.empty(x.size, dtype=object)
    out[:] = [Dual(p, t, level) for p, t in zip(x.reshape(-1), x_dot.reshape(-1), strict=True)]
    return out.reshape(x.shape)


def tangents(y) -> np.ndarray:
    """The tangent of every element."""
    y = np.asarray(y, dtype=object)
    out = np.empty(y.size, dtype=object)
    out[:] = [tangent(v) for v in y.reshape(-1)]
    return out.reshape(y.shape)


def same(a, b) -> bool:
    """Equal shapes, and equal elements with ``==``."""
    a, b = np.asarray(a, dtype=object), np.asarray(b, dtype=object)
    return a.shape == b.shape and all(p == q for p, q in zip(a.reshape(-1), b.reshape(-1), strict=True))


@dataclass(frozen=True)
class Formal:
    """A rational number whose ``exp`` is the rational ``1 + x + x²``: any weights obey the adjoint identity."""

    value: Fraction

    def __add__(self, other):
        return Formal(self.value + _value(other))

    def __sub__(self, other):
        return Formal(self.value - _value(other))

    def __mul__(self, other):
        return Formal(self.value * _value(other))

    def __truediv__(self, other):
        return Formal(self.value / _value(other))

    def __rsub__(self, other):
        return Formal(_value(other) - self.value)

    __radd__, __rmul__ = __add__, __mul__

    def __gt__(self, other):
        return self.value > _value(other)

    def __ge__(self, other):
        return self.value >= _value(other)

    def __le__(self, other):
        return self.value <= _value(other)

    def __eq__(self, other):
        return self.value == _value(other)

    def __hash__(self):
        return hash(self.value)

    def exp(self):
        return Formal(1 + self.value + self.value**2)


def _value(x):
    return x.value if isinstance(x, Formal) else Q(x)


def formal(x) -> np.ndarray:
    """Fractions as `Formal` scalars."""
    x = np.asarray(x, dtype=object)
    out = np.empty(x.size, dtype=object)
    out[:] = [Formal(v) for v in x.reshape(-1)]
    return out.reshape(x.shape)


# --- random geometry ---

rngs = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@st.composite
def strided(draw, max_rank: int = 3, ceil: bool = True, like_torch: bool = False):
    """``(window, in_spatial)`` of any legal strided geometry, empty windows included.

    ``like_torch``: only what PyTorch's pooling accepts, padding on both sides alike and at most half the kernel.
    """
    d = draw(st.integers(1, max_rank))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(d))
    stride = tuple(draw(st.integers(1, 3)) for _ in range(d))
    dilation = tuple(draw(st.integers(1, 2)) for _ in range(d))
    pads = tuple((draw(st.integers(0, 3)), draw(st.integers(0, 3))) for _ in range(d))
    if like_torch:
        pads = tuple((min(a, k // 2),) * 2 for (a, _), k in zip(pads, kernel, strict=True))
    spans = [r * (k - 1) + 1 for k, r in zip(kernel, dilation, strict=True)]
    least = [max(1, n - a - b) for n, (a, b) in zip(spans, pads, strict=True)]
    spatial = tuple(draw(st.integers(n, n + (4 if d < 3 else 1))) for n in least)
    return Strided(kernel, stride, pads, dilation, draw(st.booleans()) if ceil else False), spatial


@st.composite
def adaptive(draw, max_rank: int = 3):
    """``(window, in_spatial)`` of adaptive bins, more or fewer than cells."""
    d = draw(st.integers(1, max_rank))
    spatial = tuple(draw(st.integers(1, 6 if d < 3 else 3)) for _ in range(d))
    output = tuple(draw(st.one_of(st.none(), st.integers(1, 5))) for _ in range(d))
    return Adaptive(output), spatial


@st.composite
def pooling(draw):
    """``(window, input shape)``: strided or adaptive; one plane, channels, or a batch."""
    window, spatial = draw(st.one_of(strided(), adaptive()))
    lead = draw(st.sampled_from([(), (2,), (2, 1), (0, 2)]))
    return window, (*lead, *spatial)


@st.composite
def convolution(draw, max_rank: int = 3, like_torch: bool = False):
    """``(x shape, w shape, parameters)`` of any legal convolution, rank 0 included (unless ``like_torch``)."""
    window, spatial = draw(strided(max_rank, ceil=False, like_torch=like_torch))
    if not like_torch and draw(st.integers(0, 9)) == 0:
        window, spatial = Strided((), (), (), ()), ()
    least = int(like_torch)
    groups, per_group, out = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(least, 2))
    batch = draw(st.integers(least, 2))
    x_shape = (batch, groups * per_group, *spatial)
    w_shape = (groups * out, per_group, *window.kernel)
    params = {"stride": window.stride, "padding": window.padding, "dilation": window.dilation, "groups": groups}
    return x_shape, w_shape, params
