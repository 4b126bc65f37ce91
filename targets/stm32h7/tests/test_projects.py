"""Applications in programs of the user: CMake, several networks in one firmware, C++."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dory_stm32h7.emulator.elf import read_elf
from dory_stm32h7.emulator.machine import Machine
from dory_stm32h7.parts import part_of
from dory_stm32h7.toolchain import GCC, find_toolchain
from image import choose_compiler
from stm32h7_projects import (
    BOTH,
    DEVICE,
    FOLDERS,
    GCC_SLOW,
    PUBLIC,
    STRICT,
    USER,
    ZIG,
    Library,
    build,
    c_array,
    call,
    cmake,
    cross,
    firmware,
    toolchain_file,
    vector,
)

from dory_core.api import simulate
from dory_core.testing import Plugins


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


@pytest.mark.sample(4)
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
