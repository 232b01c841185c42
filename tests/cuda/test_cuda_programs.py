"""The layers above the primitives on a device: transforms, tapes, compiled programs, a step of training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lean_nn as ln
import lean_nn.functional as F
from lean_nn import nn, tree

RNG = np.random.default_rng(0)
IMAGES = RNG.standard_normal((4, 1, 8, 8)).astype(np.float32)
CLASSES = np.array([0, 2, 1, 2])
WEIGHTS = {
    "conv": RNG.standard_normal((3, 1, 3, 3)).astype(np.float32) / 3,
    "scale": np.ones(3, np.float32), "shift": np.zeros(3, np.float32),
    "linear": RNG.standard_normal((3, 48)).astype(np.float32) / 7,
}  # fmt: skip


def loss(weights: dict[str, Any], images: Any, classes: Any) -> Any:
    x = F.conv2d(images, weights["conv"], padding=1)
    x = F.batch_norm(x, None, None, weights["scale"], weights["shift"], training=True)
    x = F.max_pool2d(F.gelu(x), 2)
    x = F.dropout(x, 0.25, seed=3)
    return F.cross_entropy(F.linear(F.flatten(x, 1), weights["linear"]), classes)


def place(arrays: Any, device: str) -> Any:
    return tree.transform(lambda a: ln.from_numpy(a, device), arrays)


def host(tensors: Any) -> list[np.ndarray]:
    return [ln.tensor(t, device="cpu").numpy() for t in tree.leaves(tensors)]


def agree(got: Any, wanted: Any, tolerance: float = 3e-5) -> None:
    for g, w in zip(host(got), host(wanted), strict=True):
        assert g.shape == w.shape and np.allclose(g, w, rtol=tolerance, atol=tolerance)


def on_both(f: Any) -> tuple[Any, Any]:
    return tuple(f(place(WEIGHTS, d), place(IMAGES, d), place(CLASSES, d)) for d in ("cpu", "cuda"))  # type: ignore[return-value]


def test_value_gradient_and_hessian_product() -> None:
    wanted, got = on_both(ln.value_and_grad(loss))
    agree(got, wanted)
    assert {t.device for t in tree.leaves(got)} == {"cuda:0"}

    def product(w: Any, x: Any, c: Any) -> Any:
        return ln.hvp(lambda conv: loss({**w, "conv": conv}, x, c), (w["conv"],), (w["conv"],))

    wanted, got = on_both(product)
    agree(got, wanted, 2e-4)


def test_jacobians() -> None:
    def f(x: Any) -> Any:
        return F.avg_pool1d(F.tanh(x), 2)

    for matrix in (ln.jacfwd, ln.jacrev):
        x = IMAGES[0, :, 0]
        agree(matrix(f)(ln.from_numpy(x, "cuda")), matrix(f)(ln.from_numpy(x)))


def test_tape_and_backward() -> None:
    results = []
    for device in ("cpu", "cuda"):
        x = ln.tensor(IMAGES, requires_grad=True, device=device)
        with ln.Tape() as tape:
            y, idx = F.max_pool2d(x, 2, return_indices=True)
            unused = x * 2.0
        assert unused.device == x.device
        pushed, pulled = tape.push({x: x.detach()})[y], tape.pull({y: y.detach()})[x]
        F.max_pool2d(x, 2).sum().backward()
        results.append((pushed, pulled, x.grad, idx))
    assert [a.tobytes() for a in host(results[1])] == [a.tobytes() for a in host(results[0])]


def test_compiled_programs_run_on_device_arrays() -> None:
    program = ln.compile(loss, WEIGHTS, IMAGES, CLASSES)
    wanted = program(WEIGHTS, IMAGES, CLASSES)
    got = program(place(WEIGHTS, "cuda"), place(IMAGES, "cuda"), place(CLASSES, "cuda"))
    assert got.device == "cuda:0"
    agree(got, wanted)
    raw = program(*[tree.transform(lambda t: t.data, place(a, "cuda")) for a in (WEIGHTS, IMAGES, CLASSES)])
    assert type(raw) is type(got.data)  # arrays for arrays


def test_programs_differentiate_on_the_device() -> None:
    program = ln.compile(lambda x: F.max_pool2d(F.conv2d(x, WEIGHTS["conv"]), 2), IMAGES)
    t = RNG.standard_normal(IMAGES.shape).astype(np.float32)
    for wanted, got in (
        (program.jvp((IMAGES,), (t,)), program.jvp((place(IMAGES, "cuda"),), (place(t, "cuda"),))),
        (program.vjp((IMAGES,), program(t)), program.vjp((place(IMAGES, "cuda"),), place(program(t), "cuda"))),
    ):
        agree(got, wanted)
    x = ln.tensor(IMAGES, requires_grad=True, device="cuda")
    program(x).sum().backward()
    assert x.grad.device == "cuda:0"


def test_constants_are_copied_to_the_device_once(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = ln.tensor(WEIGHTS["conv"], device="cuda")  # a constant from the device is kept in host memory
    program = ln.compile(lambda x: F.conv2d(x, weight), IMAGES)
    x = place(IMAGES, "cuda")
    first = program(x)
    agree(first, program(IMAGES))
    from lean_nn.graph import trace

    monkeypatch.setattr(trace, "move", lambda *_: pytest.fail("copied again"))
    agree(program(x), first, 0)


def test_program_errors_on_the_device() -> None:
    program = ln.compile(lambda x, y: x + y, (2,), (2,))
    on, off = ln.tensor([1.0, 2.0], device="cuda"), ln.tensor([1.0, 2.0])
    with pytest.raises(TypeError, match="^program: arguments on one device are needed; got cuda:0, cpu"):
        program(on, off)
    with pytest.raises(ValueError, match="^program: out= is for arrays in host memory; got arguments on a device"):
        program(on, on, out=np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="^profile: arguments in host memory are needed; got some on cuda:0"):
        program.profile(on, on)


def test_updates_happen_all_at_once() -> None:
    def swap(a: Any, b: Any, x: Any) -> Any:
        return b, a + x, a

    results = []
    for device in ("cpu", "cuda"):
        a, b, x = (place(np.full(3, n, np.float32), device) for n in (1, 2, 10))
        program = ln.compile(swap, a, b, x, inplace=(0, 1))
        out = program(x)
        results.append([*host((a, b)), *host(out)])
    assert [r.tolist() for r in results[1]] == [r.tolist() for r in results[0]] == [[2.0] * 3, [11.0] * 3, [1.0] * 3]


@pytest.mark.parametrize("make", [ln.optim.SGD, ln.optim.Adam, ln.optim.RMSprop, ln.optim.Adagrad], ids=lambda m: m.__name__)
def test_optimisers_step_where_the_parameters_lie(make: Any) -> None:
    results = []
    for device in ("cpu", "cuda"):
        weights = {name: ln.tensor(a, requires_grad=True, device=device) for name, a in WEIGHTS.items()}
        optimizer = make(weights.values(), lr=0.05)
        for _ in range(2):
            optimizer.zero_grad()
            loss(weights, place(IMAGES, device), place(CLASSES, device)).backward()
            ln.optim.clip_grad_norm_(weights.values(), 1.0)
            optimizer.step()
        again = make(weights.values(), lr=0.05)
        again.load_state_dict(optimizer.state_dict())
        results.append(weights)
    agree(results[1], results[0], 2e-4)


def test_a_training_step_of_a_small_cnn_compiled() -> None:
    """Gradient and Adam's update in one program whose state lies on the device."""
    results = []
    for device in ("cpu", "cuda"):
        weights = {name: ln.tensor(a, requires_grad=True, device=device) for name, a in WEIGHTS.items()}
        optimizer = ln.optim.Adam(list(weights.values()), lr=0.01)

        def step(weights: Any, state: Any, x: Any, c: Any, optimizer: Any = optimizer) -> Any:
            value, grads = ln.value_and_grad(loss)(weights, x, c)
            return *optimizer.update(weights, grads, state), value

        plain = {name: t.detach() for name, t in weights.items()}
        state = optimizer.init(plain)
        images, classes = place(IMAGES, device), place(CLASSES, device)
        train = ln.compile(step, plain, state, images, classes, inplace=(0, 1))
        losses = [float(train(images, classes)) for _ in range(3)]
        assert losses[2] < losses[0]
        results.append((losses, plain))
    assert np.allclose(results[0][0], results[1][0], rtol=1e-4)
    agree(results[1][1], results[0][1], 1e-3)


@pytest.mark.parametrize("compiled", [True, False])
def test_fit_where_the_model_lies(compiled: bool, tmp_path: Any) -> None:
    """Batches go to the model's device, losses and outputs come back; a checkpoint is taken up again there. Matrix products
    and reductions are the library's, so weights agree within a few roundings a step."""
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((10, 1, 8, 8)).astype(np.float32), rng.integers(0, 3, 10)
    results = []
    for device in ("cpu", "cuda"):
        ln.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(1, 3, 3, bias=False), nn.BatchNorm2d(3), nn.ReLU(), nn.AvgPool2d(2), nn.Dropout(0.2),
                              nn.Flatten(), nn.Linear(27, 3))  # fmt: skip
        model = model.cuda() if device == "cuda" else model
        for epochs in (1, 3):  # three batches each, the last of two samples
            history = ln.fit(model, (x, y), "cross_entropy", ln.optim.Adam(model.parameters(), lr=0.01), epochs=epochs,
                             batch_size=4, metrics="accuracy", validation=(x, y), clip_norm=1.0, compiled=compiled,
                             checkpoint=tmp_path / f"{device}.npz", progress=False)  # fmt: skip
        assert {p.device for p in model.parameters()} == {str(place(x, device).device)}
        results.append((history, model.state_dict(), ln.training.predict(model, x)))
    (history, wanted, outputs), (other, got, others) = results
    assert other["accuracy"] == history["accuracy"] and np.allclose(other["val_loss"], history["val_loss"], rtol=2e-6)
    assert all(np.allclose(got[name], wanted[name], rtol=0, atol=2e-6) for name in wanted)
    assert np.allclose(others, outputs, rtol=0, atol=1e-5)


def test_running_statistics_are_updated_on_the_device() -> None:
    results = []
    for device in ("cpu", "cuda"):
        model = nn.BatchNorm2d(1)
        model = model.cuda() if device == "cuda" else model
        model(place(IMAGES, device))
        results.append(list(model.buffers()))
    agree(results[1], results[0])


def test_saved_programs_hold_host_memory(tmp_path: Any) -> None:
    w = ln.tensor([2.0], device="cuda")
    program = ln.compile(lambda w, x: (w * x, w), w, (1,), inplace=0)
    program.save(tmp_path / "step.lnn")
    again = ln.load_program(tmp_path / "step.lnn")
    assert float(again(np.array([3.0], np.float32))[0]) == 2.0
