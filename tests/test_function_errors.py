"""Every error text of elementwise functions, reductions, normalisations and losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lean_nn.functional as F

X, V = np.zeros((2, 3)), np.zeros(3)
IDX = np.array([0, 1])

VALUE_ERRORS: list[tuple[Callable[[], Any], str]] = [
    (lambda: F.add(X, np.zeros(2)), "add: shapes must broadcast; got (2, 3) and (2,); reshape one of them"),
    (
        lambda: F.where(np.array([True, False]), X, X),
        "where: shapes must broadcast; got (2,) and (2, 3) and (2, 3); reshape one of them",
    ),
    (lambda: F.gelu(X, "erf"), "gelu: approximate is 'none' or 'tanh'; got 'erf'; choose one of them"),
    (lambda: F.softplus(X, 0.0), "softplus: beta is a number other than 0; got 0.0; use beta > 0"),
    (
        lambda: F.clamp(X, float("nan")),
        "clamp: bounds are numbers; got min nan and max None; leave a bound out with None",
    ),
    (lambda: F.sum(X, 2), "sum: axis from -2 to 1; got 2; use an axis of the Tensor"),
    (lambda: F.sum(X, (0, 0)), "sum: different axes of the array; got (0, 0) for shape (2, 3); name each axis once"),
    (lambda: F.softmax(X, -3), "softmax: axis from -2 to 1; got -3; use an axis of the Tensor"),
    (
        lambda: F.max(np.zeros((2, 0)), 1),
        "max: the reduced axis must not be empty; got shape (2, 0), axis 1; give it one element",
    ),
    (
        lambda: F.logsumexp(np.zeros((0, 2)), 0),
        "logsumexp: the reduced axis must not be empty; got shape (0, 2), axis 0; give it one element",
    ),
    (
        lambda: F.batch_norm(V, None, None, training=True),
        "batch_norm: input is (N, C, ...); got shape (3,); add a batch axis",
    ),
    (
        lambda: F.batch_norm(np.zeros((1, 3)), None, None, training=True),
        "batch_norm: more than one value per channel when training; got shape (1, 3); "
        "use a larger batch or training=False",
    ),
    (
        lambda: F.batch_norm(X, None, None),
        "batch_norm: running statistics are needed when not training; got None; pass them or training=True",
    ),
    (
        lambda: F.batch_norm(X, V, np.zeros(2)),
        "batch_norm: running_var has shape (3,); got (2,); give one number per feature",
    ),
    (
        lambda: F.batch_norm(X, V, V, weight=np.zeros(2)),
        "batch_norm: weight has shape (3,); got (2,); give one number per feature",
    ),
    (
        lambda: F.layer_norm(X, (2,)),
        "layer_norm: the last axes have normalized_shape (2,); got shape (2, 3); name its last sizes",
    ),
    (lambda: F.layer_norm(X, 3, bias=X), "layer_norm: bias has shape (3,); got (2, 3); give one number per feature"),
    (lambda: F.group_norm(X, 2), "group_norm: groups divide the channels; got 2 for 3; choose a divisor"),
    (lambda: F.dropout(X, 1.5), "dropout: p must be in [0, 1]; got 1.5; use the fraction of elements to drop"),
    (lambda: F.dropout(X, seed=IDX), "dropout: the seed is one number; got shape (2,); pass an int"),
    (
        lambda: F.mse_loss(X, V),
        "mse_loss: input and target have one shape; got (2, 3) and (3,); reshape one of them",
    ),
    (
        lambda: F.l1_loss(X, X, "max"),
        "l1_loss: reduction is 'mean', 'sum' or 'none'; got 'max'; choose one of them",
    ),
    (lambda: F.huber_loss(X, X, delta=0.0), "huber_loss: delta is positive; got 0.0; pass a positive number"),
    (lambda: F.smooth_l1_loss(X, X, beta=-1.0), "smooth_l1_loss: beta is not negative; got -1.0; pass 0 or more"),
    (
        lambda: F.nll_loss(X, np.array([0])),
        "nll_loss: target has shape (2,); got (1,) for input (2, 3); give one class each",
    ),
    (
        lambda: F.nll_loss(X, IDX, weight=np.zeros(2)),
        "nll_loss: weight has shape (3,); got (2,); give one number per class",
    ),
    (
        lambda: F.cross_entropy(np.array(1.0), np.array(0)),
        "cross_entropy: input is (N, C, ...) or (C,); got shape (); add an axis of classes",
    ),
    (
        lambda: F.cross_entropy(X, V),
        "cross_entropy: probabilities have the input's shape (2, 3); got (3,); "
        "give int64 classes or one probability per class",
    ),
    (
        lambda: F.cross_entropy(X, IDX, label_smoothing=2.0),
        "cross_entropy: label_smoothing is from 0 to 1; got 2.0; pass the share to mix in",
    ),
]


@pytest.mark.parametrize(("call", "text"), VALUE_ERRORS, ids=[text.split(";")[0] for _, text in VALUE_ERRORS])
def test_value_errors(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value) == text


@pytest.mark.parametrize("bad", [3, -1, 2**60])
def test_a_class_out_of_range(bad: int) -> None:
    with pytest.raises(IndexError, match=f"indices are 0 … 2 on an axis of 3; got {bad}"):
        F.cross_entropy(X, np.array([0, bad]))


def test_type_errors() -> None:
    with pytest.raises(TypeError) as error:
        F.where(X, X, X)
    assert str(error.value) == "where: the condition is bool; got float64; compare first, as in x > 0"
    with pytest.raises(TypeError, match="sum: an axis is an int; got str; pass an int"):
        F.sum(X, "rows")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="relu: Tensors, arrays or numbers are needed; got NoneType; pass a Tensor"):
        F.relu(None)
    with pytest.raises(TypeError, match="float32, float64 or object data is needed; got bool"):
        F.relu(np.array([True]))
    with pytest.raises(TypeError, match="nll_loss: indices are int64; got float64"):
        F.nll_loss(X, np.zeros(2))
