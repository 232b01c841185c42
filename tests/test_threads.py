"""Threads: how many, where they apply, forks, many Python threads at once; results never depend on them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lean_nn as ln
from lean_nn import functional as F
from lean_nn_c import threads as compiled


@pytest.fixture(autouse=True)
def _same_threads_afterwards() -> Iterator[None]:
    before = ln.get_num_threads()
    yield
    ln.set_num_threads(before)


def work(dtype: str = "float32") -> list[np.ndarray[Any, Any]]:
    """A network's worth of operators, large enough to be split: values and gradients."""
    rng = np.random.default_rng(3)
    x, w, v, b = (rng.standard_normal(s).astype(dtype) for s in [(4, 8, 24, 24), (16, 8, 3, 3), (10, 16), (16,)])
    tx, tw, tv, tb = (ln.tensor(a, requires_grad=True) for a in (x, w, v, b))
    h = F.max_pool2d(F.relu(F.conv2d(tx, tw, tb, padding=1)), 3, 2, 1)
    h = F.avg_pool2d(F.smooth_max_pool2d(h, 2, 3.0), 2)
    h = F.linear(F.adaptive_avg_pool2d(h, 1).reshape(4, 16), tv)
    loss = F.cross_entropy(h, ln.tensor(np.arange(4)))
    loss.backward()
    return [h.numpy(), loss.numpy(), *(t.grad.numpy() for t in (tx, tw, tv, tb))]


def same(a: list[np.ndarray[Any, Any]], b: list[np.ndarray[Any, Any]]) -> bool:
    return all(p.tobytes() == q.tobytes() for p, q in zip(a, b, strict=True))


# --- the setting ---


def test_set_and_get() -> None:
    ln.set_num_threads(3)
    assert ln.get_num_threads() == 3


def test_context_nests_and_restores() -> None:
    ln.set_num_threads(2)
    with ln.num_threads(5):
        assert ln.get_num_threads() == 5
        with ln.num_threads(1):
            assert ln.get_num_threads() == 1
        assert ln.get_num_threads() == 5
    assert ln.get_num_threads() == 2


def test_context_restores_after_an_error() -> None:
    ln.set_num_threads(2)
    with pytest.raises(RuntimeError), ln.num_threads(4):
        raise RuntimeError
    assert ln.get_num_threads() == 2


def test_context_is_a_decorator_and_may_be_used_again() -> None:
    ln.set_num_threads(2)

    @ln.num_threads(7)
    def count() -> int:
        return ln.get_num_threads()

    assert [count(), count(), ln.get_num_threads()] == [7, 7, 2]


def test_context_belongs_to_its_python_thread() -> None:
    ln.set_num_threads(2)
    seen: list[int] = []
    with ln.num_threads(6):
        thread = threading.Thread(target=lambda: seen.append(ln.get_num_threads()))
        thread.start()
        thread.join()
    assert seen == [2]


@pytest.mark.parametrize("n", [0, -1, 10**6])
@pytest.mark.parametrize("setter", [ln.set_num_threads, ln.num_threads])
def test_impossible_counts(setter: Callable[[int], Any], n: int) -> None:
    with pytest.raises(ValueError, match=rf"num_threads: 1 to 4096 threads; got {n}; pass a number in that range"):
        setter(n)


@pytest.mark.parametrize("n", [1.5, "2", None])
@pytest.mark.parametrize("setter", [ln.set_num_threads, ln.num_threads])
def test_counts_that_are_no_whole_numbers(setter: Callable[[Any], Any], n: Any) -> None:
    with pytest.raises(TypeError, match=r"num_threads: a whole number is needed; got .*; pass an int"):
        setter(n)


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, 64),
        ({"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 64),
        ({"cpu/cpu.cfs_quota_us": "5", "cpu/cpu.cfs_period_us": "0"}, 64),
        ({"cpu.max": "garbage"}, 64),
        ({}, 64),
    ],
)
def test_default_respects_the_containers_quota(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, str], cores: int
) -> None:
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert compiled.default_num_threads(str(tmp_path)) == cores
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert compiled.default_num_threads(str(tmp_path)) == min(cores, 3)


# --- results do not depend on them ---


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_same_bits_for_any_number_of_threads(dtype: str) -> None:
    with ln.num_threads(1):
        expected = work(dtype)
    for n in (2, 3, 4, 7):
        with ln.num_threads(n):
            assert same(work(dtype), expected), n


def test_many_python_threads_at_once_agree() -> None:
    ln.set_num_threads(2)
    expected = work()
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: work(), range(24)))
    assert all(same(result, expected) for result in results)


def test_recording_belongs_to_its_python_thread() -> None:
    x = ln.tensor([1.0], requires_grad=True)
    with ln.no_grad(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: (x * x).requires_grad).result()
        assert not (x * x).requires_grad


# --- forks ---


def _child(expected: list[np.ndarray[Any, Any]]) -> int:
    """What a forked child does: compute, on one thread and on two; 0 when all is as it should be."""
    if ln.get_num_threads() != 1:
        return 2
    if not same(work(), expected):
        return 3
    return 0


def _wait(pid: int) -> int:
    """The child's exit code; a child that hangs is ended after 60 seconds."""
    timer = threading.Timer(60, os.kill, (pid, signal.SIGKILL))
    timer.start()
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        timer.cancel()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_after_use() -> None:
    """libgomp's threads do not survive a fork; the child must neither hang nor differ."""
    ln.set_num_threads(2)
    expected = work()
    pid = os.fork()
    if pid == 0:
        code = 9
        try:
            code = _child(expected)
        finally:
            os._exit(code)
    assert _wait(pid) == 0
    assert ln.get_num_threads() == 2
    assert same(work(), expected)


def _sum_of_work(seed: int) -> float:
    return float(sum(np.abs(a).sum(dtype=np.float64) for a in work())) + seed


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_multiprocessing_fork() -> None:
    ln.set_num_threads(2)
    expected = _sum_of_work(0)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = pool.map_async(_sum_of_work, range(4)).get(timeout=120)
    assert results == [expected + seed for seed in range(4)]


@pytest.mark.parametrize("rows", [5, 32, 37])
@pytest.mark.parametrize("transposed", [False, True])
def test_one_small_image_is_shared_by_its_channels(rows: int, transposed: bool) -> None:
    """A strip that is alone is filled by every thread, for channels of its own: the bits of one thread."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 2, 40, 40), np.float32), rng.standard_normal((rows, 2, 5, 5), np.float32)
    b = rng.standard_normal(rows, np.float32)
    if transposed:
        w = np.ascontiguousarray(w.swapaxes(0, 1))
    call = F.conv_transpose2d if transposed else F.conv2d
    with ln.num_threads(1):
        want = call(x, w, b, padding=2).numpy()
    for threads in (2, 3, 7):
        with ln.num_threads(threads):
            assert call(x, w, b, padding=2).numpy().tobytes() == want.tobytes()


@pytest.mark.parametrize("shape", [(1, 3136, 128), (1, 3000, 125), (5, 2100, 61), (3000, 100, 5), (1, 5000, 13)])
def test_dot_products_are_shared_by_columns(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((m, k), np.float32), rng.standard_normal((n, k), np.float32)
    with ln.num_threads(1):
        want = F.linear(x, w).numpy()
    np.testing.assert_allclose(want, x.astype(float) @ w.T.astype(float), rtol=0, atol=1e-3)
    for threads in (2, 3, 7):
        with ln.num_threads(threads):
            assert F.linear(x, w).numpy().tobytes() == want.tobytes()
