"""Records as the rows of JSON documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def row(record: object, *names: str) -> dict[str, Any]:
    """Return attributes of a record by their names, in this order; tuples become lists."""
    values = ((name, getattr(record, name)) for name in names)
    return {n: list(value) if isinstance(value, tuple) else value for n, value in values}


def json_text(document: Mapping[str, Any]) -> str:
    """Return a document as JSON with a line per key, and per element of what is a list or a dict.

    ``json`` indents in Python, which takes several times as long as its encoder in C.
    """
    lines = (f" {json.dumps(key)}: {_json_lines(value)}" for key, value in document.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _json_lines(value: Any) -> str:
    if not value or not isinstance(value, (list, dict)):
        return json.dumps(value)
    if isinstance(value, list):
        return "[\n" + ",\n".join(f"  {json.dumps(one)}" for one in value) + "\n ]"
    lines = (f"  {json.dumps(key)}: {json.dumps(one)}" for key, one in value.items())
    return "{\n" + ",\n".join(lines) + "\n }"
