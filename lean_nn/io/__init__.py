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

from lean_nn.io.pytorch import load_pytorch
from lean_nn.io.states import load, metadata, save

__all__ = ["load", "load_pytorch", "metadata", "save"]
