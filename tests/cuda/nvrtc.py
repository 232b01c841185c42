"""NVIDIA's run-time compiler through ctypes: it needs no device, and its PTX is what a card would be given.

The package is ``nvidia-cuda-nvrtc-cu12`` (the extra ``cuda-test``).
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

ARCHITECTURES = (70, 75, 80, 90, 100, 120)
CUPY = ("-ftz=true", "--device-as-default-execution-space")  # what CuPy adds to the options of every module


def library_path() -> Path | None:
    """Where the compiler lies; None where the package is not installed."""
    spec = find_spec("nvidia.cuda_nvrtc") if find_spec("nvidia") else None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(folder).glob("lib/libnvrtc.so*")):
            return path
    return None


@lru_cache(1)
def _library() -> ctypes.CDLL:
    path = library_path()
    assert path is not None, "nvrtc: the compiler is needed; got none; pip install 'lean_nn[cuda-test]'"
    library = ctypes.CDLL(str(path))
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def _check(code: int) -> None:
    assert code == 0, _library().nvrtcGetErrorString(code).decode()


def _text(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(_library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(_library(), f"nvrtcGet{what}")(program, buffer))
    return buffer.raw


def compile_ptx(source: str, options: tuple[str, ...], architecture: str = "compute_80") -> str:
    """The PTX of `source`; an AssertionError with the compiler's words where it does not compile."""
    return _compile(source, (f"-arch={architecture}", *CUPY, *options))[1].rstrip(b"\0").decode()


def compile_cubin(source: str, options: tuple[str, ...], architecture: int) -> str:
    """What ptxas says of the machine code: registers, spills, stack, one paragraph per kernel."""
    return _compile(source, (f"-arch=sm_{architecture}", *CUPY, "--ptxas-options=-v", *options))[0]


def _compile(source: str, options: tuple[str, ...]) -> tuple[str, bytes]:
    library, program = _library(), ctypes.c_void_p()
    _check(library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None))
    try:
        flags = [option.encode() for option in options]
        code = library.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
        log = _text(program, "ProgramLog").rstrip(b"\0").decode()
        assert code == 0, log
        return log, _text(program, "PTX")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
