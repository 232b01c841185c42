"""The command ``lean-nn``; a file per command, imported when it is called.

=============  ==============================================================================================
``demo``       train on the digits, check, compile, show: the first thing to run
``train``      the digits, your arrays or a folder of pictures; writes a program that predicts
``predict``    a saved program on arrays, pictures or standard input
``summary``    layers, shapes, parameters and memory of a model, or the listing of a saved program
``bench``      how quick a model is on this machine
``check``      every kernel against the specification
``info``       what is installed
``common``     what they share: threads, shapes, words on standard error
=============  ==============================================================================================

Results go to standard output, progress and problems to standard error. The exit code is 0 when all is well, 1 when it did
not work (a file that cannot be used, a check that finds a difference), 2 when the command itself is wrong.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

__all__ = ["COMMANDS", "entry", "main"]

COMMANDS = {
    "demo": "train on the digits, check, compile, show: fifteen seconds",
    "train": "train a model on the digits, your arrays or a folder of pictures",
    "predict": "run a saved model on arrays, pictures or standard input",
    "summary": "layers, shapes, parameters and memory of a model",
    "bench": "how quick a model is on this machine",
    "check": "compare the kernels with the specification",
    "info": "say what is installed and what runs here",
}


def _overview() -> str:
    rows = "\n".join(f"  {name:8}  {text}" for name, text in COMMANDS.items())
    return (
        "usage: lean-nn COMMAND [options]\n\n"
        "Neural networks on the CPU: small, fast, exact about meaning.\n\n"
        f"{rows}\n\n"
        "`lean-nn COMMAND --help` says more; `lean-nn --version` says which version this is.\n"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in ("-h", "--help", "help"):
        print(_overview(), end="")
        raise SystemExit(0)
    if arguments == ["--version"]:
        from lean_nn._version import __version__

        print(__version__)
        return 0
    if not arguments or arguments[0] not in COMMANDS:
        print(_overview(), end="", file=sys.stderr)
        if arguments:
            print(f"lean-nn: no command is called {arguments[0]!r}", file=sys.stderr)
        raise SystemExit(2)
    from lean_nn.cli.common import run

    return run(arguments[0], COMMANDS[arguments[0]], arguments[1:])


def entry() -> NoReturn:
    """What the installed command calls: `main`, without two things that a short process need not do.

    Nothing that is imported is garbage, so it is not searched for any (`common.run` goes on collecting when the command is
    there); and a process that has answered leaves at once instead of taking every module apart first.
    """
    gc.disable()
    try:
        code = main()
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            code = code or 141
    os._exit(code)
