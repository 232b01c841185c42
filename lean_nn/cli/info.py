"""``lean-nn info``: what is installed and what runs here."""

from __future__ import annotations

import argparse
import json

from lean_nn.cli.common import add_json
from lean_nn.config import as_text, config

DESCRIPTION = """\
Prints the version, which instruction-set levels the kernels were built for, which of them this machine runs and which one
was chosen (LEAN_NN_ISA forces one), the compiler, OpenMP, and how many threads are used.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Print the facts."""
    found = config()
    print(json.dumps(found, indent=2) if options.json else as_text(found))
    return 0
