"""Batches: shuffled by a seed, prepared ahead by a thread, resumed where they stopped.

A `Loader` is a place in an endless row of epochs. Everything random depends on (seed, epoch) for the order and on (seed, epoch,
number of the batch) for its transform, and on nothing else: not on the thread, not on what was drawn before. So a loader put
back to a place gives the same bits from there on, and reading ahead changes nothing.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Loader", "split"]

Array = NDArray[Any]
Transform = Callable[[Array, np.random.Generator], Array]
ORDER, TRANSFORM = 0, 1  # what randomness is for: the first part of a generator's key


def generator(seed: int, *key: int) -> np.random.Generator:
    """The generator for one purpose: different keys are independent of each other."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def _same_length(op: str, x: Any, y: Any) -> None:
    if getattr(x, "ndim", 0) < 1 or getattr(y, "ndim", 0) < 1 or len(x) != len(y):
        raise ValueError(f"{op}: x and y are arrays with a row per sample; got shapes {np.shape(x)} and {np.shape(y)}; "
                         f"pass as many labels as samples")


def split(x: Array, y: Array, test: float = 0.2, seed: int = 0) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """((x, y) to train with, (x, y) to test with), chosen at random by a seed.

    Parameters
    ----------
    test : the share of the samples that are held out, rounded to whole samples

    Examples
    --------
    >>> import numpy as np
    >>> from lean_nn.data import split
    >>> (x, y), (x_test, y_test) = split(np.arange(10.0), np.arange(10), test=0.3)
    >>> len(x), len(x_test), sorted([*y.tolist(), *y_test.tolist()])
    (7, 3, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    _same_length("split", x, y)
    if not 0 < test < 1:
        raise ValueError(f"split: test is a share between 0 and 1; got {test}; pass 0.2 for a fifth")
    held = round(len(x) * test)
    if not 0 < held < len(x):
        raise ValueError(f"split: both parts have samples; got {len(x) - held} and {held}; pass more samples")
    order = generator(seed, ORDER).permutation(len(x))
    first, second = order[held:], order[:held]
    return (x[first], y[first]), (x[second], y[second])


class Loader:
    """Batches ``(x, y)`` of one epoch per loop, in an order that the seed decides.

    Parameters
    ----------
    x, y : arrays with a row per sample; arrays mapped from disk stay there
    batch_size : samples per batch; the last batch of an epoch has what is left
    shuffle : a new order for each epoch
    seed : decides orders and transforms
    transform : called as ``transform(x, rng)`` on each batch, with a generator of the batch's own (`lean_nn.data.augment`)
    prefetch : batches that a thread prepares ahead; 0 for none
    drop_last : leave out a last batch that is not full

    A loop that is left early goes on with the next batch when the loader is looped over again; `state_dict` is that place.

    Examples
    --------
    >>> import numpy as np
    >>> from lean_nn.data import Loader
    >>> loader = Loader(np.arange(5.0), np.arange(5), batch_size=2, shuffle=False)
    >>> [labels.tolist() for _, labels in loader]
    [[0, 1], [2, 3], [4]]
    >>> loader.epoch, len(loader)
    (1, 3)
    """

    def __init__(
        self, x: Any, y: Any, batch_size: int = 32, shuffle: bool = True, seed: int = 0, transform: Transform | None = None,
        prefetch: int = 2, drop_last: bool = False,
    ) -> None:  # fmt: skip
        _same_length("Loader", x, y)
        if index(batch_size) < 1:
            raise ValueError(f"Loader: a batch has at least one sample; got {batch_size}; pass a larger batch_size")
        if index(prefetch) < 0:
            raise ValueError(f"Loader: prefetch is a number of batches; got {prefetch}; pass 0 for none")
        self.x, self.y, self.batch_size, self.shuffle, self.seed = x, y, index(batch_size), bool(shuffle), index(seed)
        self.transform, self.prefetch, self.drop_last = transform, index(prefetch), bool(drop_last)
        self.epoch = self.batch = 0
        if not len(self):
            raise ValueError(f"Loader: an epoch has at least one batch; got {len(x)} samples in batches of {batch_size}; "
                             f"pass more samples, or drop_last=False")

    def __len__(self) -> int:
        """Batches per epoch."""
        count = len(self.x)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        """The batches from the present place to the end of the epoch."""
        batches = self._batches(self.epoch, self.batch)
        for batch in _ahead(batches, self.prefetch) if self.prefetch else batches:
            self.batch += 1
            if self.batch == len(self):
                self.epoch, self.batch = self.epoch + 1, 0
            yield batch

    def _batches(self, epoch: int, first: int) -> Iterator[tuple[Array, Array]]:
        order = generator(self.seed, ORDER, epoch).permutation(len(self.x)) if self.shuffle else np.arange(len(self.x))
        for i in range(first, len(self)):
            rows = order[i * self.batch_size : (i + 1) * self.batch_size]
            x, y = np.asarray(self.x[rows]), np.asarray(self.y[rows])
            if self.transform is not None:
                x = self.transform(x, generator(self.seed, TRANSFORM, epoch, i))
            yield x, y

    def state_dict(self) -> dict[str, int]:
        """The place: epoch, next batch, and what the order depends on. Plain numbers, for any file."""
        return {
            "epoch": self.epoch, "batch": self.batch, "seed": self.seed, "samples": len(self.x),
            "batch_size": self.batch_size, "shuffle": int(self.shuffle), "drop_last": int(self.drop_last),
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go to a place that `state_dict` told; the loader must be made alike."""
        mine = self.state_dict()
        if set(state) != set(mine):
            raise ValueError(f"Loader: a state has {sorted(mine)}; got {sorted(state)}; pass what state_dict returned")
        other = {key: int(state[key]) for key in mine if key not in ("epoch", "batch") and int(state[key]) != mine[key]}
        if other:
            raise ValueError(f"Loader: the state was saved with {other}; got {({key: mine[key] for key in other})}; "
                             f"make the loader as it was")
        epoch, batch = int(state["epoch"]), int(state["batch"])
        if epoch < 0 or not 0 <= batch < len(self):
            raise ValueError(f"Loader: a place is an epoch and one of {len(self)} batches; got {epoch}, {batch}")
        self.epoch, self.batch = epoch, batch


def _ahead(batches: Iterator[Any], count: int) -> Iterator[Any]:
    """The same batches, up to `count` of them made by a thread before they are asked for."""
    ready: queue.Queue[tuple[str, Any]] = queue.Queue(count)
    stopped = threading.Event()

    def put(kind: str, value: Any = None) -> bool:
        while not stopped.is_set():
            try:
                ready.put((kind, value), timeout=0.05)
                return True
            except queue.Full:  # look again whether anybody still wants it
                continue
        return False

    def work() -> None:
        try:
            for batch in batches:
                if not put("batch", batch):
                    return
            put("end")
        except BaseException as problem:
            put("problem", problem)

    thread = threading.Thread(target=work, name="lean_nn loader", daemon=True)
    thread.start()
    try:
        while True:
            kind, value = ready.get()
            if kind == "end":
                return
            if kind == "problem":
                raise value
            yield value
    finally:
        stopped.set()
        thread.join()
