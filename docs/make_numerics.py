"""Write docs/numerics.md from the records: ``python docs/make_numerics.py`` (``--check`` only compares)."""

from __future__ import annotations

import sys
from pathlib import Path

from lean_nn.accuracy import bound_text
from lean_nn.ops import load_all
from lean_nn.primitive import Gamma, Within

TARGET = Path(__file__).with_name("numerics.md")
HEAD = """\
# How exact the results are

Every primitive states how far its kernel may be from the specification, and `lean-nn check`, the test suite and this
table read the same statement from its record. The table is written by `python docs/make_numerics.py`; a test compares.

With u = 2⁻²⁴ for float32 and 2⁻⁵³ for float64, y the exact result for the given floats and ŷ the kernel's:

- **the same bits**: ŷ is what the specification gives when it is evaluated in the same type.
- **k ulp**: |ŷ − y| ≤ k units in the last place of y.
- **γₙ·Σ|terms|**: |ŷ − y| ≤ γₙ·p(|args|), where p is the primitive itself and γₙ = n·u / (1 − n·u): the classical
  bound of a sum of n products, in whatever order it is formed. n is in the last column. (A product that underflows
  adds less than the smallest positive number of the type.)
- **another formula**: |ŷ − y| is at most its value. K counts the roundings of a sum; where it is not given, it is about 45
  and grows with the sum's length divided by 512 (`lean_nn/ops/norm.py`).

Sums and products have a fixed order, which depends on the shapes alone. So the bits are the same on every run, for
every number of threads. They may differ between instruction-set levels, because a fused multiply-add rounds once
where two instructions round twice; each level keeps the bounds.

**Fast convolution.** Where it pays, `conv` and its two relatives use Winograd's algorithm, for 3 × 3 and 5 × 5 kernels and
lines of 3 and 5 taps with stride 1, and for what can be written as a sum of such (larger, strided, dilated kernels; one axis or
three).
Its bound is by the norm of a whole tile of the image, not by the terms of one output (`lean_nn_c/winograd.pyx` has the
formula; `_winograd_weight.pxd` that of `conv_weight`), and on random data its error is about twice the classical one (with 4, 5
and 10 taps 1.1 to 1.8 times; for `conv_weight` up to 4.4 times, on many small images).
`lean_nn.set_precision("exact")` turns it off; then the bounds of the table hold for every shape.

NaN and infinities go through as IEEE says: no kernel is compiled with relaxed floating-point rules.

Functions that are made of several primitives (`layer_norm`, `cross_entropy`, …) inherit their bounds from them.

| primitive | bound | n |
|---|---|---|
"""
WITHOUT_ROUNDING = "\nViews of the same data, without a kernel: {}.\n"


def text() -> str:
    """The whole page."""
    rows, views = [], []
    for name, prim in sorted(load_all().items()):
        if prim.view is not None:
            views.append(f"`{name}`")
            continue
        accuracy = prim.accuracy
        n = accuracy.n if isinstance(accuracy, Gamma) else ""
        bound = (accuracy.bound.__doc__ or "none stated") if isinstance(accuracy, Within) else bound_text(accuracy)
        cell = bound.rstrip(".").replace("|", r"\|")  # a bare bar would end the cell
        rows.append(f"| `{name}` | {cell} | {n} |")
    return HEAD + "\n".join(rows) + "\n" + WITHOUT_ROUNDING.format(", ".join(views))


def main() -> int:
    """Write the page, or compare it."""
    if "--check" in sys.argv[1:]:
        if TARGET.read_text() == text():
            return 0
        print("docs/numerics.md is out of date: run `python docs/make_numerics.py`", file=sys.stderr)
        return 1
    TARGET.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
