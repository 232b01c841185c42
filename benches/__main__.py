"""``python -m benches``: every bench beside PyTorch, if that is installed.

    python -m benches                               everything, with one thread and with all
    python -m benches --filter 'conv2d.*float32'    rows whose text matches
    python -m benches --csv out.csv --plot out.png  for a table, for a picture
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import shlex
import sys
from pathlib import Path

from benches import conv, elementwise, graph, matmul, overhead, peak, pool, report, training
from benches.harness import cores, run, torch

MODULES = (overhead, conv, matmul, pool, elementwise, training, graph)


def _threads(text: str) -> list[int]:
    counts = [int(part) for part in text.split(",")]
    if min(counts) < 1:
        raise ValueError(text)
    return counts


def main() -> int:
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__, formatter_class=style)
    parser.add_argument("--filter", default="", metavar="RE", help="only rows whose text matches")
    counts = sorted({1, cores()})
    parser.add_argument("--threads", type=_threads, default=counts, metavar="1,2", help="numbers of threads")
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each row and number of threads (0.5)")
    parser.add_argument("--csv", type=Path, metavar="F", help="write the results as CSV")
    parser.add_argument("--markdown", type=Path, metavar="F", help="write the results as Markdown")
    parser.add_argument("--plot", type=Path, metavar="F.png", help="draw the ratios as a bar chart (needs matplotlib)")
    parser.add_argument("--tiny", action="store_true", help="smallest shapes and single samples: proves that it runs")
    options = parser.parse_args()
    if options.plot and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib: pip install matplotlib")
    wanted = re.compile(options.filter)
    chosen = [bench for module in MODULES for bench in module.benches(options.tiny) if wanted.search(str(bench))]
    if not chosen:
        parser.error(f"no row matches {options.filter!r}")
    facts = [report.machine()]
    print(facts[0])
    if torch is None:
        print("PyTorch is not installed: no ratios (pip install -e '.[compare]')", file=sys.stderr)
    peaks = {} if options.tiny else {n: peak.measure(n) for n in options.threads}
    for n, found in peaks.items():
        facts.append(f"peak, {report.threads(n)}: " + ", ".join(f"{value:.0f} {name}" for name, value in found.items()))
        print(facts[-1])
    print("\n" + report.heading())
    results = []
    for result in run(chosen, options.threads, peaks, 0.0 if options.tiny else options.seconds):
        results.append(result)
        print(report.line(result), flush=True)
    print("\n" + "\n".join([*report.summary(results), *report.scaling(results)]))
    if options.csv:
        report.write_csv(results, options.csv)
    if options.markdown:
        command = shlex.join(["python", "-m", "benches", *sys.argv[1:]])
        options.markdown.write_text(report.page(results, facts, command))
    if options.plot:
        report.plot(results, options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
