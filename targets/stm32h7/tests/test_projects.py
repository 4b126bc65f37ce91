"""Applications in other projects: CMake, Zephyr, PlatformIO, Arduino, C++, a main of the user."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from dory_stm32h7.emulator.elf import read_elf
from dory_stm32h7.emulator.machine import Machine
from dory_stm32h7.part import Part
from dory_stm32h7.parts import part_of
from dory_stm32h7.toolchain import GCC, find_toolchain, zig_flags
from image import COMPILERS, choose_compiler, require_emulator

from dory_core.api import ops, simulate
from dory_core.testing import Plugins
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder, requant
from dory_core.tools import load_plugins, read_plan

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


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    require_emulator()
    pytest.importorskip("ziglang")
    return load_plugins()


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


@pytest.fixture(scope="module", params=["stm32h743", "cortex-m4"])
def library(
    request: pytest.FixtureRequest, plugins: Plugins, tmp_path_factory: pytest.TempPathFactory
) -> Library:
    directory = tmp_path_factory.mktemp("library") / "app"
    build(directory, plugins, request.param, form="library")
    return Library(directory, part_of({"part": request.param}))


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


@pytest.mark.sample(2)
@GCC_SLOW
def test_all_files_are_clean_under_strict_warnings(
    compiler: str, library: Library, tmp_path: Path
) -> None:
    app = library.directory
    includes = [f"-I{app / name}" for name in (*PUBLIC, "src", "kernels")]
    sources = [path for name in FOLDERS for path in app.glob(f"{name}/*.c")]
    assert len(sources) > 8
    (tmp_path / "string.h").write_text(
        "#include <stddef.h>\nvoid *memcpy(void *restrict, const void *restrict, size_t);\n"
        "void *memmove(void *, const void *, size_t);\nvoid *memset(void *, int, size_t);\n"
    )
    core = (*cross(compiler, library.part), "-std=c99", "-ffreestanding", "-Os", f"-I{tmp_path}")
    for source in sources:
        made = ("-c", source, "-o", tmp_path / f"{source.stem}.o")
        call(*core, *STRICT, *includes, *made, cwd=tmp_path)


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


@pytest.mark.sample(2)
def test_cmake_builds_a_program_of_the_user_for_this_machine(
    library: Library, tmp_path: Path
) -> None:
    """The simulation computes the network, called as any program calls it."""
    (tmp_path / "CMakeLists.txt").write_text(
        USER.format(app=library.directory, more="", include=".", options="", library="eye_network")
    )
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "eye_network.h"\n'
        'int main(void)\n{\n  printf("%u\\n", (unsigned)EYE_OUTPUT_BYTES);\n'
        "  return eye_network_run(0) == DORY_EINVAL ? 0 : 1;\n}\n"
    )
    cmake(tmp_path, tmp_path / "build")
    assert call(tmp_path / "build/firmware", cwd=tmp_path).strip().isdigit()


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


@GCC_SLOW
def test_cmake_builds_a_firmware_of_the_user_that_runs(
    compiler: str, plugins: Plugins, tmp_path: Path
) -> None:
    """The README's main with an input, and constants in a section of their own."""
    app = tmp_path / "app"
    build(app, plugins, "stm32h743")
    array = c_array("vector", vector(app, "input"))
    main = example(app).replace("int main", f"{array}\nint main")
    assert main.count("input[i] = 0;") == 1
    main = main.replace("input[i] = 0;", "input[i] = vector[i];")
    chip = firmware(tmp_path / "user", main, app, compiler=compiler, section=".mine")
    chip.run(60)
    assert chip.exit_code == int(np.argmax(vector(app, "output").view(output_type(app))))
    assert chip.mdma.transfers > 0


TWO = """\
#include "device.h"

#include <string.h>

#include "cat_network.h"
#include "cat_stm32h7.h"
#include "dog_network.h"

{vectors}
#define MOST(a, b) ((a) > (b) ? (a) : (b))
#define ARENA(place) __attribute__((aligned(32), section(place)))
static uint8_t l1[MOST(CAT_L1_BYTES, DOG_L1_BYTES)] ARENA(".dory_l1");
static uint8_t l2[MOST(CAT_L2_BYTES, DOG_L2_BYTES)] ARENA(".dory_l2");
static uint8_t output[MOST(CAT_OUTPUT_BYTES, DOG_OUTPUT_BYTES)];

static int wrong(int (*run)(const dory_network_io_t *), const uint8_t *input, const uint8_t *want,
                 uint32_t bytes)
{{
  const dory_network_io_t io = {{.l1 = l1, .l2 = l2, .l1_size = sizeof l1, .l2_size = sizeof l2,
                                .input = input, .output = output}};
  return run(&io) != DORY_OK || memcmp(output, want, bytes) != 0;
}}

int main(void)
{{
  int count = 0;
  cat_stm32h7_init();
  __DSB();
  count += SCB->VTOR != FLASH_BASE;
  for (int i = 0; i < 3; i++) {{
    count += wrong(cat_network_run, cat_input, cat_output, sizeof cat_output);
    count += wrong(dog_network_run, dog_input, dog_output, sizeof dog_output);
  }}
  return count;
}}
"""


@pytest.mark.sample(2)
@BOTH
def test_two_networks_run_in_turn_in_one_firmware(
    compiler: str, plugins: Plugins, tmp_path: Path
) -> None:
    """Both as libraries of CMake, on the same arenas."""
    apps = [tmp_path / "cat", tmp_path / "dog"]
    for app in apps:
        build(app, plugins, "stm32h743", app.name, classes=6 if app.name == "cat" else 9)
    arrays = "".join(
        c_array(f"{app.name}_{name}", vector(app, name))
        for app in apps
        for name in ("input", "output")
    )
    chip = firmware(tmp_path / "user", TWO.format(vectors=arrays), *apps, compiler=compiler)
    chip.run(60)
    assert chip.exit_code == 0
    assert chip.mdma.transfers >= 6


# Each on its own arenas; what lies behind an output stays as it is.
OWN = """\
#include <string.h>

#include "{first}_network.h"
#include "{first}_stm32h7.h"
#include "{second}_network.h"
#include "{second}_stm32h7.h"

{vectors}
static uint8_t output[2048];

typedef int run_t(const void *, void *, void (*)(void *, int, const void *, uint32_t), void *);

static int wrong(run_t *run, const uint8_t *input, const uint8_t *want, uint32_t bytes)
{{
  memset(output, 0xa5, sizeof output);
  int count = run(input, output, 0, 0) != DORY_OK || memcmp(output, want, bytes) != 0;
  for (uint32_t i = bytes; i < sizeof output; i++) {{
    count += output[i] != 0xa5;
  }}
  return count;
}}

int main(void)
{{
  int count = 0;
  {first}_stm32h7_init();
  {second}_stm32h7_init();
  for (int i = 0; i < 2; i++) {{
    count += wrong({first}_stm32h7_run, {first}_input, {first}_output, sizeof {first}_output);
    count += wrong({second}_stm32h7_run, {second}_input, {second}_output, sizeof {second}_output);
  }}
  return count == 0 ? 0 : 1;
}}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second", "memcpy"),
    [
        ("cat", "dog", ""),
        ("dog", "cat", ""),
        ("dory", "dog", ""),
        ("dog", "dory", ""),
        ("cat", "dog", "dog"),
        ("dog", "cat", "dog"),
    ],
)
def test_two_networks_run_on_their_own_arenas(
    first: str, second: str, memcpy: str, plugins: Plugins, tmp_path: Path
) -> None:
    """In both orders of the linker, one without a prefix, one with another driver."""
    apps = [tmp_path / first, tmp_path / second]
    for app in apps:
        more = {"dma": "memcpy"} if app.name == memcpy else {}
        classes = 300 if app.name == "dog" else 9
        build(app, plugins, "stm32h743", app.name, classes=classes, **more)
    arrays = "".join(
        c_array(f"{app.name}_{name}", vector(app, name))
        for app in apps
        for name in ("input", "output")
    )
    main = OWN.format(first=first, second=second, vectors=arrays)
    chip = firmware(tmp_path / "user", main, *apps)
    chip.run(60)
    assert chip.exit_code == 0
    assert chip.mdma.transfers > 0


def objects_of(compiler: str, app: Path, folder: Path) -> list[Path]:
    """Compile every file of a network for itself, kernels and driver included."""
    part, board = part_of({}), app / "board"
    folder.mkdir()
    includes = [f"-I{app / name}" for name in (*PUBLIC, "src", "kernels")]
    flags = (*cross(compiler, part), "-O2", "-std=c99", "-ffreestanding", f"-I{board / 'libc'}")
    sections = ("-ffunction-sections", "-fdata-sections")
    made = []
    for source in (path for name in FOLDERS for path in app.glob(f"{name}/*.c")):
        made.append(folder / f"{source.stem}.o")
        call(*flags, *sections, *includes, "-c", source, "-o", made[-1], cwd=folder)
    return made


@pytest.mark.sample(2)
@BOTH
@pytest.mark.parametrize("whole_archives", [False, True])
def test_two_networks_that_each_bring_kernels_and_driver_run_in_one_program(
    compiler: str, whole_archives: bool, plugins: Plugins, tmp_path: Path
) -> None:
    """As Arduino links objects, and Zephyr whole libraries: all objects of both, one copy runs."""
    apps = [tmp_path / "cat", tmp_path / "dog"]
    for app in apps:
        build(app, plugins, "stm32h743", app.name, classes=300 if app.name == "dog" else 9)
    arrays = "".join(
        c_array(f"{app.name}_{name}", vector(app, name))
        for app in apps
        for name in ("input", "output")
    )
    board, out = apps[0] / "board", tmp_path / "user"
    objects = [objects_of(compiler, app, tmp_path / f"{app.name}_objects") for app in apps]
    assert {o.name for o in objects[0]} & {o.name for o in objects[1]}
    out.mkdir()
    (out / "main.c").write_text(OWN.format(first="cat", second="dog", vectors=arrays))
    (out / "chip.ld").write_text(
        (board / "stm32h743.ld")
        .read_text()
        .replace("INCLUDE board/sections.ld", (board / "sections.ld").read_text())
    )
    linked: list[object] = [one for every in objects for one in every]
    if whole_archives:
        for number, every in enumerate(objects):
            call(*ZIG, "ar", "rcs", out / f"lib{number}.a", *every, cwd=out)
        linked = ["-Wl,--whole-archive", "lib0.a", "lib1.a", "-Wl,--no-whole-archive"]
    own = [board / name for name in ("startup.c", "semihosting.c", "libc.c")]
    includes = [f"-I{folder}" for app in apps for folder in (app / name for name in PUBLIC)]
    call(
        *cross(compiler, part_of({})),
        *("-O2", "-std=c99", "-ffreestanding", f"-I{board}", f"-I{board / 'libc'}", *includes),
        *("main.c", *own, *linked, "-o", "firmware", "-Wl,-T,chip.ld", "-Wl,--gc-sections"),
        *(("-nostdlib", "-lgcc") if compiler == GCC else ()),
        cwd=out,
    )
    chip = Machine(read_elf(out / "firmware"))
    chip.run(60)
    assert chip.exit_code == 0
    assert chip.mdma.transfers >= 4


def test_cmake_takes_kernels_and_driver_once_and_refuses_other_ones(
    plugins: Plugins, tmp_path: Path
) -> None:
    apps = [tmp_path / "cat", tmp_path / "dog"]
    for app in apps:
        build(app, plugins, "stm32h743", app.name)
    user = tmp_path / "user"
    user.mkdir()
    (user / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(both LANGUAGES C)\n"
        f"add_subdirectory({apps[0]} cat)\nadd_subdirectory({apps[1]} dog)\n"
    )
    tools = f"-DCMAKE_TOOLCHAIN_FILE={toolchain_file(tmp_path, part_of({}))}"
    cmake(user, user / "build", tools, only_configure=True)
    commands = (user / "build/build.ninja").read_text()
    shared = [path.name for path in apps[0].glob("kernels/*.c")]
    assert shared
    for name in (*shared, "dory_mdma.c"):
        assert len(re.findall(rf"^build \S*{name}\.o(bj)?:", commands, re.MULTILINE)) == 1, name
    for name in ("dory_stm32h7.c", "network.c"):
        assert len(re.findall(rf"^build \S*/{name}\.o(bj)?:", commands, re.MULTILINE)) == 2, name
    kernel = apps[1] / "kernels" / shared[0]
    kernel.write_text(f"{kernel.read_text()}/* of another release */\n")
    with pytest.raises(AssertionError, match="same release of dory"):
        cmake(user, user / "again", tools, only_configure=True)


def test_no_header_of_the_include_path_of_a_program_is_called_as_those_of_others(
    library: Library,
) -> None:
    headers = {path.name for name in PUBLIC for path in (library.directory / name).glob("*.h")}
    assert all(name.startswith(("dory_", "eye_")) for name in headers), headers


def test_the_program_writes_the_input_where_the_network_reads_it(library: Library) -> None:
    text = (library.directory / "hal/stm32h7/eye_stm32h7.h").read_text()
    assert "#define EYE_INPUT_IN_PLACE 1" in text and "void *eye_stm32h7_input(void);" in text


def test_no_public_name_of_a_network_on_the_chip_is_without_its_prefix(library: Library) -> None:
    """What the header declares; names of the driver and of the part belong to the program."""
    app = library.directory
    text = (app / "hal/stm32h7/eye_stm32h7.h").read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    functions = re.findall(r"^\w[\w *]*?(\w+)\(", text, re.MULTILINE)
    assert len(functions) == 5 and all(name.startswith("eye_") for name in functions)
    macros = re.findall(r"#define (\w+)", text)
    assert macros and all(name.startswith("EYE_") for name in macros)
    for name in ("README.md", "library.json", "library.properties", "zephyr/Kconfig"):
        assert not re.search(r"dory_stm32h7(_run|_init|_output|\.h)", (app / name).read_text())


def output_type(app: Path) -> str:
    """Return the numpy type of the network's output."""
    match = re.search(r"static (u?int\d+)_t output", example(app))
    assert match is not None
    return match[1]


def example(app: Path) -> str:
    """Return the main of an application's README."""
    match = re.search(r"```c\n(.*?)```", (app / "README.md").read_text(), re.DOTALL)
    assert match is not None
    assert len(match[1].strip().splitlines()) <= 25
    return match[1]


@pytest.mark.sample(3)
@BOTH
def test_the_example_of_the_readme_is_short_and_clean(
    compiler: str, library: Library, tmp_path: Path
) -> None:
    """Compiled for the part, as C and as the body of a C++ program."""
    (tmp_path / "main.c").write_text(example(library.directory))
    includes = [f"-I{library.directory / name}" for name in PUBLIC]
    (tmp_path / "main.cpp").write_text(f'#include "device.h"\n{example(library.directory)}')
    (tmp_path / "device.h").write_text(DEVICE)
    core, plus = (cross(compiler, library.part, language) for language in ("cc", "c++"))
    call(*core, "-std=c99", *STRICT, *includes, "-c", "main.c", cwd=tmp_path)
    strict = (flag for flag in STRICT if "prototypes" not in flag)
    call(*plus, "-std=c++11", *strict, *includes, "-c", "main.cpp", cwd=tmp_path)


@pytest.mark.sample(2)
@BOTH
def test_an_image_with_link_time_optimisation_is_exact(
    compiler: str, plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arenas, the lists of the MDMA, the assembly and the memory functions outlive it."""
    choose_compiler(compiler, monkeypatch)
    directory = tmp_path / "app"
    build(directory, plugins, "stm32h743", "dory")
    toolchain = find_toolchain()
    recipe = toolchain.recipe()
    flags = tuple("-Os" if flag == "-O2" else flag for flag in recipe.flags)
    small = replace(recipe, variant="lto", flags=(*flags, "-flto"))
    chip = Machine(read_elf(simulate.build_program(directory, small, toolchain.compiler)))
    chip.run(60)
    assert chip.exit_code == 0 and "exact" in chip.output
    assert chip.mdma.transfers > 0


# Zephyr's functions that the module calls, with the same meaning in a plain project.
ZEPHYR = """\
cmake_minimum_required(VERSION 3.16)
project(zephyr_application LANGUAGES C)
macro(zephyr_library_named name)
  set(library ${{name}})
  add_library(${{name}} STATIC)
  target_include_directories(${{name}} PRIVATE ${{includes}} {libc})
endmacro()
macro(zephyr_library_sources)
  target_sources(${{library}} PRIVATE ${{ARGN}})
endmacro()
macro(zephyr_library_include_directories)
  target_include_directories(${{library}} PRIVATE ${{ARGN}})
endmacro()
macro(zephyr_library_compile_definitions)
  target_compile_definitions(${{library}} PRIVATE ${{ARGN}})
endmacro()
macro(zephyr_include_directories)
  set(includes ${{ARGN}})
endmacro()
{configuration}
add_subdirectory({app}/zephyr module)
"""


def test_zephyr_takes_the_module(plugins: Plugins, tmp_path: Path) -> None:
    """Kconfig by its own parser; the module's CMake with stand-ins for the functions of Zephyr."""
    import yaml

    kconfiglib = pytest.importorskip("kconfiglib", reason="pip install kconfiglib")
    app = tmp_path / "app"
    build(app, plugins, "stm32h743", form="library")
    module = yaml.safe_load((app / "zephyr/module.yml").read_text())
    assert module == {
        "name": "eye_network",
        "build": {"cmake": "zephyr", "kconfig": "zephyr/Kconfig"},
    }
    assert (app / module["build"]["kconfig"]).is_file()
    assert (app / module["build"]["cmake"] / "CMakeLists.txt").is_file()
    kconfig = kconfiglib.Kconfig(str(app / "zephyr/Kconfig"), warn_to_stderr=False)
    assert not kconfig.warnings
    kconfig.syms["EYE_NETWORK"].set_value(2)
    settings = {name: symbol.str_value for name, symbol in kconfig.syms.items() if symbol.nodes}
    assert settings["EYE_NETWORK_L1_SECTION"] == "DTCM"
    configuration = "\n".join(f'set(CONFIG_{k} "{v}")' for k, v in settings.items())
    user = tmp_path / "user"
    user.mkdir()
    board = Path(sys.modules["dory_stm32h7"].__file__ or "").parent / "board/libc"
    text = ZEPHYR.format(configuration=configuration, app=app, libc=board)
    (user / "CMakeLists.txt").write_text(text)
    tools = f"-DCMAKE_TOOLCHAIN_FILE={toolchain_file(tmp_path, part_of({}))}"
    cmake(user, user / "build", tools, only_configure=True)
    commands = (user / "build/build.ninja").read_text()
    for source in (path for name in FOLDERS for path in app.glob(f"{name}/*.c")):
        assert f"{source.name}.o" in commands
    assert 'DORY_L2_SECTION=\\".noinit.dory_l2\\"' in commands
    assert "DORY_ARENAS_CACHED=1" in commands


@pytest.mark.sample(2)
def test_arduino_takes_the_library(library: Library, tmp_path: Path) -> None:
    """All files lie in one folder, found without any flag."""
    if shutil.which("make") is None:
        pytest.skip("needs make")
    app = tmp_path / "app"
    shutil.copytree(library.directory, app)
    call("make", "arduino", cwd=app)
    made = app / "build/arduino/eye_network"
    properties = dict(
        line.split("=", 1) for line in (made / "library.properties").read_text().splitlines()
    )
    required = ("version", "author", "maintainer", "sentence", "paragraph", "category", "url")
    assert all(properties[key] for key in (*required, "architectures"))
    assert properties["name"] == "eye_network" and re.fullmatch(
        r"\d+\.\d+\.\d+", properties["version"]
    )
    headers = properties["includes"].split(",")
    assert all((made / "src" / header).is_file() for header in headers)
    sketch = "".join(f"#include <{header}>\n" for header in headers)
    (tmp_path / "sketch.cpp").write_text(sketch + "void setup() { eye_stm32h7_init(); }\n")
    sources = sorted((made / "src").glob("*.c"))
    out = tmp_path / "out"
    out.mkdir()
    board = Path(sys.modules["dory_stm32h7"].__file__ or "").parent / "board/libc"
    flags = (*zig_flags(library.part.core), "-Os", "-DARDUINO=10800", f"-I{made / 'src'}")
    own = next(path for path in sources if path.name == "dory_stm32h7.c")
    assert {path.name for path in sources} >= {"network.c", "eye_layer_00.c", "eye_weights_00.c"}
    for path in (own, *(made / "src").glob("eye_*.c"), *(made / "src").glob("*_conv_*.c")):
        call(*ZIG, "cc", *flags, "-std=gnu11", f"-I{board}", "-w", "-c", path, cwd=out)
    assert not (made / "src/network.h").exists()
    call(*ZIG, "c++", *flags, "-std=gnu++14", "-c", tmp_path / "sketch.cpp", cwd=out)
    assert b".bss.dory_l1" in (out / "dory_stm32h7.o").read_bytes()


def test_platformio_finds_sources_and_headers(library: Library) -> None:
    app = library.directory
    manifest = json.loads((app / "library.json").read_text())
    assert manifest["name"] == "eye_network"
    build_ = manifest["build"]
    patterns = [f[2:-1] for f in build_["srcFilter"] if f.startswith("+")]
    chosen = {path for pattern in patterns for path in app.glob(pattern)}
    assert chosen == {path for folder in FOLDERS for path in app.glob(f"{folder}/*.c")}
    packed = manifest["export"]["include"]
    assert {"library.json", *FOLDERS, *PUBLIC} <= set(packed)
    includes = [flag[2:] for flag in build_["flags"]]
    for header in manifest["headers"]:
        assert any((app / folder / header).is_file() for folder in includes)


@pytest.mark.parametrize("name", ["library.json", "library.properties"])
def test_platformio_accepts_the_metadata(name: str, library: Library) -> None:
    """By its own schema, where it is installed."""
    manifest = pytest.importorskip("platformio.package.manifest", reason="pip install platformio")
    assert manifest
    from platformio.package.manifest.parser import ManifestParserFactory
    from platformio.package.manifest.schema import ManifestSchema

    raw = ManifestParserFactory.new_from_file(str(library.directory / name)).as_dict()
    assert ManifestSchema().load_manifest(raw)["name"] == "eye_network"


def test_platformio_packs_the_library_alone(library: Library, tmp_path: Path) -> None:
    """Neither simulation nor test vectors are published with it."""
    pack = pytest.importorskip("platformio.package.pack", reason="pip install platformio")
    made = pack.PackagePacker(str(library.directory)).pack(str(tmp_path / "eye.tar.gz"))
    with tarfile.open(made) as archive:
        files = {Path(name) for name in archive.getnames()}
    app = library.directory
    packed = (*FOLDERS, "inc", "hal/include")
    expected = {p.relative_to(app) for f in packed for p in app.glob(f"{f}/*") if p.is_file()}
    others = {Path(name) for name in ("README.md", "library.json", "library.properties")}
    assert {f for f in files if (app / f).is_file()} - {Path(".piopm")} == expected | others


def test_versions_of_tools_do_not_change_the_files(library: Library) -> None:
    """Nothing of this machine is in them."""
    for name in ("CMakeLists.txt", "library.json", "library.properties", "zephyr/Kconfig"):
        text = (library.directory / name).read_text()
        assert "@" not in text and os.fspath(library.directory) not in text
        assert read_plan(library.directory)["prefix"] in text
