"""Projects that use an application: CMake, compilers, a program on the chip."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from dory_stm32h7.emulator.elf import read_elf
from dory_stm32h7.emulator.machine import Machine
from dory_stm32h7.part import Part
from dory_stm32h7.parts import part_of
from dory_stm32h7.toolchain import GCC, zig_flags
from image import COMPILERS

from dory_core.api import ops
from dory_core.testing import Plugins
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder, requant
from dory_core.tools import read_plan

ZIG = (sys.executable, "-m", "ziglang")
BOTH = pytest.mark.parametrize("compiler", COMPILERS)
GCC_SLOW = pytest.mark.parametrize(
    "compiler", [pytest.param(GCC, marks=pytest.mark.slow), "ziglang"]
)
STRICT = (
    *("-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wconversion", "-Wundef"),
    *("-Wshadow", "-Wcast-qual", "-Wvla", "-Wstrict-prototypes", "-Wmissing-prototypes"),
)
PREFIX = "eye"
FOLDERS = ("src", "weights", "kernels", "hal/stm32h7")  # with sources
PUBLIC = ("inc", "hal/include", "hal/stm32h7")  # include path of a program


@dataclass(frozen=True)
class Library:
    """An application of form library with a prefix of its own."""

    directory: Path
    part: Part


def classifier(classes: int) -> GraphBuilder:
    builder = GraphBuilder((4, 9, 9), name="tiny", seed=2)
    same = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    first = builder.conv(8, same)
    second = builder.conv(8, same)
    steps = (requant(87), requant(41))
    builder.add(first, second, operands=steps, requants=(requant(1, -9000, 128, -128, 127),))
    builder.avg_pool(ops.Window(kernel=(9, 9)))
    builder.linear(classes)
    return builder


def build(
    directory: Path,
    plugins: Plugins,
    part: str,
    prefix: str = PREFIX,
    classes: int = 6,
    **more: str,
) -> None:
    build_app(
        classifier(classes).graph(),
        "stm32h7",
        directory,
        plugins=plugins,
        settings={"part": part, **more},
        prefix=prefix,
    )


def call(*command: object, cwd: Path) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout + done.stderr


def cross(compiler: str, part: Part, language: str = "cc") -> tuple[str, ...]:
    """Return a compiler for a part with its flags; skip the test where it is missing."""
    if compiler != GCC:
        return (*ZIG, language, *zig_flags(part.core))
    name = GCC if language == "cc" else GCC.replace("gcc", "g++")
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return (name, *part.core.gcc)


def cmake(project: Path, build: Path, *arguments: str, only_configure: bool = False) -> None:
    """Configure and build with the tools of the wheels cmake and ninja, where they are there."""
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        pytest.skip("needs cmake and ninja: pip install cmake ninja")
    call("cmake", "-G", "Ninja", "-S", project, "-B", build, *arguments, cwd=project)
    if not only_configure:
        call("cmake", "--build", build, cwd=project)


def toolchain_file(folder: Path, part: Part, compiler: str = "ziglang") -> Path:
    """Return a toolchain of CMake for a part."""
    tools = {name: folder / f"zig-{name}" for name in ("cc", "ar", "ranlib")}
    for name, script in tools.items():
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -m ziglang {name} "$@"\n')
        script.chmod(0o755)
    flags = zig_flags(part.core)
    if compiler == GCC:
        flags = part.core.gcc
        tools = {name: Path(GCC.replace("gcc", name)) for name in ("gcc", "ar", "ranlib")}
    first, archiver, indexer = tools.values()
    text = "\n".join(
        (
            "set(CMAKE_SYSTEM_NAME Generic)",
            "set(CMAKE_SYSTEM_PROCESSOR arm)",
            f"set(CMAKE_C_COMPILER {first})",
            f"find_program(CMAKE_AR {archiver} REQUIRED)",
            f"find_program(CMAKE_RANLIB {indexer} REQUIRED)",
            f'set(CMAKE_C_FLAGS_INIT "{" ".join(flags)} -ffreestanding")',
            "set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)",
        )
    )
    path = folder / "tools.cmake"
    path.write_text(text)
    return path


USER = """\
cmake_minimum_required(VERSION 3.16)
project(firmware LANGUAGES C)
add_subdirectory({app} network)
add_executable(firmware main.c {more})
target_include_directories(firmware PRIVATE {include})
target_link_libraries(firmware PRIVATE {library})
{options}
"""


# What programs for a chip have seen before any header of ours: names as CMSIS gives them.
DEVICE = """\
#include <stdint.h>
#define __IO volatile
#define __STATIC_INLINE static inline
typedef struct { __IO uint32_t CPUID, ICSR, VTOR; } SCB_Type;
typedef struct { __IO uint32_t TYPE, CTRL, RNR, RBAR, RASR; } MPU_Type;
typedef struct { __IO uint32_t GISR0; } MDMA_TypeDef;
#define FLASH_BASE 0x08000000UL
#define D1_AXISRAM_BASE 0x24000000UL
#define SCB_BASE 0xE000ED00UL
#define SCB ((SCB_Type *)SCB_BASE)
#define MPU ((MPU_Type *)0xE000ED90UL)
#define MDMA ((MDMA_TypeDef *)0x52000000UL)
#define DTCM 1
__STATIC_INLINE void __DSB(void) { __asm volatile("dsb 0xF" ::: "memory"); }
"""


def firmware(
    folder: Path, main: str, *apps: Path, compiler: str = "ziglang", section: str = ""
) -> Machine:
    """Return a chip with a program of the user: its main, the networks as libraries of CMake, and
    start-up and linker script of the first one's board. section: where constants go."""
    part, board = part_of({}), apps[0] / "board"
    cross(compiler, part)
    folder.mkdir()
    (folder / "device.h").write_text(DEVICE)
    sections = (board / "sections.ld").read_text()
    if section:
        sections = sections.replace("*(.rodata .rodata.*)", f"*(.rodata .rodata.*) *({section})")
    memories = (board / "stm32h743.ld").read_text()
    (folder / "chip.ld").write_text(memories.replace("INCLUDE board/sections.ld", sections))
    script = "-nostdlib " if compiler == GCC else ""
    script += f"-Wl,-T,{folder / 'chip.ld'} -Wl,--gc-sections"
    names = [f"{read_plan(app)['prefix']}_network" for app in apps]
    options = [f'target_link_options(firmware PRIVATE "SHELL:{script}")']
    for name in (*names, "dory_support"):
        options += [
            f"target_include_directories({name} PRIVATE {board / 'libc'})",
            f"target_compile_options({name} PRIVATE -O2)",
        ]
    options += [
        f"add_subdirectory({app} {name})" for app, name in zip(apps[1:], names[1:], strict=True)
    ]
    names += ["gcc"] if compiler == GCC else []
    options.append(f"target_link_libraries(firmware PRIVATE {' '.join(names)})")
    text = USER.format(
        app=apps[0],
        more=" ".join(str(board / name) for name in ("startup.c", "semihosting.c", "libc.c")),
        include=f"{board} {board / 'libc'}",
        options="\n".join(sorted(options, key=lambda line: not line.startswith("add_"))),
        library=names[0],
    )
    (folder / "CMakeLists.txt").write_text(text)
    (folder / "main.c").write_text(main)
    tools = f"-DCMAKE_TOOLCHAIN_FILE={toolchain_file(folder, part, compiler)}"
    cmake(folder, folder / "build", tools, f"-DDORY_WEIGHTS_SECTION={section}")
    return Machine(read_elf(folder / "build/firmware"))


def vector(app: Path, name: str) -> npt.NDArray[np.uint8]:
    """Return bytes of a test vector."""
    return np.fromfile(app / f"vectors/{name}.bin", np.uint8)


def c_array(name: str, data: npt.NDArray[np.uint8]) -> str:
    return f"static const uint8_t {name}[] = {{{', '.join(map(str, data))}}};\n"
