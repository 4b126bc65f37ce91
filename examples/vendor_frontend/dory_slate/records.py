"""Records of a Slate file: fields with their checks, since nothing in a file is trusted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import NotSupported, UsageError

_MOST = 1 << 62  # magnitude of an integer


@dataclass(frozen=True, slots=True)
class Record:
    """An object of the file. where: its name for messages."""

    where: str
    fields: dict[str, Any]

    def text(self, name: str) -> str:
        """Return a text."""
        value = self.fields.get(name)
        if not isinstance(value, str) or not value.isidentifier():
            raise self.refused(f"its {name} is no plain name")
        return value

    def texts(self, name: str, count: int) -> list[str]:
        """Return a list of texts."""
        values = self.fields.get(name)
        if not isinstance(values, list) or len(values) != count:
            raise self.refused(f"its {name} is no list of {count} names")
        return [Record(self.where, {name: value}).text(name) for value in values]

    def integers(
        self, name: str, axes: int = 1, default: list[int] | None = None
    ) -> npt.NDArray[np.int64]:
        """Return a list of integers, or nested lists where there are several axes."""
        try:
            values = np.array(self.fields.get(name, default))
        except ValueError as error:  # lists of different lengths
            raise self.refused(f"its {name} is not regular") from error
        if values.dtype.kind != "i" or values.ndim != axes or not values.size:
            raise self.refused(f"its {name} is no list of integers with {axes} axes")
        if np.abs(values.astype(float)).max() > _MOST:
            raise self.refused(f"its {name} holds an integer beyond 62 bits")
        return values.astype(np.int64)

    def numbers(self, name: str, count: int, least: int, default: list[int]) -> tuple[int, ...]:
        """Return a fixed number of integers that are not below ``least``."""
        values = self.integers(name, default=default)
        if len(values) != count or values.min() < least or values.max() > 1 << 16:
            raise self.refused(f"its {name} is not {count} integers from {least} to {1 << 16}")
        return tuple(values.tolist())

    def span(self, name: str = "range") -> tuple[int, int]:
        """Return the least and the greatest value."""
        values = self.integers(name)
        if len(values) != 2 or not -(1 << 31) <= values[0] <= values[1] < 1 << 31:
            raise self.refused(f"its {name} is no least and greatest value")
        return int(values[0]), int(values[1])

    def refused(self, reason: str) -> NotSupported:
        """Return an error that names the record."""
        return NotSupported(f"{self.where}: {reason}", "export the network again")


def load(path: Path) -> tuple[Record, list[Record]]:
    """Return the record of the input and those of the layers.

    Raises: UsageError without a file, NotSupported when it is no Slate file.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file", "give the path of a .slate file")
    whole = Record(str(path), {})
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise whole.refused("it is no JSON document") from error
    if not isinstance(document, dict) or document.get("slate") != 1:
        raise whole.refused("it is no Slate file of version 1")
    first, layers = document.get("input"), document.get("layers")
    if not isinstance(first, dict) or not isinstance(layers, list) or not layers:
        raise whole.refused("it has no input or no layers")
    if not all(isinstance(layer, dict) for layer in layers):
        raise whole.refused("a layer is no record")
    named = [Record(f"{path}: layer {number}", layer) for number, layer in enumerate(layers)]
    return Record(f"{path}: input", first), named
