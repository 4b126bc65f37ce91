"""Compilers for the cores of parts and how images are built, for the runner and the Makefile."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from dory_core.api import ToolMissing, simulate
from dory_stm32h7 import part_files, parts

GCC = "arm-none-eabi-gcc"
_KNOWN = "an arm-none-eabi-gcc or a zig cc"
GCC_LINK_FLAGS = ("-nostdlib", "-lgcc")

FLAGS = (
    "-O2",
    "-std=c99",
    "-ffreestanding",
    "-fomit-frame-pointer",
    "-ffunction-sections",
    "-fdata-sections",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Werror",
)
SOURCES = ("src", "weights", "kernels", "kernels/external", "hal/stm32h7", "board")
INCLUDES = (
    *("inc", "src", "hal/include", "hal/stm32h7", "kernels", "kernels/external"),
    *("board", "board/libc"),
)
SECTIONS = "board/sections.ld"  # included by the linker scripts
PROGRAM = "app.elf"


def zig_flags(core: parts.Core) -> tuple[str, ...]:
    """Return the flags of the compiler of the ziglang wheel for a core."""
    return ("-target", "thumb-freestanding-eabihf", f"-mcpu={core.zig}")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A cross compiler for a part, with the flags that only it needs."""

    compiler: simulate.Compiler
    flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    part: parts.Part

    def recipe(
        self,
        variant: str = "",
        script: str = "",
        folders: tuple[str, ...] = (),
        defines: Mapping[str, int] | None = None,
    ) -> simulate.Recipe:
        """Return how the image is built. folders: of further sources. defines: macros."""
        named = dict(part_files.defines(self.part)) | (defines or {})
        macros = tuple(f"-D{name}={value}" for name, value in sorted(named.items()))
        script = script or part_files.script_path(self.part)
        return simulate.Recipe(
            variant=variant or self.part.name,
            program=PROGRAM,
            folders=(*SOURCES, *folders),
            includes=INCLUDES,
            flags=(*self.flags, *FLAGS, *macros),
            link_flags=(f"-Wl,-T,{script}", "-Wl,--gc-sections", *self.link_flags),
            link_inputs=(script, SECTIONS),
        )


def find_toolchain(part: parts.Part = parts.DEFAULT) -> Toolchain:
    """Return $ARM_CC, arm-none-eabi-gcc, else the compiler of the ``ziglang`` wheel.

    Raises ToolMissing when there is none, or when $ARM_CC cannot be run or is another clang.
    """
    compiler = simulate.Compiler.named("ARM_CC", _KNOWN) or simulate.Compiler.identify(GCC)
    if compiler is None and importlib.util.find_spec("ziglang") is not None:
        compiler = simulate.Compiler.identify(sys.executable, "-m", "ziglang", "cc")
    if compiler is not None and compiler.is_zig:
        return Toolchain(compiler, zig_flags(part.core), (), part)
    if compiler is not None and "clang" in compiler.version:
        raise ToolMissing(
            f"$ARM_CC names {compiler.name}, a clang whose flags are not known",
            f"let it name {_KNOWN}; `make image` takes flags of yours in ARM_FLAGS, ARM_LINK_FLAGS",
        )
    if compiler is not None:
        return Toolchain(compiler, part.core.gcc, GCC_LINK_FLAGS, part)
    raise ToolMissing(
        f"no compiler for the {part.core.name} found (tried $ARM_CC, {GCC} and the ziglang wheel)",
        "pip install 'dory-stm32h7[emulator]', or install arm-none-eabi-gcc",
    )


def has_toolchain() -> bool:
    """True when an image can be built; looks, without running anything."""
    import shutil

    named = bool(os.environ.get("ARM_CC")) or shutil.which(GCC) is not None
    return named or importlib.util.find_spec("ziglang") is not None
