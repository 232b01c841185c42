"""What commands share. A command is a module with `DESCRIPTION`, ``configure(parser)`` and ``run(options) -> int``."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

__all__ = ["Usage", "positive", "run", "shape_of", "tell"]


class Usage(Exception):
    """The command line asks for something that does not go together: exit code 2."""


def run(name: str, text: str, arguments: Sequence[str]) -> int:
    """Parse `arguments` for the command and run it; problems that are the user's to solve are told without a traceback."""
    command = import_module(f"lean_nn.cli.{name}")
    if not gc.isenabled():  # `entry`: what was imported stays, so collections need not look at it again
        gc.freeze()
        gc.enable()
    parser = argparse.ArgumentParser(
        prog=f"lean-nn {name}", description=f"{text[0].upper()}{text[1:]}.\n\n{command.DESCRIPTION}",
        formatter_class=_formatter,
    )  # fmt: skip
    command.configure(parser)
    options = parser.parse_args(arguments)
    try:
        if getattr(options, "threads", None) is None:
            return int(command.run(options))
        return _with_threads(command, options)
    except Usage as problem:
        tell(name, problem)
        return 2
    except BrokenPipeError:  # whoever read the output, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, TypeError, OSError, ImportError) as problem:
        tell(name, problem)
        return 1
    except KeyboardInterrupt:
        tell(name, "stopped")
        return 130


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Descriptions as they are written; a width of its own, since asking for the terminal's costs 3 ms on every run."""
    return argparse.RawDescriptionHelpFormatter(prog, width=100)


def _with_threads(command: Any, options: argparse.Namespace) -> int:
    from lean_nn.threads import num_threads

    try:
        threads = num_threads(options.threads)
    except ValueError as problem:
        raise Usage(problem) from None
    with threads:
        return int(command.run(options))


def tell(name: str, text: object) -> None:
    """A line on standard error."""
    print(f"lean-nn {name}: {text}", file=sys.stderr, flush=True)


def positive(text: str) -> int:
    """An argument that is a whole number from 1 up."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"a number from 1 up; got {text}")
    return number


def shape_of(text: str) -> tuple[int, ...]:
    """An argument like ``1,28,28``."""
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        sizes = (0,)
    if min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"sizes from 1 up with commas between them, as in 1,28,28; got {text!r}")
    return sizes


def add_threads(parser: argparse.ArgumentParser) -> None:
    """``--threads N``"""
    parser.add_argument("--threads", default=None, type=int, metavar="N", help="threads (default: as `lean-nn info` says)")


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``"""
    parser.add_argument("--json", action="store_true", help="print one JSON object")
