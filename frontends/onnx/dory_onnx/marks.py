"""Which exporter wrote an ONNX file, told from the names that it holds."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

#: Operators of networks whose integers are not spelled out as plain arithmetic.
OTHER_FORMS = ("QuantizeLinear", "DequantizeLinear", "QLinear", "Integer", "Requant")


def holds(path: Path, wanted: Collection[str], unwanted: Collection[str]) -> bool:
    """Return whether a file ``*.onnx`` holds every wanted name and no unwanted one.

    Names of operators and attributes stand in an ONNX file as they are, so nothing is parsed. It
    is for ``Frontend.recognises``. False when the file cannot be read.
    """
    if path.suffix.lower() != ".onnx":
        return False
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return all(name.encode() in content for name in wanted) and not any(
        name.encode() in content for name in unwanted
    )
