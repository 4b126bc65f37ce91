"""The user's copy of the library: where its files are, and which of them a kernel needs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from dory_core.api import OutputFile, UsageError

HEADERS = ("pulp_nn_kernels.h", "pulp_nn_utils.h")
# Called by the kernels: im2col, requantisation; the product of matrices.
SHARED = ("pulp_nn_utils", "pulp_nn_matmul")
FOLDER = "kernels/external"
_WIDTHS = {"32bit": 32, "64bit": 64}


@dataclass(frozen=True, slots=True)
class Library:
    """A copy of PULP-NN.

    root: folder with ``include`` and ``src``. bits: of batch normalisation.
    """

    root: Path
    bits: int

    def sources(self, kernel: str) -> tuple[OutputFile, ...]:
        """Return the library's files that ``kernel`` needs, and what stands in for the SDK on a PC.

        Raises UsageError when the copy lacks one of them.
        """
        found = [self._file(f"include/{name}", name) for name in HEADERS]
        found += [self._file(f"src/{name}.c", f"{name}.c") for name in (*SHARED, kernel)]
        stand_in = files("dory_gap8") / "pulp_nn" / "host" / "pmsis.h"
        text = stand_in.read_text(encoding="utf-8")
        return (*found, OutputFile(f"{FOLDER}/host/pmsis.h", text))

    def _file(self, path: str, name: str) -> OutputFile:
        try:
            text = (self.root / path).read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"the copy of PULP-NN in {self.root} lacks {path}: {error.strerror}",
                "let --kernels pulp-nn=PATH name a complete copy of the library",
            ) from error
        return OutputFile(f"{FOLDER}/{name}", text)


def find_library(text: str) -> Library:
    """Return the library at a path of the command line; raises UsageError when there is none."""
    path = Path(text).expanduser()
    for root in (path, path / "64bit", path / "32bit"):
        if (root / "include" / "pulp_nn_kernels.h").is_file() and root.name in _WIDTHS:
            return Library(root.resolve(), _WIDTHS[root.name])
    raise UsageError(
        f"there is no PULP-NN in {path}: a folder 32bit or 64bit with include/pulp_nn_kernels.h",
        "let --kernels pulp-nn=PATH name the library's folder, or its 32bit or 64bit",
    )
