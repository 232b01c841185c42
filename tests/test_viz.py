"""Pictures: they are drawn from the numbers, written whole, and matplotlib is imported by nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lean_nn import viz

HISTORY = {"epoch": [1, 2, 3], "loss": [2.0, 1.0, 0.5], "accuracy": [0.3, 0.6, 0.9], "val_loss": [2.1, 1.2, 0.9],
           "val_accuracy": [0.2, 0.5, 0.8]}  # fmt: skip


def is_png(path: Path) -> bool:
    return path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_matplotlib_comes_only_when_asked_for() -> None:
    program = "import sys, lean_nn.viz; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_confusion_matrix_counts() -> None:
    counts = viz.confusion_matrix([0, 1, 1, 2], [0, 2, 1, 2], 4)
    assert counts.tolist() == [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    assert viz.confusion_matrix(np.array([], int), np.array([], int), 2).tolist() == [[0, 0], [0, 0]]


def test_pictures_show_the_numbers(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    ax = viz.plot_history(HISTORY, path=tmp_path / "h.png")
    assert {line.get_label(): line.get_ydata().tolist() for line in ax.lines} == {k: HISTORY[k] for k in ("loss", "val_loss")}
    assert is_png(tmp_path / "h.png")
    ax = viz.plot_confusion([[3, 1], [0, 2]], ["a", "b"], path=tmp_path / "c.png")
    assert sorted(text.get_text() for text in ax.texts) == ["1", "2", "3"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a", "b"]
    weight = np.arange(2 * 9.0).reshape(2, 1, 3, 3)
    image = viz.plot_filters(weight, path=tmp_path / "f.png").images[0].get_array()
    assert image.shape == (3, 7) and np.allclose(image[:, :3], weight[0, 0] / 8) and np.ma.getmaskarray(image)[:, 3].all()
    assert viz.plot_filters(np.ones((4, 3, 2, 2))).images[0].get_array().shape == (2, 11, 3)
    assert len(viz.plot_training(HISTORY, [[1, 0], [0, 1]], weight, tmp_path / "t.png").axes) == 4
    assert all(map(is_png, tmp_path.iterdir()))


@pytest.mark.parametrize(
    "call, problem",
    [
        (lambda: viz.plot_history(HISTORY, ["f1"]), "columns of the history"), (lambda: viz.plot_history({}), "none"),
        (lambda: viz.confusion_matrix([0], [0, 1]), "one length"), (lambda: viz.confusion_matrix([0.5], [0]), "classes"),
        (lambda: viz.confusion_matrix([3], [0], 2), "from 0 to 1"), (lambda: viz.confusion_matrix([-1], [0]), "from 0"),
        (lambda: viz.plot_confusion([[1, 2]]), "square"), (lambda: viz.plot_filters(np.ones((2, 2))), "2-D convolution"),
    ],
)  # fmt: skip
def test_wrong_use_is_told(call: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        call()


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"lean_nn\[viz\]"):
        viz.plot_history(HISTORY)
