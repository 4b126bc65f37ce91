"""Compilers for the Cortex-M7 and how the image is built, for Runner and Makefile alike."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from dory_core.api import ToolMissing, simulate

GCC = "arm-none-eabi-gcc"
GCC_FLAGS = ("-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-d16", "-mfloat-abi=hard")
GCC_LINK_FLAGS = ("-nostdlib", "-lgcc")
ZIG_FLAGS = ("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m7+fp_armv8d16")

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
    *("inc", "hal/include", "hal/stm32h7", "kernels", "kernels/external"),
    *("board", "board/libc"),
)
LINKER_SCRIPT = "board/stm32h743.ld"
SECTIONS = "board/sections.ld"  # included by the linker scripts
VARIANT = "stm32h743"
PROGRAM = "app.elf"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A cross compiler with the flags that only it needs."""

    compiler: simulate.Compiler
    flags: tuple[str, ...]
    link_flags: tuple[str, ...]

    def recipe(
        self,
        variant: str = VARIANT,
        script: str = LINKER_SCRIPT,
        folders: tuple[str, ...] = (),
        defines: Mapping[str, int] | None = None,
    ) -> simulate.Recipe:
        """Return how the image is built. folders: of further sources. defines: macros."""
        macros = tuple(f"-D{name}={value}" for name, value in sorted((defines or {}).items()))
        return simulate.Recipe(
            variant=variant,
            program=PROGRAM,
            folders=(*SOURCES, *folders),
            includes=INCLUDES,
            flags=(*self.flags, *FLAGS, *macros),
            link_flags=(f"-Wl,-T,{script}", "-Wl,--gc-sections", *self.link_flags),
            link_inputs=(script, SECTIONS),
        )


def find_toolchain() -> Toolchain:
    """Return $ARM_CC, arm-none-eabi-gcc, else the compiler of the ``ziglang`` wheel.

    Raises ToolMissing when there is none, or when $ARM_CC is set and cannot be run.
    """
    compiler = simulate.Compiler.named(
        "ARM_CC", "an arm-none-eabi-gcc"
    ) or simulate.Compiler.identify(GCC)
    if compiler is not None:
        return Toolchain(compiler, GCC_FLAGS, GCC_LINK_FLAGS)
    if importlib.util.find_spec("ziglang") is not None:
        compiler = simulate.Compiler.identify(sys.executable, "-m", "ziglang", "cc")
        if compiler is not None:
            return Toolchain(compiler, ZIG_FLAGS, ())
    raise ToolMissing(
        f"no compiler for the Cortex-M7 found (tried $ARM_CC, {GCC} and the ziglang wheel)",
        "pip install 'dory-stm32h7[emulator]', or install arm-none-eabi-gcc",
    )


def has_toolchain() -> bool:
    """True when an image can be built; looks, without running anything."""
    import shutil

    named = bool(os.environ.get("ARM_CC")) or shutil.which(GCC) is not None
    return named or importlib.util.find_spec("ziglang") is not None
