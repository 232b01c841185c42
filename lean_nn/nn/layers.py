"""Linear, Embedding, Dropout, and layers that only rearrange: Flatten, Unflatten, Identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lean_nn import functional as F
from lean_nn.nn import init
from lean_nn.nn.conv import positive
from lean_nn.nn.module import Module, Parameter
from lean_nn.nn.stateless import scopes

__all__ = ["Dropout", "Embedding", "Flatten", "Identity", "Linear", "Unflatten"]


class Linear(Module):
    """``y = x·Wᵀ + b`` on the last axis, W of shape ``(out_features, in_features)``.

    Examples
    --------
    >>> import numpy as np
    >>> from lean_nn import nn
    >>> nn.Linear(3, 2)(np.zeros((5, 4, 3), np.float32)).shape
    (5, 4, 2)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, dtype: Any = "float32") -> None:
        super().__init__()
        positive("Linear", in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(np.empty((out_features, in_features), dtype))
        self.register_parameter("bias", Parameter(np.empty(out_features, dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """First values, as PyTorch's: U(−1/√in_features, 1/√in_features)."""
        init.default_(self.weight, self.bias)

    def forward(self, x: Any) -> Any:
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """A row of a table for every index; the row `padding_idx` begins as zeros and gets no gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from lean_nn import nn
    >>> nn.Embedding(10, 4)(np.array([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, dtype: Any = "float32"
    ) -> None:
        super().__init__()
        positive("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"Embedding: padding_idx is a row of {num_embeddings}; got {padding_idx}; choose one that is there")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = Parameter(np.empty((num_embeddings, embedding_dim), dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """First values, as PyTorch's: N(0, 1), zeros in the row of the padding."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0

    def forward(self, index: Any) -> Any:
        if self.padding_idx is None:
            return F.embedding(index, self.weight)
        kept = np.arange(self.num_embeddings).reshape(-1, 1) != self.padding_idx
        fixed = self.weight.detach()
        return F.embedding(index, F.where(np.broadcast_to(kept, self.weight.shape), self.weight, fixed))

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class Dropout(Module):
    """``x/(1 − p)`` with probability 1 − p, else 0, while training; x itself in use.

    Which elements stay is a function of a seed and the element's place: the next seed of the sequence that
    `lean_nn.manual_seed` starts or, in a function made by `lean_nn.nn.pure`, one of those it is given.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"Dropout: p is from 0 to 1; got {p}; use the fraction of elements to drop")
        self.p, self.inplace = p, inplace

    def forward(self, x: Any) -> Any:
        if not self.training or self.p == 0:
            return x
        scope = scopes.current
        return F.dropout(x, self.p, True, None if scope is None else scope.next_seed())

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Flatten(Module):
    """The axes from `start_dim` to `end_dim` as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Any) -> Any:
        return F.flatten(x, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """The axis `dim` as several, of the sizes `unflattened_size`."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, x: Any) -> Any:
        axis = self.dim % len(x.shape)
        return F.reshape(x, (*x.shape[:axis], *self.unflattened_size, *x.shape[axis + 1 :]))

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Identity(Module):
    """x itself; takes any arguments and has no use for them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, x: Any) -> Any:
        return x
