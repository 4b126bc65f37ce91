"""Which exporter wrote an ONNX file, told from the names that it holds."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

#: Operators of networks whose integers are not spelled out as plain arithmetic.
OTHER_FORMS = ("QuantizeLinear", "DequantizeLinear", "QLinear", "Integer", "Requant")
_QUANTIZE = "`dory quantize` of dory-qdq makes an integer network of a float one"
_DEEPLOY = "this is a network of Deeploy: dory-deeploy reads it (--frontend deeploy)"
_QDQ = "this is a QDQ or QOperator network: dory-qdq reads it (--frontend qdq)"
_READERS = {
    "RequantShift": _DEEPLOY,
    "QuantizeLinear": _QDQ,
    "DequantizeLinear": _QDQ,
    "QLinear": _QDQ,
}

#: What to do about a network of floats.
FLOAT_HINT = f"export the integer network, not the float or fake-quantised one; {_QUANTIZE}"


def reader_of(operators: Collection[str]) -> str:
    """Return the sentence that says who reads a network with such operators; empty for none."""
    said = (text for mark, text in _READERS.items() if any(mark in op for op in operators))
    return next(said, "")


def holds(path: Path, wanted: Collection[str], unwanted: Collection[str]) -> bool:
    """Return True when a file ``*.onnx`` holds every wanted name and no unwanted one.

    An ONNX file holds names of operators and attributes as text, so nothing is parsed. It
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
