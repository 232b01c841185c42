"""``lean-nn predict``: a saved program on arrays, pictures or standard input.

This is the command that small machines run, so it imports what it needs and nothing else: the program's file, the kernels it
calls, NumPy. ``python -m benches.predict`` measures a whole process.
"""

from __future__ import annotations

import argparse
import os
import sys
from math import prod
from typing import Any

import numpy as np

from lean_nn.cli.common import Usage, add_json, add_threads, positive
from lean_nn.graph.files import load_program
from lean_nn.io.npy import read_array

DESCRIPTION = """\
MODEL is a file that `lean-nn train` or `Program.save` wrote. Each INPUT is a sample or a batch: an .npy file, or a picture
(.png and others, with the extra `images`), whose pixels become 0..1. Without INPUT, an .npy is read from standard input.
Numbers are converted to the model's dtype.

A line per sample: the class with the largest output, and its share by softmax; or, of models with one output, the number.
Where MODEL.labels.txt stands beside the model (`train` on a folder writes it), classes have names.

  lean-nn predict digits.safetensors seven.png
  lean-nn predict digits.safetensors batch.npy --top 3 --json
  python make_input.py | lean-nn predict digits.safetensors
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("model", metavar="MODEL", help="a saved program")
    parser.add_argument("inputs", metavar="INPUT", nargs="*", help="an .npy file or a picture; - for standard input")
    parser.add_argument("--top", default=1, type=positive, metavar="N", help="show the N likeliest classes (default 1)")
    parser.add_argument("--output", metavar="FILE.npy", help="write the outputs of all samples as one array")
    add_threads(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Print a line per sample."""
    program = load_program(options.model)
    shape, dtype = _input_of(program)
    names = _labels(options.model)
    found: list[dict[str, Any]] = []
    outputs: list[Any] = []
    for source in options.inputs or ["-"]:
        for i, sample in enumerate(_samples(_read(source), shape, source)):
            y = np.asarray(program(np.ascontiguousarray(sample, dtype))).reshape(-1)
            outputs.append(y)
            found.append({"input": source, "sample": i, **_answer(y, options.top, names)})
            if not options.json:
                print(_line(found[-1]), flush=False)
    if options.output:
        _write(options.output, np.stack(outputs))
    if options.json:
        import json

        print(json.dumps({"model": options.model, "predictions": found}, indent=2))
    return 0


def _input_of(program: Any) -> tuple[tuple[int, ...], Any]:
    """Shape and dtype of the one sample that the program takes."""
    open_inputs = [program.graph.avals[v] for v, kept in zip(program.graph.inputs, program.kept, strict=True) if kept is None]
    if len(open_inputs) != 1 or not open_inputs[0].shape or open_inputs[0].shape[0] != 1 or len(program.graph.outputs) != 1:
        raise ValueError(f"a model takes one sample, shape (1, …), and gives one array; got inputs "
                         f"{[aval.shape for aval in open_inputs]} and {len(program.graph.outputs)} outputs; "
                         f"save a program of batch size 1")
    return open_inputs[0].shape, open_inputs[0].dtype


def _read(source: str) -> Any:
    if source == "-":
        from io import BytesIO

        data = sys.stdin.buffer.read()
        if not data:
            raise Usage("an .npy is expected on standard input; got nothing; name a file")
        return read_array(BytesIO(data), len(data), "standard input")
    if source.lower().endswith(".npy"):
        with open(source, "rb") as file:
            return read_array(file, os.fstat(file.fileno()).st_size, source)
    from lean_nn.data.folder import read_picture

    return read_picture(source)


def _samples(array: Any, shape: tuple[int, ...], source: str) -> Any:
    """The array cut into samples: axes of size 1 may be left out, in front of a sample there may be one more axis."""
    bare = tuple(n for n in shape if n != 1)
    if tuple(n for n in array.shape if n != 1) == bare:
        return array.reshape(1, *shape)
    if array.ndim and tuple(n for n in array.shape[1:] if n != 1) == bare and array.size == len(array) * prod(shape):
        return array.reshape(len(array), *shape)
    raise ValueError(f"{source}: a sample has shape {shape[1:]}; got an array of {array.shape}; reshape or scale it")


def _labels(model: str) -> list[str] | None:
    path = f"{os.path.splitext(model)[0]}.labels.txt"
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def _answer(y: Any, top: int, names: list[str] | None) -> dict[str, Any]:
    if y.size == 1:
        return {"value": float(y[0])}
    shares = np.exp(y.astype(np.float64) - y.max())
    shares /= shares.sum()
    best = np.argsort(-shares, kind="stable")[:top]
    return {"classes": [{"class": names[i] if names and i < len(names) else int(i), "share": float(shares[i])} for i in best]}


def _line(row: dict[str, Any]) -> str:
    place = f"{row['input']}[{row['sample']}]"
    if "value" in row:
        return f"{place}\t{row['value']:.6g}"
    return "\t".join([place, *(f"{found['class']} {found['share']:.4f}" for found in row["classes"])])


def _write(path: str, array: Any) -> None:
    from lean_nn.atomic import open_atomically

    with open_atomically(path) as file:
        np.save(file, array, allow_pickle=False)
