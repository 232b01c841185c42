"""The compiled half of lean_nn: arithmetic only, no shape policy.

======================  ==================================================================
``engine``              values, recorded nodes and ``bind``
``sweep``               the reverse sweep over recorded nodes
``memory``              output arrays from recycled pages
``threads``             how many threads, fork safety
``step``, ``executor``  kernels with their geometry read; lists of them, for compiled programs
``move``                copies between strided places
``conv``                which of the convolution kernels
``build_info``          compiler, OpenMP, which instruction sets the machine has
the other modules       kernels, each built once per instruction-set level
======================  ==================================================================

Importing this package chooses the level: the best one that was built and that the machine gains by (``build_info.pays``),
or the one ``LEAN_NN_ISA`` names. Its folder goes to the front of ``__path__``, so that ``lean_nn_c.gemm`` is that level's
``gemm``; the folders of the levels below follow, for the modules that it does not have.
"""

from __future__ import annotations

import os
from pathlib import Path

from lean_nn_c import build_info

_HERE = Path(__file__).parent


def _choose_isa() -> list[str]:
    """The level to use, then the levels below it."""
    built = [isa for isa in build_info.ISA_LEVELS if (_HERE / isa).is_dir()]
    runnable = [isa for isa in built if build_info.runs(isa)]
    forced = os.environ.get("LEAN_NN_ISA")
    if forced:
        isa = forced.replace("-", "_")
        if isa not in runnable:
            raise ImportError(f"LEAN_NN_ISA: {forced} cannot be used here; built {built}, this machine runs {runnable}")
        return runnable[runnable.index(isa) :: -1]
    if not runnable:
        raise ImportError(f"lean_nn_c: no kernels for this machine; built {built}; reinstall with `pip install .`")
    return [isa for isa in runnable if build_info.pays(isa)][::-1] or runnable[::-1]


_LEVELS = _choose_isa()
ISA: str = _LEVELS[0]
__path__[:0] = [str(_HERE / isa) for isa in _LEVELS]
