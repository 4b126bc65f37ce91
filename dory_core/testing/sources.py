"""The C of kernels under test: their files, and a function that calls each case."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dory_core.codegen.arguments import ArgumentText, call_text
from dory_core.simulate.build import EXTERNAL_FLAGS, EXTERNAL_FOLDER, FLAGS, SOURCE_FOLDERS
from dory_core.testing.buffers import NUMBERS, POINTERS

if TYPE_CHECKING:
    from dory_core.testing.kernel_cases import KernelCase

#: Folders of headers of kernels.
KERNEL_FOLDERS = ("kernels", "kernels/external", "kernels/external/host")
_CALLS = "src/calls.c"
#: A variable that its declaration does not set: it holds nonsense first, so that a kernel that
#: reads a member which the call does not set is found.
_UNSET = re.compile(r"^\w+ (\w+);$", re.MULTILINE)
# Qualifiers of pointers as in applications.
_TYPES = {"psum": "int32_t"}

_NAMES = {
    name: ArgumentText(text, text)
    for name, text in (
        *((n, f"(({_TYPES.get(n, 'uint8_t')} *)pointers[{i}])") for i, n in enumerate(POINTERS)),
        *((n, f"numbers[{i}]") for i, n in enumerate(NUMBERS)),
    )
}

__all__ = ["KERNEL_FOLDERS", "source_flags", "texts_of", "write_sources"]


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
    text = "".join(
        f'#include "{name}"\n' for name in ("stddef.h", "stdint.h", "string.h", *headers)
    )
    for number, case in enumerate(cases):
        call = _UNSET.sub(r"\g<0>\n(void)memset(&\1, 0xA5, sizeof \1);", _text(case))
        head = f"void call_{number}(void *const *pointers, const int32_t *numbers)"
        text += f"{head};\n{head}\n{{\n(void)numbers;\n{call}\n}}\n"
    for path, data in {**files, _CALLS: text}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data.encode() if isinstance(data, str) else data)
    compiled = [n for n in files if n.endswith(".c") and str(Path(n).parent) in SOURCE_FOLDERS]
    return [str(folder / name) for name in (*compiled, _CALLS)]


def source_flags(folder: Path) -> list[str]:
    """Return flags and folders of headers for the files of :func:`write_sources` in ``folder``.

    All warnings are errors, except in sources of libraries.
    """
    return [
        *FLAGS,
        *(EXTERNAL_FLAGS if (folder / EXTERNAL_FOLDER).exists() else ()),
        *(f"-I{folder / name}" for name in (*KERNEL_FOLDERS, ".")),
    ]


def texts_of(case: KernelCase) -> list[str]:
    """Return the call and the code of a kernel."""
    contents = (file.content for file in case.kernel.sources(case.layer))
    return [_text(case), *(c for c in contents if isinstance(c, str))]


def _text(case: KernelCase) -> str:
    """Return the call of a case in C, with the pointers and numbers of one tile.

    A call that is not possible fails with the kernel and the argument.
    """
    call = case.kernel.call(case.layer)
    reason = call.reason_against()
    assert reason is None, f"{case.kernel.name} {reason}: {case.label}"
    return call_text(call, _NAMES.__getitem__)
