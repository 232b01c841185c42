"""`fit`: the same bits compiled and eager, for any number of threads; right means, small last batches, stopping, clipping."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import numpy as np
import pytest

import lean_nn as ln
import lean_nn.functional as F
from lean_nn import nn, optim
from lean_nn.data import Loader
from lean_nn.training import EarlyStopping, History, evaluate, fit, predict

rng = np.random.default_rng(0)
X = rng.standard_normal((50, 1, 6, 6)).astype(np.float32)
Y = (X.sum((1, 2, 3)) > 0).astype(np.int64)


def net(dropout: float = 0.3) -> nn.Sequential:
    ln.manual_seed(5)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(dropout), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(16, 2))  # fmt: skip


def bits(model: nn.Module) -> list[bytes]:
    return [a.tobytes() for a in model.state_dict().values()]


def trained(epochs: int = 2, model: Any = None, make: Any = optim.Adam, **options: Any) -> tuple[nn.Module, History]:
    model = net() if model is None else model
    settings: dict[str, Any] = {"batch_size": 16, "metrics": "accuracy", "progress": False, **options}
    data = settings.pop("data", (X, Y))
    history = fit(model, data, "cross_entropy", make(model.parameters(), 0.01), epochs, **settings)
    return model, history


def rows(history: History) -> dict[str, Any]:
    return {name: values for name, values in history.items() if name != "seconds"}


OPTIMISERS = {
    "sgd": lambda p, lr: optim.SGD(p, lr, momentum=0.9), "adam": optim.Adam, "rmsprop": optim.RMSprop, "adagrad": optim.Adagrad,
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMISERS)
def test_compiled_and_eager_have_the_same_bits(name: str) -> None:
    """The last batch has two samples, dropout drops, statistics run: all alike."""
    options = {"make": OPTIMISERS[name], "validation": (X[:20], Y[:20]), "clip_norm": 0.5, "clip_value": 0.2}
    one, history = trained(compiled=True, **options)
    two, other = trained(compiled=False, **options)
    assert bits(one) == bits(two) and rows(history) == rows(other)
    assert one[1].num_batches_tracked.item() == 8


def test_bits_do_not_depend_on_threads_nor_on_prefetching() -> None:
    results = []
    for threads, prefetch in ((1, 0), (2, 2)):
        with ln.num_threads(threads):
            results.append(bits(trained(data=Loader(X, Y, 16, seed=3, prefetch=prefetch))[0]))
    assert results[0] == results[1]


def test_seeds_decide_and_repeat() -> None:
    assert bits(trained(seed=1)[0]) == bits(trained(seed=1)[0]) != bits(trained(seed=2)[0])
    still = {"shuffle": False, "model": None}
    assert bits(trained(**still, seed=1)[0]) != bits(trained(**still, seed=2)[0])  # dropout alone


def test_every_step_drops_other_elements() -> None:
    """Outputs of a model that only drops and scales, on equal rows: which are zero differs from step to step."""
    zeros: list[bytes] = []
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(16, 16, bias=False))
    nn.init.eye_(model[1].weight)
    ones = np.ones((32, 16), np.float32)
    fit(model, (ones, ones), "mse_loss", optim.SGD(model.parameters(), 0.0), 2, batch_size=8, progress=False,
        metrics={"seen": lambda output, target: zeros.append((output == 0).tobytes()) or 0.0})  # fmt: skip
    assert len(zeros) == len(set(zeros)) == 8


def test_a_fit_is_the_loop_one_would_write() -> None:
    """Plain eager code with backward and step, for a model without dropout, in the order of the loader."""
    model, twin = net(0.0), net(0.0)
    optimizer = optim.SGD(twin.parameters(), 0.1, momentum=0.9)
    loader = Loader(X, Y, 16, seed=0, prefetch=0)
    losses = []
    for _ in range(2):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(twin(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
        losses.append(total / len(X))
    own = optim.SGD(model.parameters(), 0.1, momentum=0.9)
    history = fit(model, (X, Y), nn.CrossEntropyLoss(), own, 2, batch_size=16, progress=False)
    assert bits(model) == bits(twin) and history["loss"] == losses
    assert own.state_dict()["state"][0]["step"] == 8
    saved, want = own.state_dict()["state"], optimizer.state_dict()["state"]
    assert all((saved[i]["momentum_buffer"].numpy() == want[i]["momentum_buffer"].numpy()).all() for i in want)


def test_it_learns_and_says_so() -> None:
    model, history = trained(25, model=net(0.0), validation=(X, Y))
    assert history["accuracy"][-1] > 0.9 and history["loss"][-1] < history["loss"][0] / 2
    assert list(history) == ["epoch", "loss", "accuracy", "val_loss", "val_accuracy", "lr", "seconds"]
    assert history["epoch"] == list(range(1, 26)) and History.from_json(history.to_json()) == history
    scores = evaluate(model, (X, Y), metrics="accuracy", batch_size=7)
    assert scores["accuracy"] == history["val_accuracy"][-1] and scores["loss"] == pytest.approx(history["val_loss"][-1], 1e-6)
    assert model.training  # as it was


def test_training_goes_on_from_what_the_optimiser_knows() -> None:
    model, other = net(0.0), net(0.0)
    one, two = (optim.Adam(m.parameters(), 0.01) for m in (model, other))
    loader, again = Loader(X, Y, 16, prefetch=0), Loader(X, Y, 16, prefetch=0)
    fit(model, loader, "cross_entropy", one, 3, progress=False)
    for _ in range(3):
        fit(other, again, "cross_entropy", two, 1, progress=False)
    assert bits(model) == bits(other)


def test_the_rate_is_an_argument_of_the_compiled_step() -> None:
    """A schedule per batch and one per epoch: the same as setting the rate by hand in eager code."""
    for every in ("batch", "epoch"):
        model, twin = net(0.0), net(0.0)
        own, hand = (optim.SGD(m.parameters(), 0.5) for m in (model, twin))
        fit(model, (X, Y), "cross_entropy", own, 3, batch_size=16, schedule=optim.LambdaLR(own, lambda t: 1 / (1 + t)),
            schedule_every=every, shuffle=False, progress=False)  # fmt: skip
        t = 0
        for _ in range(3):
            for i in range(0, 50, 16):
                hand.param_groups[0]["lr"] = 0.5 / (1 + t)
                hand.zero_grad()
                F.cross_entropy(twin(X[i : i + 16]), Y[i : i + 16]).backward()
                hand.step()
                t += every == "batch"
            t += every == "epoch"
        assert bits(model) == bits(twin)


def test_a_schedule_of_the_momentum_runs_eagerly() -> None:
    """One-cycle with Adam's β₁ moving: as PyTorch's loop would do it by hand."""
    model, twin = net(0.0), net(0.0)
    own, hand = (optim.Adam(m.parameters(), 0.01) for m in (model, twin))
    ours, theirs = (optim.OneCycleLR(o, 0.1, total_steps=9) for o in (own, hand))
    fit(model, (X, Y), "cross_entropy", own, 2, batch_size=16, schedule=ours, schedule_every="batch", shuffle=False,
        compiled=False, progress=False)  # fmt: skip
    for _ in range(2):
        for i in range(0, 50, 16):
            hand.zero_grad()
            F.cross_entropy(twin(X[i : i + 16]), Y[i : i + 16]).backward()
            hand.step()
            theirs.step()
    assert bits(model) == bits(twin) and own.param_groups[0]["betas"] == hand.param_groups[0]["betas"] != (0.9, 0.999)


def test_settings_that_change_under_a_compiled_step_are_told() -> None:
    model = net()
    optimizer = optim.SGD(model.parameters(), 0.1, momentum=0.9)
    with pytest.raises(ValueError, match="settings as it began"):
        fit(model, (X, Y), "cross_entropy", optimizer, 3, progress=False,
            callbacks=[lambda epoch, row: optimizer.param_groups[0].update(momentum=0.5)])  # fmt: skip


def test_gradients_are_clipped() -> None:
    """One step of plain descent with rate 1 moves the parameters by the clipped gradient."""
    for options, check in (
        ({"clip_norm": 0.01}, lambda moves: np.sqrt(sum((m**2).sum() for m in moves)) == pytest.approx(0.01, rel=1e-3)),
        ({"clip_value": 0.001}, lambda moves: max(np.abs(m).max() for m in moves) == pytest.approx(0.001, rel=1e-3)),
    ):
        model = net(0.0)
        before = [p.numpy().copy() for p in model.parameters()]
        fit(model, (X, Y), "cross_entropy", optim.SGD(model.parameters(), 1.0), 1, batch_size=50, progress=False, **options)
        assert check([p.numpy() - b for p, b in zip(model.parameters(), before, strict=True)])


def test_early_stopping_restores_the_best() -> None:
    kept: list[list[bytes]] = []
    model = net(0.0)
    stopping = EarlyStopping("val_loss", patience=2)
    history = fit(
        model, (X, Y), "cross_entropy", optim.Adam(model.parameters(), 0.3), 30, validation=(X[:10], 1 - Y[:10]),
        early_stopping=stopping, callbacks=[lambda epoch, row: kept.append(bits(model))], progress=False,
    )  # fmt: skip
    best = int(np.argmin(history["val_loss"]))
    assert history.epochs == best + 3 < 30 and stopping.best_epoch == best + 1
    assert bits(model) == kept[best] != kept[-1]


def test_a_number_is_patience_and_callbacks_can_stop() -> None:
    _, history = trained(50, make=lambda p, lr: optim.SGD(p, 0.0), early_stopping=3, validation=(X, Y), model=net(0.0))
    assert history.epochs <= 6
    assert trained(9, callbacks=[lambda epoch, row: epoch == 2])[1].epochs == 2


def test_frozen_parameters_stay_and_others_move() -> None:
    model = net(0.0)
    frozen = model[0].weight.numpy().copy()
    optimizer = optim.SGD(model[6].parameters(), 0.1)
    fit(model, (X, Y), "cross_entropy", optimizer, 1, progress=False)
    assert (model[0].weight.numpy() == frozen).all()


def test_groups_have_their_own_rates() -> None:
    model = net(0.0)
    before = model[0].weight.numpy().copy()
    groups = [{"params": list(model[0].parameters()), "lr": 0.0}, {"params": list(model[6].parameters()), "lr": 0.1}]
    head = model[6].weight.numpy().copy()
    fit(model, (X, Y), "cross_entropy", optim.SGD(groups), 1, progress=False)
    assert (model[0].weight.numpy() == before).all() and (model[6].weight.numpy() != head).any()


def test_metrics_by_name_function_and_dict() -> None:
    def hits(output: Any, target: Any) -> float:
        return float((output.argmax(1) == target).mean())

    _, history = trained(1, metrics=["accuracy", hits])
    assert history["accuracy"] == history["hits"]
    _, named = trained(1, metrics={"right": hits})
    assert named["right"] == history["hits"]
    ys = X.reshape(50, -1)[:, :1]
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 1))
    regression = fit(model, (X, ys), "mse_loss", optim.Adam(model.parameters(), 0.01), 2, metrics=["mse", "mae"], progress=False)
    assert regression["mse"] == pytest.approx(regression["loss"], rel=1e-5)


def test_predict_is_the_model_in_use_batch_by_batch() -> None:
    model = net()
    trained(1, model=model)
    want = model.eval()(X).numpy()
    assert np.allclose(predict(model.train(), X, batch_size=16), want, atol=1e-6)
    assert (predict(model, X, batch_size=50, compiled=False) == want).all()
    assert predict(model, X[:0]).shape == (0, 2)
    assert model.training


def test_no_epochs_leave_everything() -> None:
    model = net()
    before = bits(model)
    assert trained(0, model=model)[1].epochs == 0 and bits(model) == before


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_lines_without_a_terminal_and_a_bar_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, terminal = io.StringIO(), Terminal()
    monkeypatch.setattr(sys, "stderr", plain)
    trained(2, progress=None)
    assert [line.split("  ")[0] for line in plain.getvalue().splitlines()] == ["epoch 1/2", "epoch 2/2"]
    assert "accuracy 0." in plain.getvalue() and "loss " in plain.getvalue()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setitem(sys.modules, "tqdm", None)  # not installed
    trained(1, progress=None)
    assert terminal.getvalue().startswith("epoch 1/1")


def test_bar_of_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    trained(1, progress=True)
    assert "epoch 1/1" in terminal.getvalue() and "\r" in terminal.getvalue()


def _one_cycle(model: nn.Module) -> Any:
    optimizer = optim.Adam(model.parameters(), 0.01)
    schedule = optim.OneCycleLR(optimizer, 0.1, total_steps=20)
    return fit(model, (X, Y), "cross_entropy", optimizer, 1, schedule=schedule, schedule_every="batch", progress=False)


def _flat() -> Any:
    """The last batch would have one sample, which has no variance: found before the first step."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 2), nn.BatchNorm1d(2))
    before = bits(model)
    try:
        return fit(model, (X, Y), "cross_entropy", optim.SGD(model.parameters(), 0.1), 1, batch_size=49)
    finally:
        assert bits(model) == before


REFUSED: list[tuple[Any, str]] = [
    (lambda m, o: fit(m, (X.astype(np.float64), Y), "cross_entropy", o, 1), "dtype float32; got float64"),
    (lambda m, o: fit(m, (X, Y.astype(np.int32)), "cross_entropy", o, 1), "int32"),
    (lambda m, o: fit(m, (X, Y[:9]), "cross_entropy", o, 1), "as many labels"),
    (lambda m, o: fit(m, (X,), "cross_entropy", o, 1), "a pair"), (lambda m, o: fit(m, X, "cross_entropy", o, 1), "a loader"),
    (lambda m, o: fit(m, (X, Y), "no_such_loss", o, 1), "a loss is"), (lambda m, o: fit(m, (X, Y), "relu", o, 1), "a loss is"),
    (lambda m, o: fit(m, (X, Y), None, o, 1), "a loss is"),
    (lambda m, o: fit(m, (X, Y), "cross_entropy", o, -1), "epochs from 0"),
    (lambda m, o: fit(m, (X, Y), "cross_entropy", o, 1, metrics="f1"), "metrics are"),
    (lambda m, o: _flat(), "more than one value"),
    (lambda m, o: fit(m, (X[:, :, :2], Y), "cross_entropy", o, 1), "larger than padded input"),
    (lambda m, o: fit(m, (X, Y), "cross_entropy", optim.SGD(net().parameters(), 0.1), 1), "parameters of the model"),
    (lambda m, o: fit(m, (X, Y), "cross_entropy", o, 1, early_stopping=EarlyStopping("val_loss")), "validation data"),
    (lambda m, o: fit(m, (X, Y), "cross_entropy", o, 1, schedule=optim.StepLR(optim.SGD(m.parameters()), 1)), "another's"),
    (lambda m, o: fit(m, (X, Y), "cross_entropy", o, 1, schedule_every="step"), "schedule_every"),
    (lambda m, o: _one_cycle(m), "cycle_momentum=False"), (lambda m, o: EarlyStopping(patience=0), "patience from 1"),
    (lambda m, o: History({"a": [1], "b": []}), "one length"), (lambda m, o: History.from_json("[1]"), "JSON object"),
    (lambda m, o: History({"a": [1]}).append({"b": 2}), "same in every epoch"),
]  # fmt: skip


@pytest.mark.parametrize("call, problem", REFUSED, ids=[problem for _, problem in REFUSED])
def test_what_means_nothing_is_refused(call: Any, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    model = net()
    before = bits(model)
    with pytest.raises((ValueError, TypeError), match=problem):
        call(model, optim.Adam(model.parameters(), 0.01))
    assert bits(model) == before


def test_history_writes_a_file(tmp_path: Any) -> None:
    _, history = trained(1)
    history.to_json(tmp_path / "history.json")
    assert json.loads((tmp_path / "history.json").read_text()) == dict(history)
    assert "1 epochs" in repr(history) and history.last["epoch"] == 1
