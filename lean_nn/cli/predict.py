"""``lean-nn predict``: a saved program on arrays, pictures or standard input.

This is the command that small machines run, so it imports what it needs and nothing else: the program's file, the kernels it
calls, NumPy. ``python -m benches.predict`` measures a whole process.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from lean_nn import tree
from lean_nn.cli.common import Usage, add_json, add_threads, positive
from lean_nn.graph.family import Family
from lean_nn.graph.files import load_program
from lean_nn.io.npy import read_array

BATCH = 64  # samples of a call

DESCRIPTION = """\
MODEL is a file that `lean-nn train` wrote, or `save` of a compiled model. Each INPUT is a sample or a batch: an .npy file, or
a picture (.png and others, with the extra `images`), whose pixels become 0..1. Without INPUT, an .npy is read from standard
input. Numbers are converted to the model's dtype. Samples of one INPUT go through the model 64 at a time, where it was
compiled for any number of them, as those of `train` are.

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
    shape = _sample_of(program)
    names = _labels(options.model)
    found: list[dict[str, Any]] = []
    outputs: list[Any] = []
    for source in options.inputs or ["-"]:
        for i, y in enumerate(_outputs(program, _samples(_read(source), shape, source))):
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


def _sample_of(program: Any) -> tuple[int, ...]:
    """Shape of a sample, without the axis of the batch, which is open or 1."""
    batch: Any
    if isinstance(program, Family):
        batch, shapes = program.open[0], list[Any](program.shapes)
    else:
        kept = zip(program.graph.inputs, program.kept, strict=True)
        batch, shapes = 1, [program.graph.avals[value].shape for value, array in kept if array is None]
    if len(shapes) != 1 or shapes[0][:1] != (batch,) or not all(isinstance(n, int) for n in shapes[0][1:]):
        raise ValueError(f"a model takes one array, whose first size is open or 1; got inputs {shapes}; "
                         f"compile it for samples of shape (None, …)")
    sample: tuple[int, ...] = shapes[0][1:]
    return sample


def _outputs(model: Any, samples: Any) -> Iterator[Any]:
    """What the model gives for each sample, as a row of numbers."""
    many = isinstance(model, Family)
    for first in range(0, len(samples), BATCH if many else 1):
        part = samples[first : first + (BATCH if many else 1)]
        program = model.at({model.open[0]: len(part)}) if many else model
        outs = program.graph.outputs
        if len(outs) != 1 or program.graph.avals[outs[0]].shape[:1] != (len(part),):
            raise ValueError(f"a model gives one array with a row per sample; got "
                             f"{[program.graph.avals[v].shape for v in outs]} for {len(part)}; return one array")
        dtype = program.graph.avals[program.graph.inputs[-1]].dtype
        yield from tree.leaves(program(np.ascontiguousarray(part, dtype)))[0].reshape(len(part), -1)


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
    raise ValueError(f"{source}: a sample has shape {shape}; got an array of {array.shape}; reshape or scale it")


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
