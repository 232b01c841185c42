"""What happened: a column per quantity, a row per epoch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from lean_nn.atomic import write_atomically

__all__ = ["History"]


class History(Mapping[str, list[Any]]):
    """Columns by name: ``history["loss"]`` is a list with one number per epoch.

    Examples
    --------
    >>> from lean_nn.training import History
    >>> history = History()
    >>> history.append({"loss": 2.0, "accuracy": 0.5})
    >>> history.append({"loss": 1.0, "accuracy": 0.75})
    >>> history["loss"], history.epochs, history.last["accuracy"]
    ([2.0, 1.0], 2, 0.75)
    >>> History.from_json(history.to_json()) == history
    True
    """

    def __init__(self, columns: Mapping[str, list[Any]] | None = None) -> None:
        self._columns = {name: list(values) for name, values in (columns or {}).items()}
        if len({len(values) for values in self._columns.values()}) > 1:
            raise ValueError("History: columns of one length; got several lengths; give each a value per epoch")

    @property
    def epochs(self) -> int:
        """The number of rows."""
        return len(next(iter(self._columns.values()), []))

    @property
    def last(self) -> dict[str, Any]:
        """The latest row."""
        return {name: values[-1] for name, values in self._columns.items() if values}

    def append(self, row: Mapping[str, Any]) -> None:
        """One more epoch, with the quantities of the first."""
        if self._columns and set(row) != set(self._columns):
            raise ValueError(f"History: a row has {list(self._columns)}; got {list(row)}; record the same in every epoch")
        for name, value in row.items():
            self._columns.setdefault(name, []).append(value)

    def __getitem__(self, name: str) -> list[Any]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"<History of {self.epochs} epochs: {', '.join(self._columns)}>"

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The columns as JSON; with a path they are written there as well."""
        text = json.dumps(self._columns)
        if path is not None:
            write_atomically(path, [text.encode()])
        return text

    @classmethod
    def from_json(cls, text: str) -> History:
        """What `to_json` gave."""
        columns = json.loads(text)
        if not isinstance(columns, dict) or not all(isinstance(values, list) for values in columns.values()):
            raise ValueError("History: a JSON object of lists is needed; got something else; pass what to_json gave")
        return cls(columns)
