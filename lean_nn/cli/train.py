"""``lean-nn train``: the digits, arrays or a folder of pictures; writes a program that `lean-nn predict` runs."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

import numpy as np

from lean_nn.atomic import write_atomically
from lean_nn.cli.common import Usage, add_json, add_threads, positive, tell
from lean_nn.cli.models import NAMES, made

DESCRIPTION = f"""\
DATA is one of
  digits              the 1,797 handwritten digits that come with the package (the default)
  X.npy Y.npy         samples and whole-number labels
  DATA.npz            the same as arrays x and y in one file
  FOLDER              FOLDER/CLASS/PICTURE; .png, .pgm, … (extra `images`) or .npy

The model is {', '.join(NAMES)}, or a TOML file with one [[layer]] table per layer (see the help of nn.from_toml). A part
of the data is held out and tells the accuracy. The result is one file: the compiled program with its weights, which
`lean-nn predict` and `lean_nn.load_program` read without any Python code of the model. Same arguments, same bits; with
--checkpoint a run that was killed goes on where it was.

  lean-nn train
  lean-nn train x.npy y.npy --model mlp --epochs 50 --lr 0.003 -o mine.safetensors
  lean-nn train photos/ --size 32 --model resnet20 --checkpoint run.npz
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("data", metavar="DATA", nargs="*", help="what to learn from (default: digits)")
    parser.add_argument("--model", default="digits_cnn", metavar="M", help="a name or a .toml file (default digits_cnn)")
    parser.add_argument("-o", "--output", default="model.safetensors", metavar="F", help="the program (model.safetensors)")
    parser.add_argument("--epochs", default=15, type=positive, metavar="N", help="passes over the data (default 15)")
    parser.add_argument("--lr", default=0.01, type=float, help="highest learning rate of the cycle (default 0.01)")
    parser.add_argument("--batch", default=64, type=positive, metavar="N", help="samples per step (default 64)")
    parser.add_argument("--test", default=0.2, type=float, metavar="S", help="share that is held out (default 0.2)")
    parser.add_argument("--shift", default=0, type=int, metavar="P", help="move pictures at random by up to P pixels")
    parser.add_argument("--size", default=None, type=positive, metavar="N", help="scale a folder's pictures to N × N")
    parser.add_argument("--seed", default=0, type=int, help="of everything that is random (default 0)")
    parser.add_argument("--checkpoint", metavar="F.npz", help="write the run here after every epoch, and go on from it")
    parser.add_argument("--fresh", action="store_true", help="begin anew although the checkpoint is there")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    add_threads(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Train, test, save."""
    x, y, names = _data(options)
    found = trained(x, y, options.model, epochs=options.epochs, lr=options.lr, batch=options.batch, test=options.test,
                    shift=options.shift, seed=options.seed, checkpoint=options.checkpoint, resume=not options.fresh,
                    progress=False if options.quiet else None)  # fmt: skip
    program = compiled(found["model"], x.shape[1:])
    program.save(options.output)
    if names is not None:
        write_atomically(f"{os.path.splitext(options.output)[0]}.labels.txt", ["\n".join(names).encode() + b"\n"])
    report = {
        "model": options.model, "output": options.output, "bytes": os.path.getsize(options.output), "samples": len(x),
        "test_accuracy": found["accuracy"], "history": dict(found["history"]),
    }  # fmt: skip
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        print(f"{options.output}: {report['bytes']:,} bytes, {100 * found['accuracy']:.2f} % right on "
              f"{len(found['test'][1])} samples it has not seen")
        if not options.quiet:
            tell("train", f"try `lean-nn predict {options.output} FILE.npy`")
    return 0


def _data(options: argparse.Namespace) -> tuple[Any, Any, list[str] | None]:
    """Samples, labels, and the names of the classes if they have any."""
    from lean_nn import data, io

    given = options.data or ["digits"]
    if given == ["digits"]:
        return *data.load_digits(), None
    if len(given) == 1 and os.path.isdir(given[0]):
        return data.from_folder(given[0], None if options.size is None else (options.size, options.size))
    if len(given) == 1 and given[0].endswith(".npz"):
        arrays = io.load(given[0])
        if not {"x", "y"} <= set(arrays):
            raise ValueError(f"{given[0]}: arrays x and y are needed; got {sorted(arrays)}")
        return *_checked(arrays["x"], arrays["y"]), None
    if len(given) == 2 and all(name.endswith(".npy") for name in given):
        x, y = (_array(name) for name in given)
        return *_checked(x, y), None
    raise Usage(f"DATA is digits, X.npy Y.npy, DATA.npz or a folder; got {' '.join(given)}")


def _array(path: str) -> Any:
    from lean_nn.io import read_array

    with open(path, "rb") as file:
        return read_array(file, os.fstat(file.fileno()).st_size, path)


def _checked(x: Any, y: Any) -> tuple[Any, Any]:
    if y.ndim != 1 or y.dtype.kind not in "iu" or len(x) != len(y) or (len(y) and int(y.min()) < 0):
        raise ValueError(f"labels are whole numbers from 0, one per sample; got {y.dtype} of shape {y.shape} for "
                         f"{len(x)} samples")
    if x.dtype.kind not in "fiu" or x.ndim < 2:
        raise ValueError(f"samples are numbers with an axis per sample and more; got {x.dtype} of shape {x.shape}")
    x = x[:, None] if x.ndim == 3 else x  # pictures without channels
    return np.ascontiguousarray(x, np.float32), y.astype(np.int64)


def trained(
    x: Any, y: Any, name: str, *, epochs: int, lr: float, batch: int, test: float = 0.2, shift: int = 0, seed: int = 0,
    checkpoint: str | None = None, resume: bool = True, progress: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """Train a model by AdamW under one cycle of the learning rate; gives the model, its history and what was held out."""
    from lean_nn import data, optim
    from lean_nn.nn import manual_seed
    from lean_nn.training import fit

    (x, y), held = data.split(x, y, test, seed)
    manual_seed(seed)
    model = made(name, x.shape[1:], int(y.max()) + 1)
    transform = data.augment.Shift(shift) if shift else None
    loader = data.Loader(x, y, batch, seed=seed, transform=transform, drop_last=len(x) > batch)
    optimizer = optim.AdamW(model.parameters(), lr=lr)
    schedule = optim.OneCycleLR(optimizer, lr, epochs=epochs, steps_per_epoch=len(loader), cycle_momentum=False)
    history = fit(
        model, loader, "cross_entropy", optimizer, epochs, validation=held, metrics="accuracy", schedule=schedule,
        schedule_every="batch", checkpoint=checkpoint, resume=resume, seed=seed, progress=progress,
    )  # fmt: skip
    return {"model": model, "history": history, "accuracy": history["val_accuracy"][-1], "test": held, "train": (x, y)}


def compiled(model: Any, shape: tuple[int, ...]) -> Any:
    """The model on any number of samples, as it is saved."""
    from lean_nn.graph import compile

    return compile(model.eval(), (None, *shape))
