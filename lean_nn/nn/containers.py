"""Modules made of Modules: one after another, in a list, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lean_nn.nn.module import Module

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


def _place(op: str, index: int, length: int) -> int:
    if not -length <= index < length:
        raise IndexError(f"{op}: from {-length} to {length - 1}; got {index}; choose a part that is there")
    return index % length


class Sequential(Module):
    """``y = fₙ(…f₁(x))``: the parts one after another, named "0", "1", … or by the keys of a dict.

    Examples
    --------
    >>> import lean_nn as ln
    >>> from lean_nn import nn
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> net(ln.tensor([[1.0] * 4])).shape
    (1, 2)
    >>> net
    Sequential(
      (0): Linear(in_features=4, out_features=8, bias=True)
      (1): ReLU()
      (2): Linear(in_features=8, out_features=2, bias=True)
    )
    """

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        named = len(modules) == 1 and isinstance(modules[0], Mapping)
        for name, module in modules[0].items() if named else enumerate(modules):
            self.add_module(str(name), module)

    def forward(self, x: Any) -> Any:
        for part in self._modules.values():
            x = part(x)  # type: ignore[misc]
        return x

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return Sequential(dict(list(self._modules.items())[index]))
        return list(self._modules.values())[_place("Sequential", index, len(self))]

    def append(self, module: Module) -> Sequential:
        """One more part at the end."""
        self.add_module(str(len(self)), module)
        return self


class ModuleList(Module):
    """A list of parts, registered; what they compute together is up to the Module that has it."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, index: int | slice) -> Any:
        parts = list(self._modules.values())
        if isinstance(index, slice):
            return ModuleList(parts[index])  # type: ignore[arg-type]
        return parts[_place("ModuleList", index, len(self))]

    def append(self, module: Module) -> ModuleList:
        """One more part at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """More parts at the end."""
        for module in modules:
            self.append(module)
        return self


class ModuleDict(Module):
    """Parts by name, registered."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        for name, module in (modules or {}).items():
            self.add_module(name, module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, name: str) -> bool:
        return name in self._modules

    def __getitem__(self, name: str) -> Any:
        return self._modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def keys(self) -> Iterable[str]:
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        return self._modules.items()
