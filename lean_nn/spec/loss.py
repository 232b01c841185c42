"""Losses over classes given by index, with one index that stands for "no class"; looking values up by such an index."""

from __future__ import annotations

from . import scalar
from .container import Array, ArrayLike, as_array, as_indices, normal_axis, zeros
from .geometry import Ints, bad, indices
from .reduce import log_softmax, softmax
from .scalar import Scalar


def _place(i: Ints, axis: int, j: int) -> Ints:
    return (*i[:axis], j, *i[axis + 1 :])


def _check(op: str, j: int, n: int) -> None:
    if not 0 <= j < n:
        raise IndexError(str(bad(op, f"indices are 0 … {n - 1} on an axis of {n}", j, "correct the index")))


def pick(x: ArrayLike, idx: ArrayLike, *, axis: int, ignore: int) -> Array:
    """``y[…, j, …] = x[…, idx[…, j, …], …]`` along the axis; 0 where the index is ``ignore``."""
    x, at = as_array(x), as_indices("pick", idx)
    a = normal_axis("pick", axis, x.ndim)
    y = zeros(at.shape)
    for i in indices(at.shape):
        if at[i] != ignore:
            _check("pick", int(at[i]), x.shape[a])
            y[i] = x[_place(i, a, int(at[i]))]
    return y


def unpick(g: ArrayLike, idx: ArrayLike, *, axis: int, size: int, ignore: int) -> Array:
    """The transpose of `pick`: ``x[…, idx[…, j, …], …] += g[…, j, …]``, in row-major order."""
    g, at = as_array(g), as_indices("unpick", idx)
    a = normal_axis("unpick", axis, g.ndim)
    x = zeros(_place(g.shape, a, size))
    for i in indices(at.shape):
        if at[i] != ignore:
            _check("unpick", int(at[i]), size)
            k = _place(i, a, int(at[i]))
            x[k] = x[k] + g[i]
    return x


# --- cross entropy ---


def cross_entropy(
    x: ArrayLike, idx: ArrayLike, *, axis: int, ignore: int, smoothing: float, reduction: str
) -> Array:
    """``−Σ_c q_c·log softmax(x)_c`` along the axis; q is ``1 − smoothing`` at the index, and ``smoothing/n`` more everywhere.

    0 where the index is ``ignore``. The sum of all for the reduction "sum", and for "mean" their sum divided by the number
    of indices that are not ``ignore``.
    """
    x, at = as_array(x), as_indices("cross_entropy", idx)
    a = normal_axis("cross_entropy", axis, x.ndim)
    values, logp = zeros(at.shape), log_softmax(x, axis=a)
    for i in indices(at.shape):
        if at[i] != ignore:
            _check("cross_entropy", int(at[i]), x.shape[a])
            line = [logp[_inserted(i, a, c)] for c in range(x.shape[a])]
            q = _distribution(int(at[i]), line, smoothing)
            values[i] = -sum(share * v for share, v in zip(q, line, strict=True) if share)
    return _reduced(values, at, ignore, reduction)


def cross_entropy_transpose(
    g: ArrayLike, x: ArrayLike, idx: ArrayLike, *, axis: int, ignore: int, smoothing: float, reduction: str
) -> Array:
    """``g·(softmax(x) − q)``, 0 where the index is ``ignore``; g is one number per line, or one for all with a reduction."""
    g, x, at = as_array(g), as_array(x), as_indices("cross_entropy_transpose", idx)
    a = normal_axis("cross_entropy_transpose", axis, x.ndim)
    out, p = zeros(x.shape), softmax(x, axis=a)
    for i in indices(at.shape):
        if at[i] != ignore:
            _check("cross_entropy_transpose", int(at[i]), x.shape[a])
            q = _distribution(int(at[i]), [p[_inserted(i, a, c)] for c in range(x.shape[a])], smoothing)
            weight = g[i] if reduction == "none" else scalar.div(g[()], _counted(at, ignore) if reduction == "mean" else 1)
            for c in range(x.shape[a]):
                out[_inserted(i, a, c)] = weight * (p[_inserted(i, a, c)] - q[c])
    return out


# --- negative log-likelihood, of what are logarithms already ---


def nll_loss(x: ArrayLike, idx: ArrayLike, *, axis: int, ignore: int, reduction: str) -> Array:
    """``−x`` at the index along the axis, 0 where that is ``ignore``; reduced as `cross_entropy` is."""
    x, at = as_array(x), as_indices("nll_loss", idx)
    a = normal_axis("nll_loss", axis, x.ndim)
    values = zeros(at.shape)
    for i in indices(at.shape):
        if at[i] != ignore:
            _check("nll_loss", int(at[i]), x.shape[a])
            values[i] = -x[_inserted(i, a, int(at[i]))]
    return _reduced(values, at, ignore, reduction)


def nll_loss_transpose(g: ArrayLike, idx: ArrayLike, *, axis: int, size: int, ignore: int, reduction: str) -> Array:
    """``−g`` at the index among zeros, on an axis of ``size``; for the mean ``−g`` divided by how many indices count."""
    g, at = as_array(g), as_indices("nll_loss_transpose", idx)
    out = zeros(_inserted(at.shape, axis, size))
    for i in indices(at.shape):
        if at[i] != ignore:
            _check("nll_loss_transpose", int(at[i]), size)
            weight = g[i] if reduction == "none" else scalar.div(g[()], _counted(at, ignore) if reduction == "mean" else 1)
            out[_inserted(i, axis, int(at[i]))] = -weight
    return out


def _reduced(values: Array, at: Array, ignore: int, reduction: str) -> Array:
    if reduction == "none":
        return values
    total = sum(values.reshape(-1).tolist(), start=0)
    result = zeros(())
    result[()] = scalar.div(total, _counted(at, ignore)) if reduction == "mean" else total
    return result


def _distribution(at: int, line: list[Scalar], smoothing: float) -> list[Scalar]:
    """q, in numbers like those of the line."""
    n = len(line)
    return [scalar.like(v, (1 - smoothing) * (c == at)) + scalar.like(v, smoothing) / n for c, v in enumerate(line)]


def _inserted(i: Ints, axis: int, j: int) -> Ints:
    return (*i[:axis], j, *i[axis:])


def _counted(at: Array, ignore: int) -> int:
    return int((at != ignore).sum())
