"""The command ``lean-nn``: ``check`` and ``info``.

Results go to standard output, progress and problems to standard error. The exit code is 0 when all is well, 1 when
`check` finds a difference, 2 when the command itself is wrong.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence

from lean_nn import check as checking
from lean_nn.config import as_text, config
from lean_nn.threads import num_threads

__all__ = ["main"]

CHECK = """\
Runs every operator's compiled kernel on small cases and compares it with the executable specification, which is
evaluated in exact arithmetic (or in intervals where the result is irrational). A line per operator: how many cases,
the worst error in float32 and in float64 as a fraction of the bound that the operator states (docs/numerics.md), and
the verdict. Up to 1 is within the bound; an operator that states "the same bits" has error 0 or differs.

  lean-nn check                       everything, with the kernels chosen for this machine
  lean-nn check --filter 'conv|pool'  operators whose name matches
  LEAN_NN_ISA=x86_64_v2 lean-nn check the kernels of another instruction-set level
"""

INFO = """\
Prints what is installed: the version, which instruction-set levels the kernels were built for, which of them this
machine runs and which one was chosen (LEAN_NN_ISA forces one), the compiler, OpenMP, and how many threads are used.
"""


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as problem:
        raise argparse.ArgumentTypeError(f"not a regular expression: {problem}") from None
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lean-nn", description="Neural networks on the CPU: small, fast, exact about meaning.",
        epilog="`lean-nn COMMAND --help` says more.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    style = argparse.RawDescriptionHelpFormatter
    check = commands.add_parser(
        "check", help="compare the kernels with the specification", description=CHECK, formatter_class=style
    )
    check.add_argument("--filter", default="", type=_pattern, metavar="RE", help="only operators whose name matches")
    check.add_argument("--seed", default=0, type=int, help="seed of the random inputs (default 0)")
    check.add_argument("--threads", default=None, type=int, metavar="N", help="threads (default: as `info` says)")
    check.add_argument("--quiet", action="store_true", help="no progress on standard error")
    info = commands.add_parser(
        "info", help="say what is installed and what runs here", description=INFO, formatter_class=style
    )
    for command in (check, info):
        command.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


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


def _check(options: argparse.Namespace) -> int:
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


def _info(options: argparse.Namespace) -> int:
    found = config()
    print(json.dumps(found, indent=2) if options.json else as_text(found))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    options = _parser().parse_args(argv)
    if options.command == "info":
        return _info(options)
    if options.threads is None:
        return _check(options)
    try:
        with num_threads(options.threads):
            return _check(options)
    except ValueError as problem:
        print(f"lean-nn check: {problem}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
