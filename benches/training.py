"""Training steps beside PyTorch, eager: the rows of its measured table, and one image through two of the networks.

A step forgets the old gradients, runs the network on a batch, takes the cross entropy, goes back and updates every
parameter. Both libraries begin with the same arrays; before anything is timed, their losses must agree over a few steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import lean_nn as ln
from benches.harness import Bench, Pair, torch
from benches.networks import Network, cnn3d_network, is_buffer, lenet_network, resnet_network
from lean_nn import functional as F
from lean_nn import optim

STEPS = 3  # that are compared before timing
TOLERANCE = 2e-3  # of a float32 loss after that many steps; the two round differently


@dataclass(frozen=True)
class Row:
    """A network and how it is trained: `optimizer(library, parameters)`, where both libraries have the same names."""

    label: str
    network: Callable[..., Network]
    tiny: dict[str, int]
    optimizer: Callable[[Any, list[Any]], Any]
    inference: bool = True


ROWS = [
    Row("batch 64, Adam", lenet_network, {"batch": 2, "size": 8, "width": 2}, lambda lib, p: lib.Adam(p, lr=1e-3)),
    Row("batch 32, SGD momentum", resnet_network, {"batch": 2, "size": 8, "depth": 1, "width": 2},
        lambda lib, p: lib.SGD(p, lr=0.01, momentum=0.9)),
    Row("batch 4 of 32³, SGD", cnn3d_network, {"batch": 2, "size": 4, "width": 2}, lambda lib, p: lib.SGD(p, lr=0.01),
        inference=False),
]  # fmt: skip


def our_step(network: Network, arrays: dict[str, Any], x: Any, t: Any, row: Row) -> Callable[[], Any]:
    """A function that makes one step and gives its loss."""
    params = {name: ln.tensor(a, requires_grad=not is_buffer(name)) for name, a in arrays.items()}
    optimizer = row.optimizer(optim, network.trained(params))
    image, target = ln.tensor(x), ln.tensor(t)

    def step() -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(network.forward(params, image, True), target)
        loss.backward()
        optimizer.step()
        return loss

    return step


def their_step(network: Network, arrays: dict[str, Any], x: Any, t: Any, row: Row) -> Callable[[], Any]:
    """The same in PyTorch."""
    G = torch.nn.functional
    params = {name: torch.from_numpy(a.copy()).requires_grad_(not is_buffer(name)) for name, a in arrays.items()}
    optimizer = row.optimizer(torch.optim, network.trained(params))
    image, target = torch.from_numpy(x), torch.from_numpy(t)

    def step() -> Any:
        optimizer.zero_grad()
        loss = G.cross_entropy(network.forward(params, image, True, G), target)
        loss.backward()
        optimizer.step()
        return loss

    return step


def _training(network: Network, row: Row) -> Pair:
    rng = np.random.default_rng(0)
    arrays, (x, t) = network.make(rng), network.batch(rng)
    ours = our_step(network, arrays, x, t, row)
    if torch is None:
        return Pair(ours, None)
    theirs = their_step(network, arrays, x, t, row)
    for number in range(STEPS):
        mine, yours = ours().item(), theirs().item()
        if not abs(mine - yours) <= TOLERANCE * abs(yours):
            raise RuntimeError(f"{network.name}: losses agree before they are timed; got {mine} and {yours} at step {number}")
    return Pair(ours, theirs)


def _inference(network: Network) -> Pair:
    rng = np.random.default_rng(0)
    arrays, (x, _) = network.make(rng), network.batch(rng)
    params, image = {name: ln.tensor(a) for name, a in arrays.items()}, ln.tensor(x)

    def ours() -> Any:
        with ln.no_grad():
            return network.forward(params, image, False)

    if torch is None:
        return Pair(ours, None)
    yours, picture = {name: torch.from_numpy(a) for name, a in arrays.items()}, torch.from_numpy(x)

    def theirs() -> Any:
        with torch.no_grad():
            return network.forward(yours, picture, False, torch.nn.functional)

    return Pair(ours, theirs)


def benches(tiny: bool = False) -> Iterator[Bench]:
    """A bench per training step, then one image through the networks that are served one by one."""
    for row in ROWS:
        name = row.network().name
        sizes = row.tiny if tiny else {}
        yield Bench("training", f"{name}, {row.label}", "step", "float32",
                    lambda r=row, s=sizes: _training(r.network(**s), r))  # fmt: skip
    for row in ROWS:
        if row.inference:
            sizes = {**(row.tiny if tiny else {}), "batch": 1}
            yield Bench("inference", f"{row.network().name}, one image", "fwd", "float32",
                        lambda r=row, s=sizes: _inference(r.network(**s)))  # fmt: skip
