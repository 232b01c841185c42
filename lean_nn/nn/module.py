"""Module: a function with parameters, buffers and parts, under PyTorch's names.

A Module keeps three tables, filled by plain assignment: `Parameter` s (trained), buffers (kept, not trained) and other
Modules (parts). Everything else here walks those tables. The names in a `state_dict` are the path of attributes,
``features.0.weight``, and the arrays have PyTorch's layouts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from lean_nn.convert import as_array
from lean_nn.device import device_of, move, parse
from lean_nn.primitive import FLOATS
from lean_nn.tensor import Tensor
from lean_nn_c import engine

Array = np.ndarray[Any, Any]
Self = TypeVar("Self", bound="Module")


class Parameter(Tensor):
    """A Tensor that a Module trains: assigned to an attribute, it enters the Module's parameters.

    Parameters
    ----------
    data : array, Tensor or nested sequence; arrays of float32 and float64 are shared, not copied
    requires_grad : record operations on it for `backward`

    Examples
    --------
    >>> from lean_nn import nn
    >>> nn.Parameter([1.0, 2.0])
    Parameter([1., 2.])
    """

    __slots__ = ()

    def __new__(cls, data: Any, requires_grad: bool = True) -> Parameter:
        box = super().__new__(cls)
        engine.rebind(box, as_array(data.data if isinstance(data, Tensor) else data, op="Parameter"))
        if requires_grad:
            box.requires_grad = True
        return box

    def __repr__(self) -> str:
        body = np.array2string(self.data, separator=", ", prefix="Parameter(", threshold=1000)
        extra = "" if self.dtype == np.float32 else f", dtype={self.dtype}"
        return f"Parameter({body}{extra}{'' if self.requires_grad else ', requires_grad=False'})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Parameter, (self.data, self.requires_grad)


class LoadedKeys(NamedTuple):
    """What `Module.load_state_dict` with ``strict=False`` did not find, and what it found no place for."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class _Observer(threading.local):
    """Who wants to know of every call of a Module in this thread: ``observer(module, args, call)`` makes the call."""

    call: Callable[..., Any] | None = None


observer = _Observer()


class Module:
    """A function with parameters; subclasses make their parts in ``__init__`` and say in `forward` what they compute.

    Examples
    --------
    >>> import lean_nn as ln
    >>> from lean_nn import nn
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.conv = nn.Conv2d(1, 4, 3)
    ...         self.head = nn.Linear(4, 10)
    ...     def forward(self, x):
    ...         return self.head(ln.functional.relu(self.conv(x)).mean((2, 3)))
    >>> net = Net()
    >>> [name for name, _ in net.named_parameters()]
    ['conv.weight', 'conv.bias', 'head.weight', 'head.bias']
    >>> net(ln.tensor([[[[1.0] * 8] * 8]] * 2)).shape
    (2, 10)
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _transient: set[str]

    def __init__(self) -> None:
        self.__dict__.update(training=True, _parameters={}, _buffers={}, _modules={}, _transient=set())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the Module computes."""
        raise NotImplementedError(f"{type(self).__name__}: forward(self, x) says what a Module computes; got none; write it")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if observer.call is not None:
            return observer.call(self, args, lambda: self.forward(*args, **kwargs))
        return self.forward(*args, **kwargs)

    # --- the three tables ---

    def __setattr__(self, name: str, value: Any) -> None:
        tables = self.__dict__
        if "_parameters" not in tables:
            raise AttributeError(f"{type(self).__name__}: super().__init__() comes first; got {name} before it; call it")
        if isinstance(value, Parameter):
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self.add_module(name, value)
        elif name in self._buffers:
            self.register_buffer(name, value, name not in self._transient)
        elif name in self._parameters or name in self._modules:
            if value is not None:
                kind = "Parameter" if name in self._parameters else "Module"
                raise TypeError(f"{type(self).__name__}: {name} is a {kind}; got {type(value).__name__}; assign a {kind} or None")
            self._table_of(name)[name] = None
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(table, {})
            if name in found:
                return found[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        if name in self._parameters or name in self._buffers or name in self._modules:
            del self._table_of(name)[name]
            self._transient.discard(name)
        else:
            object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._parameters, *self._buffers, *self._modules]

    def _table_of(self, name: str) -> dict[str, Any]:
        return next(t for t in (self._parameters, self._buffers, self._modules) if name in t)

    def _make_room(self, name: str) -> None:
        """A name stands in one table only, and is a word that a path of names can hold."""
        if not isinstance(name, str) or not name or "." in name:
            raise ValueError(f"{type(self).__name__}: names are words without a dot; got {name!r}; choose another")
        for table in (self._parameters, self._buffers, self._modules, self.__dict__):
            table.pop(name, None)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Enter a Parameter, or None for one that is left out (a layer without bias)."""
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"register_parameter: a Parameter is needed; got {type(param).__name__}; wrap it in nn.Parameter")
        if name not in self._parameters:
            self._make_room(name)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Enter an array that is kept and not trained; unless `persistent` it stays out of `state_dict`."""
        if name not in self._buffers:
            self._make_room(name)
        given = tensor is None or isinstance(tensor, Tensor)
        self._buffers[name] = tensor if given else engine.wrap(as_array(tensor, op="register_buffer"))
        (self._transient.discard if persistent else self._transient.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Enter a part."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"add_module: a Module is needed; got {type(module).__name__}; wrap the function in a Module")
        if name not in self._modules:
            self._make_room(name)
        self._modules[name] = module

    # --- walking them ---

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This Module and all its parts, each once, with the path that leads there."""
        seen: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield path, module
            parts = [(_joined(path, name), part) for name, part in module._modules.items() if part is not None]
            stack += reversed(parts)

    def modules(self) -> Iterator[Module]:
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        return ((name, part) for name, part in self._modules.items() if part is not None)

    def children(self) -> Iterator[Module]:
        return (part for _, part in self.named_children())

    def _named(self, table: str, prefix: str, recurse: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for path, module in self.named_modules(prefix) if recurse else [(prefix, self)]:
            for name, value in module.__dict__[table].items():
                if value is not None and id(value) not in seen:
                    seen.add(id(value))
                    yield _joined(path, name), value

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Every Parameter once, under its first name."""
        return self._named("_parameters", prefix, recurse)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Every buffer once, under its first name."""
        return self._named("_buffers", prefix, recurse)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The part that a path leads to."""
        module: Module = self
        for name in target.split(".") if target else ():
            found = module._modules.get(name)
            if found is None:
                raise AttributeError(f"get_submodule: a path of parts is needed; got {target!r}, which ends at {name!r}; "
                                     f"choose from {list(module._modules)}")  # fmt: skip
            module = found
        return module

    # --- changing them all ---

    def apply(self: Self, fn: Callable[[Module], Any]) -> Self:
        """Call `fn` on every part and then on the Module itself."""
        for part in self.children():
            part.apply(fn)
        fn(self)
        return self

    def train(self: Self, mode: bool = True) -> Self:
        """Behave as in training: dropout drops, batch norm uses the batch's statistics."""
        for module in self.modules():
            module.__dict__["training"] = bool(mode)
        return self

    def eval(self: Self) -> Self:
        """Behave as in use: dropout does nothing, batch norm uses the running statistics."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        for p in self.parameters():
            p.requires_grad = requires_grad
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients (or fill them with zeros)."""
        for p in self.parameters():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad.data[...] = 0

    def to(self: Self, dtype: Any) -> Self:
        """All float parameters and buffers in another float dtype; the Parameters stay the same objects."""
        new = np.dtype(dtype)
        if new not in FLOATS:
            raise TypeError(f"to: parameters are float32 or float64; got {new}; choose one of them")
        for tensor in (*self.parameters(), *self.buffers()):
            if tensor.dtype in FLOATS and tensor.dtype != new:
                engine.rebind(tensor, tensor.data.astype(new))
                tensor.grad = None
        return self

    def float(self: Self) -> Self:
        return self.to("float32")

    def double(self: Self) -> Self:
        return self.to("float64")

    def cuda(self: Self) -> Self:
        """All parameters and buffers on the current CUDA device; the Parameters stay the same objects."""
        return self._on("cuda")

    def cpu(self: Self) -> Self:
        """All parameters and buffers in host memory; the Parameters stay the same objects."""
        return self._on("cpu")

    def _on(self: Self, device: str) -> Self:
        for tensor in (*self.parameters(), *self.buffers()):
            engine.rebind(tensor, move(tensor.data, parse(device)))
            tensor.grad = None
        return self

    # --- state in and out ---

    def _state(self) -> Iterator[tuple[str, Tensor]]:
        """All persistent tensors in PyTorch's order, shared ones under each of their names."""
        yield from self._state_under("")

    def _state_under(self, path: str) -> Iterator[tuple[str, Tensor]]:
        kept = {name: b for name, b in self._buffers.items() if name not in self._transient}
        for name, tensor in (*self._parameters.items(), *kept.items()):
            if tensor is not None:
                yield _joined(path, name), tensor
        for name, part in self.named_children():
            yield from part._state_under(_joined(path, name))

    def state_dict(self) -> dict[str, Array]:
        """Parameters and buffers by name: the arrays themselves, so copy what must outlive the next step; copies of those
        that lie on a device.

        Examples
        --------
        >>> from lean_nn import nn
        >>> {name: array.shape for name, array in nn.Linear(3, 2).state_dict().items()}
        {'weight': (2, 3), 'bias': (2,)}
        """
        return {name: tensor.detach().cpu().numpy() for name, tensor in self._state()}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> LoadedKeys:
        """Copy arrays into the parameters and buffers of their names. All or nothing: an error changes nothing.

        Parameters
        ----------
        state_dict : arrays by name, of the right shapes and dtypes
        strict : refuse names that are missing or unknown; otherwise they are returned
        """
        own = dict(self._state())
        missing = [name for name in own if name not in state_dict]
        unknown = [name for name in state_dict if name not in own]
        if strict and (missing or unknown):
            raise ValueError(f"load_state_dict: the names of {type(self).__name__}'s state; got {_list(missing)} missing and "
                             f"{_list(unknown)} unknown; load the state of this model, or pass strict=False")  # fmt: skip
        arrays = {name: _fitting(name, own[name], value) for name, value in state_dict.items() if name in own}
        for name, array in arrays.items():
            own[name].data[...] = move(array, device_of(own[name].data))
        return LoadedKeys(missing, unknown)

    def for_compiling(self) -> Callable[..., Any]:
        """The function that `lean_nn.compile` traces: this Module as it is used, its parameters constants."""
        from lean_nn.nn.stateless import functional_call

        if self.training:
            raise ValueError(f"compile: a Module as it is used; got {type(self).__name__} in training mode; "
                             f"call .eval() first, or compile a training step made with nn.pure")  # fmt: skip
        constants = {name: engine.wrap(t.data) for name, t in (*self.named_parameters(), *self.named_buffers())}
        return lambda *args: functional_call(self, constants, *args)

    # --- looking at it ---

    def extra_repr(self) -> str:
        """What stands between the parentheses of the representation."""
        return ""

    def __repr__(self) -> str:
        parts = [f"({name}): " + repr(part).replace("\n", "\n  ") for name, part in self._modules.items()]
        extra = self.extra_repr()
        if not parts:
            return f"{type(self).__name__}({extra})"
        lines = [*([extra] if extra else []), *parts]
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines) + "\n)"


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _list(names: list[str], most: int = 5) -> str:
    if not names:
        return "none"
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _fitting(name: str, tensor: Tensor, value: Any) -> Array:
    """`value` as an array of the tensor's shape and dtype, or an error: nothing is cast or stretched here."""
    array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
    if array.shape != tensor.shape:
        raise ValueError(f"load_state_dict: {name} has shape {tensor.shape}; got {array.shape}; load the state of this model")
    if array.dtype != tensor.dtype:
        raise TypeError(f"load_state_dict: {name} is {tensor.dtype}; got {array.dtype}; convert the array, or the model with .to")
    return array
