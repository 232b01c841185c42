"""Profiles: a row per node that runs, sums that add up, nothing changed by measuring."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import lean_nn as ln
import lean_nn.functional as F
from lean_nn.graph.profile import Profile, Row

X = np.random.default_rng(0).standard_normal((2, 3, 16, 16)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((8, 3, 3, 3)).astype(np.float32)


def program():
    return ln.compile(lambda x: F.max_pool2d(F.conv2d(x, W, None, padding=1), 2).reshape(2, -1).sum(1), X)


def test_a_row_per_step_in_order():
    p = program()
    profile = p.profile(X, repeats=2)
    assert [row.op for row in profile.rows] == [node.prim.name for node in p.plan.steps]
    assert "reshape" not in {row.op for row in profile.rows}  # it does nothing
    assert all(row.seconds > 0 for row in profile.rows)
    assert sum(row.share for row in profile.rows) == pytest.approx(1)
    assert profile.total == pytest.approx(sum(seconds for _, seconds in profile.by_op().values()))
    assert profile.whole > 0 and profile.repeats == 2 and profile.threads == ln.get_num_threads()


def test_speed_is_that_of_what_binds():
    conv, pool, _ = program().profile(X, repeats=1).rows
    assert conv.flops == 2 * (2 * 8 * 16 * 16) * 27 and conv.rate.endswith("GFLOP/s")
    assert pool.nbytes == 4 * 2 * 8 * (16 * 16 + 8 * 8) and pool.rate.endswith("GB/s")
    assert Row("%1 = f()", "f", "", 2.0, 1.0, 8_000_000_000, 10).rate == "4 GFLOP/s"
    assert Row("%1 = f()", "f", "", 2.0, 1.0, 1, 9_000_000_000).rate == "4.5 GB/s"
    assert Row("%1 = f()", "f", "", 0.0, 1.0, 1, 0).rate == ""


def test_the_table_is_aligned_and_has_totals():
    lines = str(program().profile(X, repeats=1)).splitlines()
    assert lines[0].split() == ["node", "type", "time", "share", "speed"]
    assert "conv(%0, %1)" in lines[1] and "float32[2, 8, 16, 16]" in lines[1]
    assert lines[-2].startswith("all nodes") and "100.0%" in lines[-2]
    assert lines[-1].startswith("a call")
    assert len({line.index("%", 60) for line in lines[1:-1]}) == 1  # shares stand under each other


def test_long_programs_are_summed_up():
    rows = [Row(f"%{i} = f()", "f", "", 1e-6 * (i + 1), 0.0, 1, 8) for i in range(100)]
    lines = str(Profile(rows, 1e-3, 1, 1)).splitlines()
    assert len(lines) == 1 + 60 + 3 and lines[-3].startswith("40 quicker nodes")
    assert lines[1].startswith("%40") and lines[60].startswith("%99")


def test_measuring_a_training_step_does_not_train():
    w, mean = np.ones(3), np.zeros(3)

    def step(w, x, mean):
        z = F.batch_norm(x * w, mean, None, training=True)
        return w - 0.1 * ln.grad(lambda w: (w * x).sum())(w), z.sum()

    p = ln.compile(step, w, np.zeros((4, 3)), mean, inplace=0)
    p.profile(np.ones((4, 3)), mean, repeats=3)
    assert w.tolist() == [1, 1, 1] and mean.tolist() == [0, 0, 0]
    p(np.ones((4, 3)), mean)
    assert w.tolist() != [1, 1, 1] and mean.tolist() != [0, 0, 0]


def test_wrong_arguments_are_refused_as_in_a_call():
    with pytest.raises(ValueError, match="program: input 0 is float32"):
        program().profile(X[:1])
    with pytest.raises(ValueError, match="profile: at least one repeat; got 0"):
        program().profile(X, repeats=0)


def test_the_picture_is_written(tmp_path):
    pytest.importorskip("matplotlib", reason="the extra bench is not installed")
    path, before = tmp_path / "profile.png", "matplotlib.pyplot" in sys.modules
    program().profile(X, repeats=1).plot(path)
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert ("matplotlib.pyplot" in sys.modules) == before  # a figure of our own: no global state, no backend chosen for others
    Profile([], 0.0, 1, 1).plot(path)


def test_nothing_in_the_picture_is_cut_off(monkeypatch, tmp_path):
    """The title and the words behind the longest bar end inside the picture, however long the labels are."""
    figure = pytest.importorskip("matplotlib.figure", reason="the extra bench is not installed")
    saved = []
    monkeypatch.setattr(figure.Figure, "savefig", lambda self, path, dpi: saved.append(self))
    shapes = ", ".join(["float32[64, 32, 5, 5]"] * 3)
    rows = [Row("%1", "adam_update", shapes, 1.234e-3, 0.9999, 10**9, 1), Row("%2", "sum", "float32[]", 0.0, 0.0, 1, 1)]
    Profile([*rows, *rows[1:] * 40], 1.0, 2, 3).plot(tmp_path / "p.png")
    (picture,) = saved
    pytest.importorskip("matplotlib.backends.backend_agg").FigureCanvasAgg(picture).draw()
    (axes,) = picture.axes
    for text in (*axes.texts, *picture.texts, *axes.get_yticklabels()):
        box = text.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= picture.bbox.width, text
    assert axes.get_yticklabels()[0].get_text() == "adam_update  3 × float32[64, 32, 5, 5]"


def test_without_matplotlib_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'lean_nn\[bench\]'"):
        program().profile(X, repeats=1).plot(tmp_path / "p.png")
