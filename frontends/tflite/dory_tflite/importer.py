"""From a .tflite file to a Graph."""

from __future__ import annotations

from pathlib import Path

from dory_core.api import FrontendOptions, Graph, NotSupported
from dory_tflite.reader import read_model


def parse(path: Path, options: FrontendOptions) -> Graph:
    """Return the integer network of a .tflite file.

    Raises: UsageError when the file is missing, NotSupported when it cannot be computed exactly.
    """
    model = read_model(path)
    first = model.subgraphs[0].operators
    raise NotSupported(f"{model.name}: operator {first[0].code if first else 'none'} is not read")
