"""Build the compiled half, ``lean_nn_c``.

Modules that do arithmetic are translated to C once and compiled once per instruction-set level
(``ISAS``), each level into a folder of its own; ``lean_nn_c/__init__.py`` puts the best one the
machine can run on the package's path. The other modules (``ONCE``) are compiled a single time.

Environment
-----------
LEAN_NN_BUILD_ISA     comma-separated levels to build, e.g. ``x86_64_v3`` (default: all)
LEAN_NN_NO_OPENMP=1   build single-threaded kernels
LEAN_NN_DEBUG=1       bounds checks, no optimisation above -O1: the build the tests run a second time
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
from Cython.Build import cythonize
from Cython.Compiler import Options
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).parent
PACKAGE = "lean_nn_c"
ONCE = ("build_info", "conv", "engine", "executor", "index", "memory", "move", "precision", "step", "sweep", "threads")
DEBUG = os.environ.get("LEAN_NN_DEBUG") == "1"
ISAS = {
    "x86_64_v2": ["-march=x86-64-v2", *([] if DEBUG else ["-Os", "-ftree-vectorize"])],
    "x86_64_v3": ["-march=x86-64-v3"],
    "x86_64_v4": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
}
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "cdivision": True,
    "auto_pickle": False,  # what is pickled says how; made by itself it would be 18 kB of the wheel, and load what nobody checked
    "freethreading_compatible": False,
}
# No -ffast-math: NaN, infinities and the order of sums are part of what the kernels promise.
# The wheel stays under 2 MB: -O2 with loops vectorised by default; -O3 for the loops that it makes faster, on the level
# that most machines have (v3); small code for what is not a hot loop and for the machines from before 2013 (v2). Wider
# vectors help where arithmetic is the bound: v4 is built for products only, and takes the other kernels from v3 (direct.pyx
# too: rows of a depthwise layer are shorter than such vectors, and it lost a third by them; where strips gain, taps.pyx has
# their loops).
# Loops' last few values are not worth vector code of their own (a seventh of elementwise), calls not a table to jump through.
EPILOGUES = [] if DEBUG else ["--param=vect-epilogues-nomask=0"]
PLAIN = ["-O1", "-g"] if DEBUG else ["-O2", "-ftree-loop-vectorize", "-fno-tree-slp-vectorize", "-fvect-cost-model=dynamic",
                                     *EPILOGUES, "-fno-align-functions", "-fno-align-jumps", "-fno-align-labels"]  # fmt: skip
FAST = PLAIN if DEBUG else ["-O3"]
SMALL = PLAIN if DEBUG else ["-Os", "-ftree-vectorize"]
HOT = {"x86_64_v3.gemm"}
COLD = {"_cyutility", "build_info", "conv", "executor", "memory", "precision", "step", "threads"}
# Small, but for the loops in their headers: hot.h.
INNER = {"index", "move", *(f"x86_64_v3.{name}" for name in ("elementwise", "pool_average", "reduce"))}
MIDDLE = {"x86_64_v3.pool"}  # plain, but for those loops
CALLS = {"x86_64_v2.pool_average", "x86_64_v3.pool_average"}  # small code would copy short rows by one slow instruction
# Functions that are called once stay apart: that is less code, and no slower, as the loops are in headers.
APART = {"x86_64_v3.direct", "x86_64_v3.taps", "x86_64_v4.taps"}
PRODUCTS = {"gemm", "taps", "taps_weight", "winograd"}  # they include each other, and nothing else per level
COMPILE_ARGS = ["-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden", "-Wno-unused-function"]
if not DEBUG:
    COMPILE_ARGS += ["-g0", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-plt"]
LINK_ARGS = [] if DEBUG else ["-Wl,-s"] if sys.platform.startswith("linux") else []
MACROS = [("NPY_NO_DEPRECATED_API", "NPY_1_25_API_VERSION"), ("NPY_TARGET_VERSION", "NPY_1_25_API_VERSION")]
if DEBUG:
    MACROS.append(("LNN_CHECKED", "1"))

OPENMP_PROBE = """
#include <omp.h>
int main(void) {
    int n = 0;
    #pragma omp parallel reduction(+:n) num_threads(2)
    n += 1;
    return n == 2 ? 0 : 1;
}
"""


def isa_levels() -> dict[str, list[str]]:
    """The levels to build here: all of x86-64's, or one plain build elsewhere."""
    if platform.machine().lower() not in {"x86_64", "amd64"}:
        return {"generic": []}
    chosen = os.environ.get("LEAN_NN_BUILD_ISA")
    if not chosen:
        return ISAS
    unknown = set(chosen.split(",")) - set(ISAS)
    if unknown:
        raise SystemExit(f"LEAN_NN_BUILD_ISA: unknown {sorted(unknown)}; choose from {sorted(ISAS)}")
    needed = {"x86_64_v3"} if "x86_64_v4" in chosen.split(",") else set()
    return {name: flags for name, flags in ISAS.items() if name in needed.union(chosen.split(","))}


def openmp_works(compiler: str) -> bool:
    """Compile, link and run a two-thread program: a header alone proves nothing."""
    if os.environ.get("LEAN_NN_NO_OPENMP") == "1":
        return False
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "probe.c"), Path(folder, "probe")
        source.write_text(OPENMP_PROBE)
        command = [*compiler.split(), "-fopenmp", str(source), "-o", str(program)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=60)
            subprocess.run([str(program)], check=True, capture_output=True, timeout=60)
        except (OSError, subprocess.SubprocessError):
            return False
    return True


def translated() -> dict[str, str]:
    """Every ``.pyx`` of the package as a C file, by module name; what all need of Cython's own code is shared in one module.
    (Nothing here takes a memoryview: their machinery would be 43 kB of the wheel.)

    Docstrings stay in the sources, but for the tape's, whose error people meet: in the wheel they would be 32 kB.
    """
    names = sorted(path.stem for path in (HERE / PACKAGE).glob("*.pyx"))
    shared = f"{PACKAGE}._cyutility"
    built = []
    for documented in (True, False):
        chosen = [name for name in names if (name == "engine") == documented]
        modules = [Extension(f"{PACKAGE}.{name}", [f"{PACKAGE}/{name}.pyx"]) for name in chosen]
        Options.docstrings = documented
        built += cythonize(
            [*modules, Extension(shared, [f"{PACKAGE}/_cyutility.c"])] if documented else modules,
            build_dir=f"build/cython{'-debug' if DEBUG else ''}",
            compiler_directives=DIRECTIVES,
            shared_utility_qualified_name=shared,
            shared_utility_features_disabled=["MemoryView"],
            quiet=True,
        )
    return {ext.name.rsplit(".", 1)[1]: ext.sources[0] for ext in built}


def extensions() -> list[Extension]:
    def extension(name: str, source: str, flags: list[str]) -> Extension:
        if name in CALLS and not DEBUG:
            flags = [*flags, "-mstringop-strategy=libcall"]
        if name in APART and not DEBUG:
            flags = [*flags, "-fno-inline-functions-called-once"]
        optimise = FAST if name in HOT else [*SMALL, *EPILOGUES] if name in INNER else SMALL if name in COLD else PLAIN
        hot = [("LNN_HOT", "1")] if name in INNER | MIDDLE and not DEBUG else []
        return Extension(
            f"{PACKAGE}.{name}",
            [source],
            include_dirs=[numpy.get_include(), PACKAGE],
            depends=[str(path.relative_to(HERE)) for path in (HERE / PACKAGE).glob("*.h")],
            define_macros=[*MACROS, *hot],
            extra_compile_args=[*COMPILE_ARGS, *optimise, *flags],
            extra_link_args=list(LINK_ARGS),
        )

    result = []
    for name, source in translated().items():
        if name in ONCE or name == "_cyutility":
            result.append(extension(name, source, []))
            continue
        for isa, flags in isa_levels().items():
            if isa == "x86_64_v4" and name not in PRODUCTS:
                continue
            # a copy per level: object files are named after their source
            copy = Path(source).parent / isa / f"{name}.c"
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
            result.append(extension(f"{isa}.{name}", str(copy), flags))
    return result


class BuildExt(build_ext):
    """Adds OpenMP where it works, and uses every core."""

    def build_extensions(self) -> None:
        self.parallel = self.parallel or os.cpu_count()
        if openmp_works(self.compiler.compiler_so[0] if hasattr(self.compiler, "compiler_so") else "cc"):
            for ext in self.extensions:
                ext.extra_compile_args.append("-fopenmp")
                ext.extra_link_args.append("-fopenmp")
        super().build_extensions()

    def copy_extensions_to_source(self) -> None:
        for isa in isa_levels():
            (HERE / PACKAGE / isa).mkdir(exist_ok=True)
        super().copy_extensions_to_source()


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildExt})
