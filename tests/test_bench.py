"""Every bench runs on its tiniest shape, so that none rots."""

from __future__ import annotations

import csv
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lean_nn as ln
from benches import (
    conv,
    drawn,
    forward,
    graph,
    layers,
    mnist,
    overhead,
    peak,
    pool,
    predict,
    report,
    threads,
    training,
    windows,
)
from benches.__main__ import MODULES
from benches.harness import Bench, Result, run

ROOT = Path(__file__).resolve().parent.parent
TINY = [bench for module in MODULES for bench in module.benches(tiny=True)]


@pytest.fixture(autouse=True)
def _same_threads_afterwards():
    before = ln.get_num_threads()
    yield
    ln.set_num_threads(before)


@pytest.mark.parametrize("bench", TINY, ids=str)
def test_bench_runs(bench: Bench) -> None:
    (result,) = run([bench], [1], {1: {"GB/s": 10.0, "GFLOP/s float32": 50.0, "GFLOP/s float64": 25.0}}, seconds=0.0)
    assert result.ours > 0
    assert (result.rate is not None) == bool(bench.unit)
    assert report.line(result).startswith(bench.group)


def test_every_listed_row_is_there() -> None:
    """The peers' tables: twelve convolutions and nine poolings."""
    assert len([shape for shape in conv.LISTED if shape.listed]) == 12
    assert len([shape for shape in pool.LISTED if shape.listed]) == 9
    assert conv.LISTED[0].name == "1×64×56²; 64×64×3²; 1,1"
    assert pool.LISTED[0].name == "max 3² s2 p1, 1×64×112²"


def test_flops_of_a_known_convolution() -> None:
    assert conv.LISTED[0].flops() == 2 * 64 * 64 * 9 * 56 * 56


def test_threads_are_measured() -> None:
    """A row, then its primitives: forward and both gradients of a convolution."""
    rows = [bench for bench in conv.benches(tiny=True) if bench.mode == "fwd+bwd"][:1]
    before = ln.get_num_threads()
    try:
        found = list(threads.gains(rows, threads.Clock(2, 0.0)))
    finally:
        ln.set_num_threads(before)
    assert [gain.name.split()[0] for gain in found] == [rows[0].group, "conv", "conv_input", "conv_weight", "sum"]
    assert all(gain.alone > 0 and 0 <= gain.quiet <= 1 and gain.name[:20] in threads.line(gain) for gain in found)


@pytest.mark.parametrize(("bench", "calls"), [(layers, layers.CONTRACTIONS), (windows, ("fwd", "fwd+bwd"))])
def test_what_is_drawn_is_measured(bench: Any, calls: tuple[str, ...]) -> None:
    """A seed draws the same shapes every time, and each gives a row for every call."""
    before = ln.get_num_threads()
    try:
        found = list(drawn.timings(bench.draw, bench.pairs, 3, 5, 1, 0.0))
    finally:
        ln.set_num_threads(before)
    again = random.Random(5)
    shapes = [bench.draw(again) for _ in range(3)]
    assert [(f.kind, f.shape, f.call) for f in found] == [(*shape, call) for shape in shapes for call in calls]
    assert all(f.ours > 0 and f.shape.name in drawn.line(f) for f in found)
    if drawn.torch is not None:
        assert any(line.startswith(f"{calls[-1]}, all: geometric mean") for line in drawn.summary(found))


def test_forward_mode_is_measured() -> None:
    found = list(forward.costs(tiny=True))
    assert len(found) > 15 and all(cost.units > 0 and cost.name in forward.line(cost) for cost in found)


def test_compiled_beside_eager_compile_times_and_memory() -> None:
    assert all("packed by each call ÷ once: 8 rows" in line for line in graph.beside_unpacked(tiny=True, threads=[1]))
    lines = list(graph.beside_eager(tiny=True, threads=[1]))
    assert len(lines) == 5 and all(re.search(r"compiled .* ms, eager .* ms, ratio \d", line) for line in lines)
    assert re.search(r"16,000 relu nodes: .* 32,000: .* ratio \d", graph.compile_times(tiny=True))
    if Path("/proc/self/clear_refs").exists():
        assert re.search(r"LeNet, batch 2: peak said .* MB, measured .* MB, ratio \d", graph.memory("LeNet", 2))


def test_training_rows_are_there_and_agree_with_the_peer() -> None:
    """Making a training bench compares losses with PyTorch, where that is installed."""
    assert [row.network().name for row in training.ROWS] == ["LeNet", "ResNet-20", "3-D CNN"]
    for row in training.ROWS:
        assert len(row.network().make(np.random.default_rng(0))) == len(row.network().shapes)


def test_mnist_runs_on_images_without_meaning() -> None:
    line = mnist.run(mnist.made_up(), epochs=1, threads=1, size=8, width=2)
    assert re.match(r"1 thread, 1 epochs: ours \d+\.\d+ s, \d+\.\d+ % held out", line)


def test_scaling_compares_rows_above_two_milliseconds() -> None:
    def result(name: str, n: int, ours: float) -> Result:
        return Result("g", name, "fwd", "float32", n, ours, 0.0, None, None, None, None, "", None)

    rows = [result("a", 1, 4e-3), result("a", 2, 2e-3), result("b", 1, 9e-3), result("b", 2, 6e-3), result("c", 1, 1e-3),
            result("c", 2, 1e-3)]  # fmt: skip
    (line,) = report.scaling(rows)
    assert "least 1.50 (b)" in line and "mean 1.73 of 2 rows" in line


def test_peaks_are_positive() -> None:
    assert all(value > 0 for value in peak.measure(1, 0.01).values())


def test_import_cost_is_measured() -> None:
    cost = overhead.import_cost(1)
    assert 0 < cost["ms"] < 2000 and cost["MB"] < 100


def test_a_whole_process_is_measured(tmp_path: Path) -> None:
    (numpy_time, _, numpy_size), (time, _, size) = predict.measured(predict.commands(tmp_path), 1)
    assert numpy_time > 0 and time > 0
    assert numpy_size < size < numpy_size + 15  # what the command may take beside NumPy's own memory


def test_command_line(tmp_path: Path) -> None:
    table = tmp_path / "out.csv"
    text = tmp_path / "out.md"
    command = [sys.executable, "-m", "benches", "--tiny", "--filter", "^pool max", "--threads", "1,2",
               "--csv", str(table), "--markdown", str(text)]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, check=True)
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * len([s for s in pool.LISTED if s.kind == "max"])
    assert {row["threads"] for row in rows} == {"1", "2"}
    assert "pool: max" in done.stdout and text.read_text().count("| pool: max") == len(rows)
