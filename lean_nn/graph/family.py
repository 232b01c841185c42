"""`Family`: programs of one function for different sizes, made when a size is met, the latest kept."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from lean_nn import tree
from lean_nn.graph.program import Program
from lean_nn.graph.sizes import Size, match, shown
from lean_nn.graph.trace import Traced, is_array
from lean_nn_c import engine

if TYPE_CHECKING:
    from lean_nn.graph.profile import Profile

CACHED = 16  # programs of a family that are kept


class Family:
    """Programs of one function for different sizes: made when a size is met, the latest `CACHED` kept.

    Constants that all of them have in common, as they are or as a pass made them (folded, packed), are there once.

    Parameters
    ----------
    make : from sizes by name to the recorded graph
    shapes : of the arrays of a call, in order, with the names of the sizes that are open
    options : of `Program`

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn as ln
    >>> family = ln.compile(lambda x: x.sum(1), (None, 4))
    >>> family(np.ones((2, 4), np.float32)), family(np.ones((3, 4), np.float32))
    (array([4., 4.], dtype=float32), array([4., 4., 4.], dtype=float32))
    """

    def __init__(
        self, make: Callable[[dict[Size, int]], Traced], shapes: Sequence[tuple[Size, ...]], options: dict[str, Any]
    ) -> None:
        self.make, self.shapes, self.options = make, list(shapes), options
        self._names = [str(i) for i in range(len(self.shapes))]
        self.open = list(dict.fromkeys(n for shape in self.shapes for n in shape if not isinstance(n, int)))
        self._lock = threading.Lock()
        self._programs: OrderedDict[tuple[int, ...], Program] = OrderedDict()
        self._pool: WeakValueDictionary[Any, Any] = WeakValueDictionary()

    # --- the programs ---

    def at(self, sizes: dict[Size, int]) -> Program:
        """The program for these sizes, by name: ``family.at({None: 8})``."""
        given = isinstance(sizes, dict) and set(sizes) == set(self.open)
        if not given or not all(type(n) is int and n >= 0 for n in sizes.values()):
            raise ValueError(f"program: open sizes are {sorted(map(str, self.open))}; got {sizes}; give each a number, as in "
                             f"family.at({dict.fromkeys(self.open, 8)})")
        key = tuple(sizes[name] for name in self.open)
        with self._lock:
            program = self._programs.get(key)
            if program is not None:
                self._programs.move_to_end(key)
                return program
        program = Program(self.make(sizes), **self.options, pool=self._pool)
        with self._lock:
            program = self._programs.setdefault(key, program)
            while len(self._programs) > CACHED:
                self._programs.popitem(last=False)
        return program

    def program_for(self, *arguments: Any) -> Program:
        """The program for arrays of these sizes."""
        arrays = [leaf.data if isinstance(leaf, engine.Box) else leaf for leaf in tree.leaves(arguments) if is_array(leaf)]
        return self.at(match(self.shapes, arrays, self._names))

    def __call__(self, *arguments: Any, out: Any = None) -> Any:
        """The outputs, as `Program` gives them, by the program for arrays of these sizes."""
        return self.program_for(*arguments)(*arguments, out=out)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """(y, J·v), as `Program.jvp` gives it."""
        return self.program_for(*primals).jvp(primals, tangents)

    def vjp(self, primals: Sequence[Any], cotangents: Any) -> tuple[Any, Any]:
        """(y, uᵀ·J), as `Program.vjp` gives it."""
        return self.program_for(*primals).vjp(primals, cotangents)

    # --- looking at it, keeping it ---

    def profile(self, *arguments: Any, repeats: int = 10) -> Profile:
        """Time every node of the program for arrays of these sizes, as `Program.profile` does."""
        return self.program_for(*arguments).profile(*arguments, repeats=repeats)

    def __repr__(self) -> str:
        planned = ", ".join(shown(dict(zip(self.open, key, strict=True))) for key in self._programs)
        return f"<Family of programs on {', '.join(map(str, self.shapes))}; planned for: {planned or 'no size yet'}>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the family to one file, sizes left open; `lean_nn.load_program` gives a family again.

        The function is traced at a number of sizes; what changes from one to the other must be numbers that follow from
        the sizes (``lean_nn/graph/general.py``). Where more changes, the error names the node.
        """
        from lean_nn.graph.files import save

        save(self, path)

    def __reduce__(self) -> tuple[Any, ...]:
        from lean_nn.graph.files import from_bytes, to_bytes

        return from_bytes, (to_bytes(self),)
