"""Results as text, CSV, Markdown and a bar chart."""

from __future__ import annotations

import csv
import datetime
import math
import platform
from collections.abc import Iterable
from pathlib import Path

from benches.harness import Result, cores, torch
from lean_nn import __version__
from lean_nn.config import config

HEADINGS = ("bench", "threads", "ours", "torch", "ratio", "rate", "of peak", "spread")
WIDTHS = (66, 8, 11, 11, 7, 15, 8, 0)


def machine() -> str:
    """The machine, the software and the date, in one line: no figure without them."""
    cpu = platform.processor() or platform.machine()
    try:
        names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].split(":")[1].strip() if names else cpu
    except OSError:
        pass
    peer = f"PyTorch {torch.__version__}" if torch is not None else "no PyTorch"
    return (
        f"{cpu}, {cores()} cores, {config()['isa']['chosen']}; lean_nn {__version__}, {peer}, "
        f"Python {platform.python_version()}; {datetime.date.today().isoformat()}"
    )


def threads(n: int) -> str:
    """``1 thread``, ``2 threads``."""
    return f"{n} thread{'s' * (n != 1)}"


def duration(seconds: float | None) -> str:
    """Three digits and a unit."""
    if seconds is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _cells(result: Result) -> tuple[str, ...]:
    spread = f"+{100 * result.ours_spread:.0f}%"
    if result.theirs_spread is not None:
        spread += f" / +{100 * result.theirs_spread:.0f}%"
    return (
        f"{result.group}: {result.name} {result.mode} {result.dtype}",
        str(result.threads),
        duration(result.ours),
        duration(result.theirs),
        f"{result.ratio:.2f}" if result.ratio else "-",
        f"{result.rate:.1f} {result.unit}" if result.rate else "-",
        f"{100 * result.share:.0f}%" if result.share else "-",
        spread,
    )


def _row(cells: tuple[str, ...]) -> str:
    return "".join(f"{cell:<{width}}" for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()


def heading() -> str:
    """The column names; ratio = torch ÷ ours, above 1 is ours; spread = how far the middle sample is above the best."""
    return _row(HEADINGS)


def line(result: Result) -> str:
    """One result on one line."""
    return _row(_cells(result))


def summary(results: Iterable[Result]) -> list[str]:
    """Least ratio and geometric mean of each group, pass, dtype and number of threads."""
    groups: dict[tuple[str, str, str, int], list[float]] = {}
    for r in results:
        if r.ratio:
            groups.setdefault((r.group, r.mode, r.dtype, r.threads), []).append(r.ratio)
    return [
        f"{group} {mode} {dtype}, {threads(n)}: least {min(ratios):.2f}, "
        f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f} of {len(ratios)}"
        for (group, mode, dtype, n), ratios in groups.items()
    ]


def scaling(results: Iterable[Result], least: float = 2e-3) -> list[str]:
    """How many times faster each group is with more threads than with one, over rows that take `least` seconds or more."""
    by = {(r.group, r.mode, r.dtype, r.name, r.threads): r.ours for r in results}
    groups: dict[tuple[str, str, str, int], list[tuple[float, str]]] = {}
    for (group, mode, dtype, name, n), time in by.items():
        alone = by.get((group, mode, dtype, name, 1))
        if n > 1 and alone is not None and alone >= least:
            groups.setdefault((group, mode, dtype, n), []).append((alone / time, name))
    return [
        f"{group} {mode} {dtype}, {threads(n)} beside 1: least {min(gains)[0]:.2f} ({min(gains)[1]}), "
        f"geometric mean {math.exp(sum(math.log(gain) for gain, _ in gains) / len(gains)):.2f} of {len(gains)} rows above 2 ms"
        for (group, mode, dtype, n), gains in groups.items()
    ]


def markdown(results: Iterable[Result]) -> str:
    """A table with a row per result."""
    rows = [f"| {' | '.join(HEADINGS)} |", "|---" * len(HEADINGS) + "|"]
    return "\n".join([*rows, *(f"| {' | '.join(_cells(result))} |" for result in results)])


PAGE = """# Performance

Every row beside PyTorch, interleaved in one run on a machine that does nothing else. The ratio is PyTorch's time ÷ ours: above 1
is ours. Rates count the operations of the definition; Winograd's algorithm needs fewer, which is how it passes the peak.
Written by

```sh
{command}
```

{facts}

{summary}

{table}
"""


def page(results: list[Result], facts: Iterable[str], command: str) -> str:
    """docs/performance.md: how it was measured, a line per group, then every row."""
    lines = "\n".join(f"- {line}" for line in (*summary(results), *scaling(results)))
    return PAGE.format(command=command, facts="\n\n".join(facts), summary=lines, table=markdown(results))


def write_csv(results: list[Result], path: Path) -> None:
    """Every field of every result; times in seconds."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(Result.__dataclass_fields__))
        writer.writeheader()
        writer.writerows(result.as_dict() for result in results)


def plot(results: list[Result], path: Path) -> None:
    """A bar per result that has a peer: how many times faster than PyTorch, on a logarithmic scale."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [result for result in results if result.ratio]
    labels = [f"{r.name} {r.mode} {r.dtype}, {r.threads}t" for r in shown]
    figure, axes = pyplot.subplots(figsize=(10, 1 + 0.22 * len(shown)))
    ratios = [r.ratio or 1.0 for r in shown]
    axes.barh(labels, [ratio - 1 for ratio in ratios], left=1, color=["#3a7" if r >= 1 else "#c54" for r in ratios])
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.margins(y=0.005)
    axes.invert_yaxis()
    axes.set_xlabel("PyTorch time ÷ lean_nn time (right of 1: lean_nn is faster)")
    axes.set_title(machine(), fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
