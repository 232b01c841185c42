"""``lean-nn summary``: what a model consists of."""

from __future__ import annotations

import argparse
import json

from lean_nn.cli.common import add_json, positive, shape_of
from lean_nn.cli.models import is_program, loaded, made

DESCRIPTION = """\
MODEL is a name (digits_cnn, lenet, mlp, resnet20), a TOML file, or a saved program. Of a model it prints the layers with
the shapes they make, their parameters, operations and memory for one sample of --shape; of a program its listing for one
sample: every value with its type, its size and its place in memory, which is known before it runs.

  lean-nn summary lenet
  lean-nn summary net.toml --shape 3,32,32
  lean-nn summary model.safetensors
"""
SHAPES = {"digits_cnn": (1, 8, 8), "lenet": (1, 28, 28), "mlp": (64,), "resnet20": (3, 32, 32)}


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("model", metavar="MODEL", help="a name, a .toml file or a saved program")
    parser.add_argument("--shape", type=shape_of, metavar="C,H,W", help="of one sample (default: the model's usual one)")
    parser.add_argument("--classes", default=10, type=positive, metavar="N", help="number of classes (default 10)")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Print the table."""
    if is_program(options.model):
        return _program(options)
    from lean_nn.nn.overview import summary

    shape = options.shape or SHAPES.get(options.model, (1, 8, 8))
    found = summary(made(options.model, shape, options.classes), (1, *shape))
    print(json.dumps(found.to_dict(), indent=2) if options.json else found)
    return 0


def _program(options: argparse.Namespace) -> int:
    program = loaded(options.model, 1)
    if not options.json:
        print(program)
        return 0
    avals = program.graph.avals
    print(json.dumps({
        "memory": {**program.memory._asdict(), "peak": program.memory.peak},
        "inputs": [{"shape": list(avals[v].shape), "dtype": str(avals[v].dtype)} for v in program.graph.inputs],
        "outputs": [{"shape": list(avals[v].shape), "dtype": str(avals[v].dtype)} for v in program.graph.outputs],
        "nodes": [node.prim.name for node in program.graph.nodes],
    }, indent=2))  # fmt: skip
    return 0
