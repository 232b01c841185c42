"""The case lists live in ``lean_nn/cases`` (an installed `lean-nn check` needs them); this stands in while families move."""

from lean_nn.cases import Case, normal, uniform
from lean_nn.cases import all_cases as _packaged

__all__ = ["Case", "all_cases", "normal", "uniform"]


def all_cases():
    """Every case of every family, here and in the package."""
    from importlib import import_module
    from pkgutil import iter_modules

    for module in sorted(m.name for m in iter_modules(__path__)):
        yield from import_module(f"{__name__}.{module}").CASES
    yield from _packaged()
