"""Weights in files: written whole, read with suspicion.

================  ===========================================================================================
``.npz``          NumPy's own, always there: written and read
``.safetensors``  through the package `safetensors` (extra ``safetensors``): written and read
``.pt .pth``      state dicts of PyTorch, read without it: `lean_nn.io.pytorch`
================  ===========================================================================================

A state is a dict from names to arrays. No format here can run code: ``.npz`` without pickle, PyTorch's pickles through a reader
that knows tensors, containers and numbers and nothing else. Sizes that a file claims are compared with its length before
memory is allocated for them. A file that is cut, changed or made up is a ``ValueError`` that names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lean_nn.lazy import opener

if TYPE_CHECKING:
    from lean_nn.io.npy import read_array
    from lean_nn.io.pytorch import load_pytorch
    from lean_nn.io.states import load, metadata, save

__all__ = ["load", "load_pytorch", "metadata", "read_array", "save"]

# A program that reads one array needs no archives.
__getattr__ = opener(__name__, {
    "load": "states", "load_pytorch": "pytorch", "metadata": "states", "read_array": "npy", "save": "states",
})  # fmt: skip
