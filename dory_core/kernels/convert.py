"""The C function that copies a tensor from one layout to another."""

from __future__ import annotations

from pathlib import Path

from dory_core.hardware.target import OutputFile

_SOURCES = Path(__file__).parent / "c"
_FILES = ("dory_layout.h", "dory_layout.c")


def conversion_files() -> tuple[OutputFile, ...]:
    """Return ``dory_convert_layout`` and its header."""
    return tuple(OutputFile.from_package(_SOURCES / name, f"kernels/{name}") for name in _FILES)
