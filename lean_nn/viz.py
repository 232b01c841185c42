"""Pictures of a training: its history, what the model confuses, what its first layer looks for.

matplotlib (extra ``viz``) is imported when a picture is asked for. Each function draws on the axes it is given or on a figure
of its own, and returns the axes; ``path=`` writes a PNG without any window.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lean_nn.atomic import open_atomically

__all__ = ["confusion_matrix", "plot_confusion", "plot_filters", "plot_history", "plot_training"]

Array = np.ndarray[Any, Any]
Path = str | os.PathLike[str]


def _figure(width: float, height: float) -> Any:
    """A figure that belongs to no window: made without pyplot, so nothing is shown and nothing piles up."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise ImportError("viz: pictures need matplotlib; got none; pip install 'lean_nn[viz]'") from problem
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _saved(figure: Any, path: Path | None) -> None:
    if path is not None:
        with open_atomically(path) as file:
            figure.savefig(file, format="png", dpi=120)


def _alone(ax: Any, width: float, height: float) -> Any:
    return _figure(width, height).add_subplot() if ax is None else ax


def _lined(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.25)


def plot_history(
    history: Mapping[str, Sequence[float]], columns: Sequence[str] | None = None, *, ax: Any = None, path: Path | None = None
) -> Any:
    """Columns of a history over the epochs: all losses unless told; what was validated is dashed.

    Examples
    --------
    >>> import os, tempfile
    >>> from lean_nn.viz import plot_history
    >>> path = os.path.join(tempfile.mkdtemp(), "history.png")
    >>> ax = plot_history({"loss": [2.0, 1.0], "val_loss": [2.2, 1.5]}, path=path)
    >>> [line.get_label() for line in ax.lines], os.path.getsize(path) > 1000
    (['loss', 'val_loss'], True)
    """
    chosen = [name for name in history if name.endswith("loss")] if columns is None else list(columns)
    missing = [name for name in chosen if name not in history]
    if missing or not chosen:
        raise ValueError(f"plot_history: columns of the history, {list(history)}; got {missing or 'none'}; choose from them")
    ax = _alone(ax, 6, 4)
    for i, name in enumerate(dict.fromkeys(name.removeprefix("val_") for name in chosen)):
        for column, style in ((name, "-"), (f"val_{name}", "--")):
            if column in chosen:
                values = history[column]
                ax.plot(range(1, len(values) + 1), values, style, color=f"C{i}", label=column, marker=".", markersize=4)
    ax.set_xlabel("epoch")
    if all(name.endswith("loss") for name in chosen) and min(min(history[n], default=1.0) for n in chosen) > 0:
        ax.set_yscale("log")
    ax.legend(frameon=False)
    _lined(ax)
    _saved(ax.figure, path)
    return ax


def confusion_matrix(target: Any, predicted: Any, classes: int | None = None) -> Array:
    """``m[i, j]``: how many samples of class i were taken for class j.

    Examples
    --------
    >>> from lean_nn.viz import confusion_matrix
    >>> confusion_matrix([0, 0, 1], [0, 1, 1]).tolist()
    [[1, 1], [0, 1]]
    """
    t, p = (np.asarray(labels) for labels in (target, predicted))
    if t.shape != p.shape or t.ndim != 1 or t.dtype.kind not in "iu" or p.dtype.kind not in "iu":
        raise ValueError(f"confusion_matrix: two lists of classes of one length; got shapes {t.shape} and {p.shape} of "
                         f"{t.dtype} and {p.dtype}; pass outputs.argmax(1)")  # fmt: skip
    n = int(max(t.max(initial=-1), p.max(initial=-1))) + 1 if classes is None else classes
    if min(t.min(initial=0), p.min(initial=0)) < 0 or max(t.max(initial=-1), p.max(initial=-1)) >= n:
        raise ValueError(f"confusion_matrix: classes from 0 to {n - 1}; got others; pass the number of classes")
    counts: Array = np.bincount(t.astype(np.int64) * n + p, minlength=n * n).reshape(n, n)
    return counts


def plot_confusion(
    matrix: Any, names: Sequence[str] | None = None, *, ax: Any = None, path: Path | None = None
) -> Any:
    """A confusion matrix as a picture: numbers in every cell, the mistakes coloured."""
    m = np.asarray(matrix)
    if m.ndim != 2 or m.shape[0] != m.shape[1]:
        raise ValueError(f"plot_confusion: a square matrix of counts; got shape {m.shape}; make one with confusion_matrix")
    ax = _alone(ax, 5, 4.6)
    shares = m / np.maximum(m.sum(1, keepdims=True), 1)
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for i, j in np.ndindex(m.shape):
        if m[i, j]:
            right = i == j
            ax.text(j, i, str(m[i, j]), ha="center", va="center", fontsize=8, weight="normal" if right else "bold",
                    color="white" if shares[i, j] > 0.5 else "black" if right else "crimson")  # fmt: skip
    labels = [str(i) for i in range(len(m))] if names is None else list(names)
    ax.set_xticks(range(len(m)), labels)
    ax.set_yticks(range(len(m)), labels)
    ax.set(xlabel="taken for", ylabel="is")
    _saved(ax.figure, path)
    return ax


def plot_filters(weight: Any, *, columns: int = 8, ax: Any = None, path: Path | None = None) -> Any:
    """The kernels of a 2-D convolution ``(out, in, h, w)`` as small pictures; each channel in blue (below 0) and red.

    With three input channels they are shown in colour instead. At most 64 are drawn.
    """
    w = np.asarray(weight, np.float64)
    if w.ndim != 4 or not w.size:
        raise ValueError(f"plot_filters: the weight (out, in, h, w) of a 2-D convolution; got shape {w.shape}; pass conv.weight")
    in_colour = w.shape[1] == 3
    tiles = w[:64] if in_colour else w.reshape(-1, 1, *w.shape[2:])[:64]
    scale = np.abs(tiles).max(axis=(1, 2, 3), keepdims=True)
    tiles = tiles / np.where(scale > 0, scale, 1)
    columns = min(columns, len(tiles))
    rows = -(-len(tiles) // columns)
    h, width = w.shape[2] + 1, w.shape[3] + 1
    canvas = np.full((rows * h - 1, columns * width - 1, tiles.shape[1]), np.nan)
    for k, tile in enumerate(tiles):
        top, left = k // columns * h, k % columns * width
        canvas[top : top + h - 1, left : left + width - 1] = tile.transpose(1, 2, 0)
    ax = _alone(ax, 0.7 * columns + 0.5, 0.7 * rows + 0.5)
    if in_colour:
        ax.imshow(np.nan_to_num((canvas + 1) / 2, nan=1.0))
    else:
        ax.imshow(canvas[..., 0], cmap="RdBu_r", vmin=-1, vmax=1)
    ax.set_axis_off()
    _saved(ax.figure, path)
    return ax


def plot_training(history: Mapping[str, Sequence[float]], matrix: Any, weight: Any, path: Path | None = None) -> Any:
    """One picture of a training: losses, accuracies where there are any, the confusion matrix, the first layer's kernels."""
    figure = _figure(12, 8)
    axes = figure.subplots(2, 2)
    plot_history(history, ax=axes[0, 0])
    axes[0, 0].set_title("loss")
    accuracies = [name for name in history if name.endswith("accuracy")]
    if accuracies:
        plot_history(history, accuracies, ax=axes[0, 1])
        axes[0, 1].set_title("accuracy")
    else:
        axes[0, 1].set_axis_off()
    plot_confusion(matrix, ax=axes[1, 0])
    axes[1, 0].set_title("confusion matrix")
    plot_filters(weight, ax=axes[1, 1])
    axes[1, 1].set_title("kernels of the first layer")
    _saved(figure, path)
    return figure
