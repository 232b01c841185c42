"""The compiled half of lean_nn: arithmetic only, no shape policy.

======================  ==================================================================
``engine``              values, recorded nodes and ``bind``
``sweep``               the reverse sweep over recorded nodes
``memory``              output arrays from recycled pages
``threads``             how many threads, fork safety
``build_info``          compiler, OpenMP, which instruction sets the machine has
the other modules       kernels, each built once per instruction-set level
======================  ==================================================================

Importing this package chooses the level: the best one that was built and that the machine can run,
or the one ``LEAN_NN_ISA`` names. Its folder goes to the front of ``__path__``, so that
``lean_nn_c.pool`` is that level's ``pool``.
"""

from __future__ import annotations

import os
from pathlib import Path

from lean_nn_c import build_info

_HERE = Path(__file__).parent


def _choose_isa() -> str:
    built = [isa for isa in build_info.ISA_LEVELS if (_HERE / isa).is_dir()]
    runnable = [isa for isa in built if build_info.runs(isa)]
    forced = os.environ.get("LEAN_NN_ISA")
    if forced:
        isa = forced.replace("-", "_")
        if isa not in runnable:
            raise ImportError(f"LEAN_NN_ISA: {forced} cannot be used here; built {built}, this machine runs {runnable}")
        return isa
    if not runnable:
        raise ImportError(f"lean_nn_c: no kernels for this machine; built {built}; reinstall with `pip install .`")
    return runnable[-1]


ISA: str = _choose_isa()
__path__.insert(0, str(_HERE / ISA))
