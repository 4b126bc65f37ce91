"""Real networks for benchmarks: in the folder that DORY_NETS names, else beside the project."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "nets"


def folder_of(name: str) -> Path:
    """Return the folder of a network, which holds net.onnx and golden.npz."""
    return Path(os.environ.get("DORY_NETS", _BESIDE)) / name


def is_missing(name: str) -> bool:
    """Return whether a network is not there, and say so."""
    folder = folder_of(name)
    if (folder / "net.onnx").is_file():
        return False
    print(f"{name} is left out: {folder} does not hold it (DORY_NETS names the folder of networks)")
    return True


def has_signed_input(golden: Path) -> bool:
    """Return True when an input of a golden has a value below zero."""
    with np.load(golden) as arrays:
        inputs = [arrays[name] for name in arrays.files if name.startswith(("in0", "input"))]
    return any(int(values.min()) < 0 for values in inputs)
