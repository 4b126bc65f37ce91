"""CMSIS-NN as it lies on the user's disk: where it is, and which files a function needs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path

from dory_core.api import OutputFile, UsageError

EXTERNAL = "kernels/external"
HEADER = "arm_nnfunctions.h"

# Where CMSIS-NN lies below a checkout of itself or of CMSIS 5, an STM32Cube package, a project of
# STM32CubeMX with the pack ARM.CMSIS.
_FOLDERS = (
    *("", "NN", "CMSIS/NN", "CMSIS-NN", "Drivers/CMSIS/NN"),
    "Middlewares/Third_Party/ARM_CMSIS/CMSIS/NN",
)
# Where packs keep their releases: one pack, the root of packs (CMSIS_PACK_ROOT, with folders
# VENDOR/PACK/RELEASE), the repository of STM32CubeMX.
_PACKS = ("", "CMSIS-NN", "ARM/CMSIS-NN", "Packs/ARM/CMSIS-NN")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
# Definitions begin in the first column, calls never do.
_DEFINITION = re.compile(
    r"^(?!static\b|typedef\b)[A-Za-z_][\w \t*]*?\b(arm_\w+)\s*\(", re.MULTILINE
)
_NAME = re.compile(r"\barm_\w+")
# What tells a release that is new enough from older ones.
_NEEDED = ("arm_fully_connected_per_channel_s8", "arm_nn_mat_mult_nt_t_s8_s32", "upscale_dims")


@dataclass(frozen=True)
class CmsisNn:
    """A copy of CMSIS-NN. root: the folder with ``Include`` and ``Source``."""

    root: Path

    @cached_property
    def _defined(self) -> dict[str, Path]:
        """The file that defines each function."""
        found: dict[str, Path] = {}
        for path in sorted(self.root.glob("Source/**/*.c")):
            for name in _DEFINITION.findall(_code(path)):
                found.setdefault(name, path)
        return found

    def sources(self, function: str) -> tuple[Path, ...]:
        """Return the C files that ``function`` needs, its own first. Raises UsageError."""
        if function not in self._defined:
            raise UsageError(
                f"CMSIS-NN in {self.root} does not define {function}",
                "a release of 2024 or later is needed",
            )
        found: dict[Path, None] = {}
        waiting = [function]
        while waiting:
            path = self._defined[waiting.pop()]
            if path in found:
                continue
            found[path] = None
            waiting += [n for n in _NAME.findall(_code(path)) if n in self._defined]
        return tuple(found)

    def application_files(self, function: str, kernel: str, native: bool) -> tuple[OutputFile, ...]:
        """Return the files of an application that calls a function of the library.

        They are untouched sources, headers, a file per source that includes it, and our call.

        Args:
            function: Name of the function.
            kernel: Name of the kernel that calls it.
            native: True when the library is compiled as it is. Otherwise it has our requantisation,
                and its functions have other names, so that both forms can be linked together.
        """
        result: dict[str, OutputFile] = {}
        headers: dict[str, None] = {HEADER: None}
        before, mark = ("plain", "plain_") if native else ("requantize", "")
        for path in self.sources(function):
            where = path.relative_to(self.root).as_posix()
            text = _read(path)
            result[where] = OutputFile(f"{EXTERNAL}/cmsis-nn/{where}", text)
            wrapper = f'#include "dory_cmsis_nn_{before}.h"\n\n#include "cmsis-nn/{where}"\n'
            result[path.name] = OutputFile(f"{EXTERNAL}/{mark}{path.name}", wrapper)
            headers.update(dict.fromkeys(_INCLUDE.findall(text)))
        waiting = list(headers)
        while waiting:
            name = waiting.pop()
            path = self.root / "Include" / name
            if not path.is_file():
                continue
            result[name] = OutputFile(f"{EXTERNAL}/{name}", _read(path))
            nested = [self._beside(name, n) for n in _INCLUDE.findall(_read(path))]
            waiting += [n for n in nested if n not in result]
        for part in ("plain", "requantize", "impl"):
            ours = f"dory_cmsis_nn_{part}.h"
            result[ours] = OutputFile(f"{EXTERNAL}/{ours}", _shipped(ours))
        names = "dory_cmsis_nn_names.h"
        result[names] = OutputFile(f"{EXTERNAL}/{names}", self._renamed)
        result["call"] = OutputFile(f"{EXTERNAL}/dory_{kernel}.c", _call(function, kernel, native))
        result["dory_cmsis_nn.h"] = OutputFile(
            "kernels/dory_cmsis_nn.h", _shipped("dory_cmsis_nn.h")
        )
        licence = self.root / "LICENSE"
        if licence.is_file():
            result["LICENSE"] = OutputFile(f"{EXTERNAL}/cmsis-nn/LICENSE", _read(licence))
        return tuple(result.values())

    @cached_property
    def _renamed(self) -> str:
        """Names of the library's functions where its requantisation is replaced."""
        defines = "".join(f"#define {name} dory_exact_{name}\n" for name in sorted(self._defined))
        return (
            "/* Functions behind dory_cmsis_nn_requantize.h have names of their own. */\n"
            f"#ifndef DORY_CMSIS_NN_NAMES_H\n#define DORY_CMSIS_NN_NAMES_H\n\n{defines}\n#endif\n"
        )

    def _beside(self, header: str, name: str) -> str:
        """Return the path below Include of a header that ``header`` names."""
        beside = (Path(header).parent / name).as_posix()
        return beside if (self.root / "Include" / beside).is_file() else name


@cache
def find_cmsis_nn(path: Path | None) -> CmsisNn:
    """Return the library at ``path``, or below it. Raises UsageError, naming what was tried."""
    if path is None:
        raise UsageError(
            "the kernels of CMSIS-NN need its sources",
            "--kernels cmsis-nn=PATH, or the environment variable CMSIS_NN_PATH",
        )
    candidates = [path / folder for folder in _FOLDERS]
    for pack in _PACKS:
        candidates += sorted((path / pack).glob("*.*.*"), key=_version, reverse=True)
    too_old: list[str] = []
    for root in candidates:
        if (root / "Include" / HEADER).is_file() and (root / "Source").is_dir():
            # Old releases are not in UTF-8.
            headers = sorted((root / "Include").glob("arm_nn*functions.h"))
            text = "".join(p.read_text(encoding="utf-8", errors="replace") for p in headers)
            missing = [n for n in _NEEDED if n not in text]
            if not missing:
                return CmsisNn(root)
            too_old.append(f"CMSIS-NN in {root} is too old: it has no {', '.join(missing)}")
    if too_old:
        raise UsageError(
            "; ".join(too_old),
            "a release of 2024 or later is needed; that of an STM32Cube package is of CMSIS 5",
        )
    raise UsageError(
        f"there is no CMSIS-NN in {path}",
        f"a folder with Include/{HEADER} and Source, an STM32Cube package or a CMSIS pack",
    )


def _call(function: str, kernel: str, native: bool) -> str:
    """Return the C file of our call."""
    text = _shipped(f"dory_{function}.c")
    lines = "#define DORY_CMSIS_NN_NATIVE\n" if native else ""
    lines += f"#define dory_{function} dory_{kernel}\n" if kernel != function else ""
    return f"{lines}\n{text}" if lines else text


def _version(path: Path) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", path.name))


@cache
def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _code(path: Path) -> str:
    return _COMMENT.sub("", _read(path))


@cache
def _shipped(name: str) -> str:
    return (files("dory_cmsis_nn") / "calls" / name).read_text(encoding="utf-8")
