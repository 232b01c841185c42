"""`lean_nn.sklearn` passes scikit-learn's own checks, and is of use in its pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

from sklearn.datasets import load_iris  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

from lean_nn import nn  # noqa: E402
from lean_nn.sklearn import LeanClassifier, LeanRegressor  # noqa: E402
from lean_nn.threads import num_threads  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    with num_threads(1):  # small networks, many of them
        yield


@parametrize_with_checks([LeanClassifier(epochs=15, hidden=(16,)), LeanRegressor(epochs=30, hidden=(16,))])
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_in_pipelines_and_searches() -> None:
    x, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), LeanClassifier(epochs=60, random_state=0))
    assert cross_val_score(pipeline, x, y, cv=3).mean() > 0.93
    search = GridSearchCV(LeanClassifier(epochs=5, random_state=0), {"lr": [1e-5, 0.02]}, cv=2).fit(x, y)
    assert search.best_params_ == {"lr": 0.02}


def test_the_same_bits_and_text_labels() -> None:
    x, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    first, second = (LeanClassifier(epochs=5, random_state=3).fit(x, names) for _ in range(2))
    np.testing.assert_array_equal(first.predict_proba(x), second.predict_proba(x))
    assert set(first.predict(x)) <= set(names)
    assert not np.array_equal(LeanClassifier(epochs=5, random_state=4).fit(x, names).predict_proba(x), first.predict_proba(x))


def test_a_model_of_ones_own_and_several_targets() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 3))
    y = np.stack([x @ [1, 2, 3], x @ [-1, 0, 1]], 1)
    regressor = LeanRegressor(model=lambda n, m: nn.Linear(n, m), random_state=0).fit(x, y)
    assert regressor.predict(x).shape == (200, 2) and regressor.score(x, y) > 0.999
