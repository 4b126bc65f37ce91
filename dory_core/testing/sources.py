"""The C of kernels under test: their files, and a function that calls each case."""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dory_core.simulate.build import EXTERNAL_FLAGS, EXTERNAL_FOLDER, FLAGS, SOURCE_FOLDERS
from dory_core.testing.buffers import NUMBERS, POINTERS

if TYPE_CHECKING:
    from dory_core.testing.kernel_cases import KernelCase

# Qualifiers of pointers as in applications.
_TYPES = {"psum": "int32_t"}

__all__ = ["source_flags", "texts_of", "write_sources"]


def write_sources(cases: Sequence[KernelCase], folder: Path) -> list[str]:
    """Write the kernels of the cases, and a function ``call_N`` for each; return the C files.

    The functions get POINTERS and NUMBERS and call the kernel as one core.
    """
    files: dict[str, str | bytes] = {}
    for case in cases:
        for file in case.kernel.sources(case.layer):
            content = files.setdefault(file.path, file.content)
            assert content == file.content, f"two contents of {file.path}"
    headers = sorted({h for case in cases for h in case.kernel.headers(case.layer)})
    text = "".join(f'#include "{name}"\n' for name in ("stdint.h", *headers))
    for number, case in enumerate(cases):
        names = {
            name: f"(({_TYPES.get(name, 'uint8_t')} *)pointers[{i}])"
            for i, name in enumerate(POINTERS)
        }
        names |= {name: f"numbers[{i}]" for i, name in enumerate(NUMBERS)}
        call = string.Template(str(case.kernel.call(case.layer))).substitute(names)
        head = f"void call_{number}(void *const *pointers, const int32_t *numbers)"
        text += f"{head};\n{head}\n{{\n(void)numbers;\n{call}\n}}\n"
    for path, data in {**files, "calls.c": text}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data.encode() if isinstance(data, str) else data)
    compiled = [n for n in files if n.endswith(".c") and str(Path(n).parent) in SOURCE_FOLDERS]
    return [str(folder / name) for name in (*compiled, "calls.c")]


def source_flags(folder: Path) -> list[str]:
    """Return flags and folders of headers for the files of :func:`write_sources` in ``folder``.

    All warnings are errors, except in sources of libraries.
    """
    external = folder / EXTERNAL_FOLDER
    headers = (folder / "kernels", external, external / "host", folder)
    return [
        *FLAGS,
        *(EXTERNAL_FLAGS if external.exists() else ()),
        *(f"-I{path}" for path in headers),
    ]


def texts_of(case: KernelCase) -> list[str]:
    """Return the call and the code of a kernel."""
    contents = (file.content for file in case.kernel.sources(case.layer))
    return [str(case.kernel.call(case.layer)), *(c for c in contents if isinstance(c, str))]
