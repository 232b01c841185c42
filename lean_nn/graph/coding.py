"""Parameters of nodes, forms of results and numbers of constants as JSON, and back from what a stranger may have written."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import numpy as np

from lean_nn.window import Bins, Window

DEEPEST = 32  # tuples within tuples of a parameter or of the result
CODES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype(np.float32), "F64": np.dtype(np.float64), "I64": np.dtype(np.int64), "BOOL": np.dtype(np.bool_),
}  # fmt: skip
NAMES = {dtype: code for code, dtype in CODES.items()}


def encode(value: Any) -> Any:
    """A parameter as JSON: None, bool, int, float and str are themselves, a tuple is a list, the rest an object."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if isfinite(value) else {"float": repr(value)}
    if type(value) is tuple:
        return [encode(part) for part in value]
    if type(value) in (Window, Bins):
        return {type(value).__name__: [encode(part) for part in value]}
    raise ValueError(f"save: parameters are None, bool, int, float, str, tuples, Window and Bins; "
                     f"got {type(value).__name__}; convert it where the primitive is called")


def decode(value: Any, depth: int = 0) -> Any:
    """The parameter that `encode` wrote."""
    if depth > DEEPEST:
        raise ValueError(f"a parameter is at most {DEEPEST} tuples deep")
    if isinstance(value, list):
        return tuple(decode(part, depth + 1) for part in value)
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = exactly(value, 1, "an object stands for one value").items()
    if kind == "float" and inner in ("nan", "inf", "-inf"):
        return float(inner)
    if kind not in ("Window", "Bins") or not isinstance(inner, list):
        raise ValueError(f"an object is a float, a Window or Bins; got {short(value)}")
    return _window(kind, decode(inner, depth + 1))


def _window(kind: str, fields: tuple[Any, ...]) -> Window | Bins:
    """A window whose fields have the types that its formulas count on."""
    if kind == "Bins":
        (output,) = fields
        _tuple_of(output, lambda n: n is None or type(n) is int)
        return Bins(output)
    kernel, stride, padding, dilation, ceil_mode = fields
    for part in (kernel, stride, dilation):
        _tuple_of(part, lambda n: type(n) is int)
    _tuple_of(padding, lambda pair: type(pair) is tuple and [type(n) for n in pair] == [int, int])
    if type(ceil_mode) is not bool:
        raise ValueError(f"ceil_mode is true or false; got {short(ceil_mode)}")
    return Window(kernel, stride, padding, dilation, ceil_mode)


def _tuple_of(values: Any, fits: Callable[[Any], bool]) -> None:
    if type(values) is not tuple or not all(fits(value) for value in values):
        raise ValueError(f"a window has whole numbers per axis; got {short(values)}")


def encode_form(form: Any) -> Any:
    """The form of a result: ``"*"`` for an array, null, a list, or an object for tuples and dicts."""
    if form is None or form == "*":
        return form
    if type(form) is list:
        return [encode_form(part) for part in form]
    if type(form) is tuple:
        return {"tuple": [encode_form(part) for part in form]}
    if type(form) is dict:
        return {"dict": [[encode(key), encode_form(part)] for key, part in form.items()]}
    raise ValueError(f"save: a program returns tuples, lists and dicts; got {type(form).__name__}; "
                     f"return one of them from the function")


def decode_form(form: Any, depth: int = 0) -> Any:
    """The form that `encode_form` wrote."""
    if depth > DEEPEST:
        raise ValueError(f"a result is at most {DEEPEST} containers deep")
    if form is None or form == "*":
        return form
    if isinstance(form, list):
        return [decode_form(part, depth + 1) for part in form]
    if isinstance(form, dict):
        ((kind, inner),) = exactly(form, 1, "a container has one kind").items()
        if kind == "tuple" and isinstance(inner, list):
            return tuple(decode_form(part, depth + 1) for part in inner)
        if kind == "dict" and isinstance(inner, list):
            pairs = [(decode(key), decode_form(part, depth + 1)) for key, part in inner]
            return exactly(dict(pairs), len(pairs), "keys of a dict differ")
    raise ValueError(f"a result is made of arrays, tuples, lists and dicts; got {short(form)}")


def exactly(mapping: dict[Any, Any], count: int, rule: str) -> dict[Any, Any]:
    if len(mapping) != count:
        raise ValueError(f"{rule}; got {short(mapping)}")
    return mapping


def short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def number_at(number: Any, dtype: np.dtype[Any]) -> Any:
    """The number of a constant that follows from sizes: as it is, or one over it."""
    if isinstance(number, dict) and set(number) == {"over"}:
        with np.errstate(divide="ignore"):
            return np.divide(dtype.type(1), dtype.type(number["over"]))
    return dtype.type(decode(number))
