"""``lean-nn check``: every kernel against the specification, on the user's machine."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time

from lean_nn import check as checking
from lean_nn.cli.common import add_json, add_threads
from lean_nn.config import config

DESCRIPTION = """\
Runs every operator's compiled kernel on small cases and compares it with the executable specification, which is
evaluated in exact arithmetic (or in intervals where the result is irrational). A line per operator: how many cases,
the worst error in float32 and in float64 as a fraction of the bound that the operator states (docs/numerics.md), and
the verdict. Up to 1 is within the bound; an operator that states "the same bits" has error 0 or differs.

  lean-nn check                       everything, with the kernels chosen for this machine
  lean-nn check --filter 'conv|pool'  operators whose name matches
  LEAN_NN_ISA=x86_64_v2 lean-nn check the kernels of another instruction-set level
"""


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as problem:
        raise argparse.ArgumentTypeError(f"not a regular expression: {problem}") from None
    return text


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--filter", default="", type=_pattern, metavar="RE", help="only operators whose name matches")
    parser.add_argument("--seed", default=0, type=int, help="seed of the random inputs (default 0)")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    add_threads(parser)
    add_json(parser)


class _Progress:
    """One line on a terminal's standard error, written over; nothing elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self.shown = sys.stderr.isatty() and not quiet

    def __call__(self, text: str) -> None:
        if self.shown:
            print(f"\r\x1b[K{text[:100]}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def run(options: argparse.Namespace) -> int:
    """Print a line per operator; 1 if one is off its bound."""
    began, progress, found = time.perf_counter(), _Progress(options.quiet), []
    if not options.json:
        print(checking.row(checking.HEADINGS))
    for finding in checking.check(options.filter, options.seed, progress):
        found.append(finding)
        progress.clear()
        if not options.json:
            print(checking.line(finding), flush=True)
        for problem in finding.problems:
            print(f"lean-nn check: {problem}", file=sys.stderr)
    good = bool(found) and all(finding.ok for finding in found)
    seconds = time.perf_counter() - began
    if options.json:
        operators = [finding.as_json() for finding in found]
        report = {"ok": good, "seconds": round(seconds, 3), "config": config(), "operators": operators}
        print(json.dumps(report, indent=2))
    elif not found:
        print(f"lean-nn check: no operator matches {options.filter!r}", file=sys.stderr)
    else:
        failed = sum(not finding.ok for finding in found)
        verdict = "all within their bounds" if good else f"{failed} NOT"
        isa, threads = config()["isa"]["chosen"], config()["threads"]["now"]
        print(f"{len(found)} operators, {verdict} ({isa}, {threads} thread{'s' * (threads != 1)}, {seconds:.1f} s)")
    return 0 if good else 1
