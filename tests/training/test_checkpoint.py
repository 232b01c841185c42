"""Checkpoints: a run that was killed in mid-epoch and taken up again ends with the bits of an unbroken one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lean_nn as ln
from lean_nn import io, nn, optim
from lean_nn.data import Loader
from lean_nn.data.augment import Shift
from lean_nn.training import EarlyStopping, fit

ROOT = Path(__file__).resolve().parents[2]
rng = np.random.default_rng(0)
X = rng.standard_normal((60, 1, 6, 6)).astype(np.float32)
Y = (X[:, 0, 0, 0] > 0).astype(np.int64)


def make() -> nn.Module:
    ln.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(), nn.Linear(64, 2))


def run(
    path: Any, epochs: int = 4, stop_at: int | None = None, kill: bool = False, model: Any = None, **options: Any
) -> Any:
    """A run with everything that could be forgotten: dropout, statistics, momentum, a schedule, augmentation, patience.

    At step `stop_at` it raises, or the process kills itself as nobody can catch.
    """
    model = make() if model is None else model
    optimizer = optim.Adam(model.parameters(), 0.02)
    steps = 0

    def watch(output: Any, target: Any) -> float:
        nonlocal steps
        steps += 1
        if steps == stop_at:
            if kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise InterruptedError
        return float(np.mean(output.argmax(1) == target))

    settings: dict[str, Any] = {
        "validation": (X[:20], Y[:20]), "metrics": {"accuracy": watch}, "schedule": optim.CosineAnnealingLR(optimizer, 40),
        "schedule_every": "batch", "early_stopping": EarlyStopping("val_loss", patience=9), "checkpoint": path,
        "checkpoint_every": 1, "progress": False, "seed": 7, **options,
    }  # fmt: skip
    loader = Loader(X, Y, batch_size=13, seed=1, transform=Shift(1), prefetch=2)
    history = fit(model, loader, "cross_entropy", optimizer, epochs, **settings)
    return model, optimizer, history


def everything(result: Any) -> Any:
    model, optimizer, history = result
    state = optimizer.state_dict()["state"]
    slots = [{k: t.numpy().tobytes() for k, t in own.items() if k != "step"} for own in state.values()]
    rows = {k: v for k, v in history.items() if k != "seconds"}
    return [a.tobytes() for a in model.state_dict().values()], slots, rows


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_killed_in_mid_epoch_and_taken_up_again(tmp_path: Path, suffix: str) -> None:
    """SIGKILL at several places, each run going on where the last one fell; then bit for bit the unbroken run."""
    if suffix == ".safetensors":
        pytest.importorskip("safetensors")
    path = tmp_path / f"run{suffix}"
    program = (
        f"import sys; sys.path[:0] = {[str(ROOT), str(Path(__file__).parent)]!r}\n"
        f"from test_checkpoint import run; run({str(path)!r}, stop_at=int(sys.argv[1]), kill=True)"
    )
    for stop_at in (8, 4) if suffix == ".npz" else (9,):
        done = subprocess.run([sys.executable, "-c", program, str(stop_at)], capture_output=True, check=False, timeout=120)
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()
        assert path.exists()
    assert everything(run(path)) == everything(run(None, checkpoint_every=None))


def test_any_interruption_any_spacing(tmp_path: Path) -> None:
    want = everything(run(None, epochs=3))
    for stop_at, every in ((1, 1), (5, 2), (6, None), (14, 4)):
        path = tmp_path / f"{stop_at}.npz"
        with pytest.raises(InterruptedError):
            run(path, epochs=3, stop_at=stop_at, checkpoint_every=every)
        assert everything(run(path, epochs=3, checkpoint_every=every)) == want


def test_other_threads_and_eager_take_it_up_too(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    with pytest.raises(InterruptedError), ln.num_threads(1):
        run(path, epochs=2, stop_at=7)
    with ln.num_threads(2):
        assert everything(run(path, epochs=2, compiled=False)) == everything(run(None, epochs=2))


def test_a_finished_run_is_not_run_again_and_more_epochs_go_on(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    first = run(path, epochs=2)
    again = run(path, epochs=2, stop_at=1)
    assert everything(again) == everything(first) and again[2]["seconds"] == first[2]["seconds"]
    assert everything(run(path, epochs=4)) == everything(run(None, epochs=4))


def test_the_best_parameters_survive(tmp_path: Path) -> None:
    """Stopped early after a resumption, the model ends with the best epoch's parameters, found before it."""
    options = {"early_stopping": EarlyStopping("val_loss", patience=2), "validation": (X[:10], 1 - Y[:10])}
    want = everything(run(None, epochs=30, **options))
    epochs = len(want[2]["epoch"])
    path = tmp_path / "run.npz"
    with pytest.raises(InterruptedError):
        run(path, epochs=30, stop_at=5 * (epochs - 1) + 2, **{**options, "early_stopping": EarlyStopping("val_loss", patience=2)})
    again = run(path, epochs=30, **{**options, "early_stopping": EarlyStopping("val_loss", patience=2)})
    assert everything(again) == want
    finished = run(path, epochs=30, **{**options, "early_stopping": EarlyStopping("val_loss", patience=2)})
    assert everything(finished)[0] == want[0]


def test_resume_false_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    with pytest.raises(InterruptedError):
        run(path, epochs=1, stop_at=3)
    assert everything(run(path, epochs=1, resume=False)) == everything(run(None, epochs=1))


def told(path: Path, **changes: Any) -> None:
    """The checkpoint with other notes."""
    about = io.metadata(path)
    about["lean_nn.training"] = json.dumps({**json.loads(about["lean_nn.training"]), **changes})
    io.save(path, io.load(path), about)


def damaged(path: Path, change: Any) -> None:
    whole = path.read_bytes()
    path.write_bytes(change(whole))


@pytest.mark.parametrize(
    "spoil, problem",
    [
        (lambda p: damaged(p, lambda b: b[: len(b) // 2]), "run.npz"), (lambda p: damaged(p, lambda b: b""), "run.npz"),
        (lambda p: damaged(p, lambda b: b"PK" + os.urandom(200)), "run.npz"),
        (lambda p: io.save(p, {"a": np.ones(2)}), "without its mark"),
        (lambda p: io.save(p, {"a": np.ones(2)}, {"lean_nn.checkpoint": "1", "lean_nn.training": "{"}), "cannot be read"),
        (lambda p: io.save(p, {"a": np.ones(2)}, {"lean_nn.checkpoint": "1", "lean_nn.training": "{}"}), "cannot be read"),
        (lambda p: io.save(p, {"model.0.weight": np.ones(2)}, io.metadata(p)), "missing"),
        (lambda p: io.save(p, {k: a for k, a in io.load(p).items() if ".exp_avg" not in k} | {"optimizer.0.exp_avg": np.ones(3)},
                           io.metadata(p)), "belongs to another run"),
        (lambda p: told(p, place=["x", 2]), "belongs to another run"), (lambda p: told(p, history={"a": 1}), "another run"),
        (lambda p: told(p, loader={"epoch": 1}), "a state has"), (lambda p: told(p, schedule={}), "last_epoch"),
        (lambda p: told(p, optimizer={}), "another run"), (lambda p: told(p, sums=3), "another run"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_told_and_nothing_changes(tmp_path: Path, spoil: Any, problem: str) -> None:
    path = tmp_path / "run.npz"
    run(path, epochs=1)
    spoil(path)
    ln.manual_seed(0)
    model = make()
    before = [a.tobytes() for a in model.state_dict().values()]
    with pytest.raises(ValueError, match=problem):
        run(path, epochs=2, model=model)
    assert [a.tobytes() for a in model.state_dict().values()] == before


def test_a_checkpoint_of_another_model_leaves_loader_and_schedule_where_they_are(tmp_path: Path) -> None:
    def attempt(width: int) -> tuple[Any, Any]:
        model = nn.models.mlp(36, 2, hidden=(width,))
        optimizer = optim.SGD(model.parameters(), 0.1)
        loader, schedule = Loader(X, Y, 13), optim.StepLR(optimizer, 1)
        before = loader.state_dict(), schedule.state_dict()
        try:
            fit(model, loader, "cross_entropy", optimizer, 2, schedule=schedule, checkpoint=tmp_path / "m.npz", progress=False)
        except ValueError as problem:
            assert "belongs to another run" in str(problem)
            assert optimizer.param_groups[0]["lr"] == 0.1
        return before, (loader.state_dict(), schedule.state_dict())

    first, moved = attempt(3)
    assert first != moved
    before, after = attempt(4)
    assert before == after


def test_another_recipe_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    run(path, epochs=1)
    with pytest.raises(ValueError, match="was written with"):
        run(path, epochs=2, seed=8)
    with pytest.raises(ValueError, match="ends in|suffix|npz"):
        run(tmp_path / "run.txt", epochs=1)


def test_a_failed_write_leaves_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.npz"
    with pytest.raises(InterruptedError):
        run(path, epochs=2, stop_at=4)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        run(path, epochs=2)
    monkeypatch.undo()
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["run.npz"]
    assert everything(run(path, epochs=2)) == everything(run(None, epochs=2))
