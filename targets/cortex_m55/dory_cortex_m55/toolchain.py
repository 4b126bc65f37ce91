"""Compilers for the core and how the image is built, for the runner and the Makefile."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass

from dory_core.api import ToolMissing, simulate

GCC = "arm-none-eabi-gcc"
_KNOWN = "an arm-none-eabi-gcc or a zig cc"
GCC_LINK_FLAGS = ("-nostdlib", "-lgcc")
GCC_FLAGS = ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard")
ZIG_FLAGS = ("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m55+mve_fp")
FLAGS = (
    "-O2",
    "-std=c99",
    "-ffreestanding",
    "-fomit-frame-pointer",
    "-ffunction-sections",
    "-fdata-sections",
    "-Wall",
    "-Wextra",
    "-Werror",
)
SOURCES = ("src", "weights", "kernels", "kernels/external", "hal/cortex_m55", "board")
INCLUDES = (
    *("inc", "src", "hal/include", "hal/cortex_m55", "kernels", "kernels/external"),
    *("board", "board/libc"),
)
SCRIPT = "board/corstone300.ld"
VARIANT = "corstone300"
PROGRAM = "app.elf"


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A cross compiler, with the flags that only it needs."""

    compiler: simulate.Compiler
    flags: tuple[str, ...]
    link_flags: tuple[str, ...]

    def recipe(self) -> simulate.Recipe:
        """Return how the image is built."""
        return simulate.Recipe(
            variant=VARIANT,
            program=PROGRAM,
            folders=SOURCES,
            includes=INCLUDES,
            flags=(*self.flags, *FLAGS),
            link_flags=(f"-Wl,-T,{SCRIPT}", "-Wl,--gc-sections", *self.link_flags),
            link_inputs=(SCRIPT,),
        )


def find_toolchain() -> Toolchain:
    """Return $ARM_CC, arm-none-eabi-gcc, else the compiler of the ``ziglang`` wheel.

    Raises ToolMissing when there is none, or when $ARM_CC cannot be run or is another clang.
    """
    compiler = simulate.Compiler.named("ARM_CC", _KNOWN) or simulate.Compiler.identify(GCC)
    if compiler is None and importlib.util.find_spec("ziglang") is not None:
        compiler = simulate.Compiler.identify(sys.executable, "-m", "ziglang", "cc")
    if compiler is not None and compiler.is_zig:
        return Toolchain(compiler, ZIG_FLAGS, ())
    if compiler is not None and "clang" in compiler.version:
        raise ToolMissing(
            f"$ARM_CC names {compiler.name}, a clang whose flags are not known",
            f"let it name {_KNOWN}; `make image` takes flags of yours in ARM_FLAGS, ARM_LINK_FLAGS",
        )
    if compiler is not None:
        return Toolchain(compiler, GCC_FLAGS, GCC_LINK_FLAGS)
    raise ToolMissing(
        f"no compiler for the Cortex-M55 found (tried $ARM_CC, {GCC} and the ziglang wheel)",
        "install arm-none-eabi-gcc, or pip install ziglang",
    )


def has_toolchain() -> bool:
    """True when an image can be built; looks, without running anything."""
    named = bool(os.environ.get("ARM_CC")) or shutil.which(GCC) is not None
    return named or importlib.util.find_spec("ziglang") is not None
