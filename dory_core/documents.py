"""Records as the rows of JSON documents."""

from __future__ import annotations

from typing import Any


def row(record: object, *names: str) -> dict[str, Any]:
    """Return attributes of a record by their names, in this order; tuples become lists."""
    values = ((name, getattr(record, name)) for name in names)
    return {n: list(value) if isinstance(value, tuple) else value for n, value in values}
