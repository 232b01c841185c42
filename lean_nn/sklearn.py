"""scikit-learn's interface: `LeanClassifier`, `LeanRegressor` (extra ``sklearn``).

Both are a multilayer perceptron unless they are given a model, trained by `lean_nn.fit` in float32 and run in float64, so
that a sample's answer is the same to fifteen digits whatever it is asked together with. They pass scikit-learn's own checks
(`sklearn.utils.estimator_checks`), so they go into pipelines, searches and cross-validation like any other estimator. The
same data and `random_state` give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lean_nn import data, nn, optim
from lean_nn.nn.models import mlp
from lean_nn.training import fit, predict

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ImportError("lean_nn.sklearn needs scikit-learn 1.6 or later: pip install 'lean_nn[sklearn]'") from None

__all__ = ["LeanClassifier", "LeanRegressor"]

Array = np.ndarray[Any, Any]


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """What classifier and regressor share: parameters, scaling, the training itself."""

    def __init__(
        self,
        hidden: Sequence[int] = (64,),
        *,
        model: Callable[[int, int], Any] | None = None,
        epochs: int = 100,
        batch_size: int = 64,
        lr: float = 0.01,
        weight_decay: float = 1e-4,
        standardize: bool = True,
        random_state: Any = None,
    ) -> None:
        self.hidden = hidden
        self.model = model
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.standardize = standardize
        self.random_state = random_state

    def _learn(self, x: Array, y: Array, outputs: int, loss: str) -> None:
        """Train a network of so many outputs on validated data."""
        self.mean_ = x.mean(0) if self.standardize else np.zeros(x.shape[1])
        spread = x.std(0) if self.standardize else np.ones(x.shape[1])
        self.scale_ = np.where(spread > 0, spread, 1.0)
        seed = _seed(self.random_state)
        nn.manual_seed(seed)
        make = self.model if self.model is not None else lambda n, m: mlp(n, m, tuple(self.hidden))
        self.model_ = make(x.shape[1], outputs)
        loader = data.Loader(self._scaled(x).astype(np.float32), y, min(self.batch_size, len(x)), seed=seed, prefetch=0)
        optimizer = optim.AdamW(self.model_.parameters(), lr=self.lr, weight_decay=self.weight_decay)
        schedule = optim.OneCycleLR(optimizer, self.lr, total_steps=max(2, self.epochs * len(loader)), cycle_momentum=False)
        self.history_ = fit(self.model_, loader, loss, optimizer, self.epochs, schedule=schedule, schedule_every="batch",
                            seed=seed, progress=False)  # fmt: skip
        self.model_.to("float64")
        self.n_iter_ = self.epochs

    def _scaled(self, x: Array) -> Array:
        return np.asarray((x - self.mean_) / self.scale_)

    def _outputs(self, x: Any) -> Array:
        check_is_fitted(self)
        x = validate_data(self, x, reset=False, dtype=np.float64)
        return np.asarray(predict(self.model_, self._scaled(x)))


class LeanClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """Classes from a network that is trained on the cross entropy.

    Parameters
    ----------
    hidden : sizes of the hidden layers
    model : function of (features, classes) that makes a Module instead
    epochs, batch_size, lr, weight_decay : of AdamW under one cycle of the learning rate
    standardize : bring every feature to mean 0 and deviation 1 first
    random_state : seed of weights and order; None draws one

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from lean_nn.sklearn import LeanClassifier
    >>> x, y = load_iris(return_X_y=True)
    >>> LeanClassifier(random_state=0).fit(x, y).score(x, y) > 0.95
    True
    """

    def fit(self, X: Any, y: Any) -> LeanClassifier:
        """Train on samples `X` (n, features) with labels `y` (n)."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"LeanClassifier: labels of at least two classes; got 1 class; add samples of another class "
                             f"than {self.classes_[0]!r}")
        self._learn(X, numbers.astype(np.int64), len(self.classes_), "cross_entropy")
        return self

    def decision_function(self, X: Any) -> Array:
        """The network's outputs, (n, classes); for two classes their difference, (n,)."""
        y = self._outputs(X)
        return y[:, 1] - y[:, 0] if len(self.classes_) == 2 else y

    def predict_proba(self, X: Any) -> Array:
        """The share of each class by softmax, (n, classes)."""
        y = self._outputs(X)
        shares = np.exp(y - y.max(1, keepdims=True))
        return np.asarray(shares / shares.sum(1, keepdims=True))

    def predict(self, X: Any) -> Array:
        """The likeliest class of each sample."""
        best = self._outputs(X).argmax(1)
        return np.asarray(self.classes_[best])


class LeanRegressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """Numbers from a network that is trained on the squared error; one target or several.

    Parameters are those of `LeanClassifier`; `model` is a function of (features, targets).

    Examples
    --------
    >>> import numpy as np
    >>> from lean_nn.sklearn import LeanRegressor
    >>> x = np.linspace(-2, 2, 100)[:, None]
    >>> LeanRegressor(random_state=0).fit(x, x[:, 0] ** 2).score(x, x[:, 0] ** 2) > 0.99
    True
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> LeanRegressor:
        """Train on samples `X` (n, features) with targets `y` (n) or (n, targets)."""
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        y = np.asarray(y, np.float64)
        self.flat_ = y.ndim == 1
        rows = y.reshape(len(y), -1)
        self.target_mean_ = rows.mean(0)
        spread = rows.std(0)
        self.target_scale_ = np.where(spread > 0, spread, 1.0)
        scaled = ((rows - self.target_mean_) / self.target_scale_).astype(np.float32)
        self._learn(X, scaled, rows.shape[1], "mse_loss")
        return self

    def predict(self, X: Any) -> Array:
        """The targets of each sample, in the form that `fit` was given."""
        scaled = self._outputs(X)
        y = scaled * self.target_scale_ + self.target_mean_
        return np.asarray(y[:, 0] if self.flat_ else y)


def _seed(random_state: Any) -> int:
    """A seed of 31 bits from what scikit-learn calls a random state."""
    from sklearn.utils import check_random_state

    return int(check_random_state(random_state).randint(2**31 - 1))
