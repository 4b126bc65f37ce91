"""The record that a plugin contributes for a file format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dory_core.ir import Graph


@dataclass(frozen=True, slots=True)
class FrontendOptions:
    """What the file does not say about the network input.

    input_bits: significant bits, 1 to 16. input_signed: two's complement.
    """

    input_bits: int = 8
    input_signed: bool = False


@dataclass(frozen=True, slots=True)
class Frontend:
    """A way to read networks of one file format.

    name: what ``--frontend`` takes. summary: one line for ``dory frontends``.
    reader: reads a file; it imports what it needs when it is called.
    recognises: tells from a file's bytes that it is of this format, so that ``--frontend`` may be
        left out; None where the file does not show it. It imports nothing heavy.
    """

    name: str
    summary: str
    reader: Callable[[Path, FrontendOptions], Graph]
    recognises: Callable[[Path], bool] | None = None

    def parse(self, path: Path, options: FrontendOptions | None = None) -> Graph:
        """Return the integer network of a file.

        Raises: UsageError when the file is missing, NotSupported when it cannot be computed
        exactly.
        """
        return self.reader(Path(path), options or FrontendOptions())
