"""What is installed here, what was built, and what this machine runs of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypedDict

import numpy as np

import lean_nn_c
from lean_nn._version import __version__
from lean_nn_c import build_info, threads

__all__ = ["Config", "config", "show_config"]


class Isa(TypedDict):
    chosen: str
    built: list[str]
    runnable: list[str]
    forced: str | None


class Threads(TypedDict):
    now: int
    default: int
    cores: int


class Config(TypedDict):
    """What `lean-nn info` prints; ``openmp`` is the date of the OpenMP standard the compiler follows, 0 for none."""

    version: str
    isa: Isa
    openmp: int
    compiler: str
    threads: Threads
    python: str
    numpy: str
    platform: str
    location: str


def config() -> Config:
    """The installation as a dictionary of plain values."""
    import platform  # 2 ms that `import lean_nn` need not pay

    folder = Path(lean_nn_c.__file__).parent
    built = [isa for isa in build_info.ISA_LEVELS if (folder / isa).is_dir()]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "version": __version__,
        "isa": {
            "chosen": lean_nn_c.ISA,
            "built": built,
            "runnable": [isa for isa in built if build_info.runs(isa)],
            "forced": os.environ.get("LEAN_NN_ISA") or None,
        },
        "openmp": build_info.OPENMP,
        "compiler": build_info.COMPILER,
        "threads": {"now": threads.get_num_threads(), "default": threads.default_num_threads(), "cores": cores},
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "location": str(Path(__file__).parent),
    }


def as_text(found: Config) -> str:
    """A line per fact."""
    isa, count = found["isa"], found["threads"]
    forced = " (forced by LEAN_NN_ISA)" if isa["forced"] else ""
    openmp = f"yes ({found['openmp']})" if found["openmp"] else "no: kernels run on one thread"
    lines = {
        "lean_nn": f"{found['version']} in {found['location']}",
        "kernels": f"{isa['chosen']}{forced}; built: {', '.join(isa['built'])}; run here: {', '.join(isa['runnable'])}",
        "compiler": found["compiler"],
        "OpenMP": openmp,
        "threads": f"{count['now']} (default {count['default']}, cores {count['cores']})",
        "Python": found["python"],
        "NumPy": found["numpy"],
        "platform": found["platform"],
    }
    return "\n".join(f"{name + ':':10}{value}" for name, value in lines.items())


def show_config() -> None:
    """Print what `lean-nn info` prints."""
    print(as_text(config()))
