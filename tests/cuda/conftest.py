"""Which lane the suite of this folder runs on: ``LEAN_NN_CUDA_TESTS`` is ``source`` (the default), ``ptx`` or ``device``.

========  =========================================================================================
source    A: kernels.cu by g++ behind a shim, under the strict double of CuPy
ptx       B: NVRTC's own output, translated to C++ and executed, under the same double
device    D: the true CuPy on a card
========  =========================================================================================
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

LANE = os.environ.get("LEAN_NN_CUDA_TESTS", "source")



def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if LANE == "device":
        for item in items:
            if item.get_closest_marker("double"):
                item.add_marker(pytest.mark.skip(reason="there is no double on a card"))


@pytest.fixture(scope="session", autouse=True)
def lane(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Install what stands for CuPy, once."""
    assert LANE in ("source", "ptx", "device"), f"LEAN_NN_CUDA_TESTS: source, ptx or device; got {LANE}"
    if LANE != "device":
        import cupy_double
        import source_lane

        kept = os.environ.get("LEAN_NN_CUDA_FOLDER")  # libraries that outlive the session, for many runs in a row
        source_lane.FOLDER = Path(kept) if kept else tmp_path_factory.mktemp("kernels")
        if LANE == "ptx":
            import ptx_lane

            cupy_double.compile_module = ptx_lane.compile_module
        else:
            cupy_double.compile_module = source_lane.compile_module
        cupy_double.install()
    return LANE
