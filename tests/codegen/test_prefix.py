"""Names of a network in C: two networks in one program, and the header that a program reads."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dory_core.errors import UsageError
from dory_core.ir import Window
from dory_core.simulate.compiler import ZIGLANG, find_compiler
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from tests.toy.chip import NAME as CHIP
from tests.toy.chip import ToyChip

WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
SAME = Window(kernel=(3, 3), pads=(1, 1, 1, 1))

# A chip of one core whose copies are done when they are started.
HAL = """\
#include <string.h>
static inline uint32_t dory_core_id(void) { return 0; }
static inline uint32_t dory_core_count(void) { return 1; }
static inline void dory_barrier(void) {}
static inline void dory_dma_wait(dory_ticket_t ticket) { (void)ticket; }
static inline dory_ticket_t dory_dma_start(const dory_copy_t *copy)
{
  for (uint32_t p = 0; p < copy->n2; p++) {
    for (uint32_t r = 0; r < copy->n1; r++) {
      memcpy((uint8_t *)copy->dst + (int32_t)p * copy->dst_s2 + (int32_t)r * copy->dst_s1,
             (const uint8_t *)copy->src + (int32_t)p * copy->src_s2 + (int32_t)r * copy->src_s1,
             (size_t)copy->n0 * copy->elem);
    }
  }
  return 1;
}
static inline dory_ticket_t dory_dma_join(dory_ticket_t ticket, const dory_copy_t *copy)
{
  (void)ticket;
  return dory_dma_start(copy);
}
"""

MAIN = """\
#include <stdio.h>

#include "cat_network.h"
#include "dog_network.h"

#define MOST(a, b) ((a) > (b) ? (a) : (b))
#define ALIGNED __attribute__((aligned(DORY_ARENA_ALIGN)))

static unsigned char l1[MOST(CAT_L1_BYTES, DOG_L1_BYTES)] ALIGNED;
static unsigned char l2[MOST(CAT_L2_BYTES, DOG_L2_BYTES)] ALIGNED;
static unsigned char cat_in[CAT_INPUT_BYTES], cat_out[CAT_OUTPUT_BYTES];
static unsigned char dog_in[DOG_INPUT_BYTES], dog_out[DOG_OUTPUT_BYTES];

static int read_file(const char *name, unsigned char *data, size_t bytes)
{
  FILE *const file = fopen(name, "rb");
  const int whole = file != NULL && fread(data, 1, bytes, file) == bytes;
  if (file != NULL) fclose(file);
  return whole;
}

int main(void)
{
  dory_network_io_t cat = {.l1 = l1, .l2 = l2, .l1_size = CAT_L1_BYTES, .l2_size = CAT_L2_BYTES};
  dory_network_io_t dog = {.l1 = l1, .l2 = l2, .l1_size = DOG_L1_BYTES, .l2_size = DOG_L2_BYTES};
  cat.input = cat_in, cat.output = cat_out;
  dog.input = dog_in, dog.output = dog_out;
  if (!read_file("cat/vectors/input.bin", cat_in, sizeof cat_in)) return 1;
  if (!read_file("dog/vectors/input.bin", dog_in, sizeof dog_in)) return 1;
  for (int turn = 0; turn < 3; turn++) {
    if (cat_network_run(&cat) != DORY_OK || dog_network_run(&dog) != DORY_OK) return 2;
    fwrite(cat_out, 1, sizeof cat_out, stdout);
    fwrite(dog_out, 1, sizeof dog_out, stdout);
  }
  return 0;
}
"""


def two_applications(tmp_path: Path, equal: int = 0) -> list[Path]:
    """Return two applications of networks whose layers have the same numbers and kinds.

    equal: how many equal ones there are before the last two.
    """
    apps = []
    for seed, prefix in enumerate(("cat", "dog"), start=1):
        net = GraphBuilder((3, 8 + seed, 9), seed=seed)
        net.conv(4 + seed, SAME)
        for _ in range(equal):
            net.conv(4 + seed, SAME)
        net.conv(5, Window(kernel=(1, 1)))
        net.linear(3)
        apps.append(tmp_path / prefix)
        plugins = ToyChip().plugins()
        build_app(
            net.graph(),
            CHIP,
            apps[-1],
            plugins=plugins,
            budgets={1: 3000 if equal else 700},
            prefix=prefix,
        )
        assert_exact(apps[-1], dma=("early",), repeat=1, plugins=plugins)
    return apps


def cpp_command() -> tuple[str, ...]:
    """Return a compiler of C++: the one of C, or clang of the ziglang package."""
    for command in (find_compiler().command, ZIGLANG):
        arguments = [*command, "-x", "c++", "-E", os.devnull]
        if subprocess.run(arguments, capture_output=True, check=False).returncode == 0:
            return command
    pytest.skip("no compiler of C++, install g++ or ziglang")


def compile_c(folder: Path, *arguments: str, compiler: Sequence[str] | None = None) -> None:
    command = [*(compiler or find_compiler().command), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.sample(2)
@pytest.mark.parametrize("equal", [3, 0])
def test_two_networks_in_one_program_share_hal_kernels_and_arenas(
    equal: int, tmp_path: Path
) -> None:
    """Equal layers of a network are one function with rows, whose names both have."""
    apps = two_applications(tmp_path, equal)
    for app in apps:
        assert bool(list(app.glob("src/*_layers_*.c"))) == (equal > 0)
    chip = tmp_path / "chip"
    chip.mkdir()
    (chip / "dory_hal_impl.h").write_text(HAL)
    (tmp_path / "main.c").write_text(MAIN)
    shared: dict[str, Path] = {}
    for app in apps:
        for kernel in app.glob("kernels/*.c"):
            known = shared.setdefault(kernel.name, kernel)
            assert known.read_bytes() == kernel.read_bytes()
    include = ("-Ichip", f"-I{apps[0]}/hal/include")
    sources = [(f"-I{file.parent}", file) for file in shared.values()]
    sources += [
        (f"-I{app}/inc -I{app}/src", file) for app in apps for file in app.glob("*/*.c")
        if file.parent.name in {"src", "weights"}
    ]  # fmt: skip
    objects = []
    for number, (own, file) in enumerate(sources):
        objects.append(f"{number}.o")
        kernels = f"-I{file.parents[1]}/kernels"
        flags = ("-std=c99", "-O1", *WARNINGS, *include, *own.split(), kernels)
        compile_c(tmp_path, *flags, "-c", str(file), "-o", objects[-1])
    both = [f"-I{app}/inc" for app in apps]
    compile_c(tmp_path, "-std=c99", *include, *both, "main.c", *objects, "-o", "main")
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0
    expected = b"".join((app / f"vectors/layer_{2 + equal:02d}.bin").read_bytes() for app in apps)
    assert done.stdout == 3 * expected
    assert np.frombuffer(expected, np.uint8).any()


@pytest.mark.parametrize("equal", [0, 3])
def test_no_public_name_of_a_network_is_without_its_prefix(equal: int, tmp_path: Path) -> None:
    app = two_applications(tmp_path, equal)[0]
    for file in (*app.glob("src/*.c"), *app.glob("weights/*.c")):
        text = re.sub(r"/\*.*?\*/|^DORY_OFFSETS", "", file.read_text(), flags=re.S | re.M)
        functions = re.findall(r"^(?!static)\w[\w ]*?\**(\w+)\(", text, flags=re.M)
        tables = re.findall(r"^const \w+ (\w+)[\[ ]", text, flags=re.M)
        given = {"dory_tables", "dory_table_count"}  # network.h gives them other names
        assert all(name.startswith("cat_") for name in {*functions, *tables} - given), file


def test_public_header_is_c_and_cpp(tmp_path: Path) -> None:
    app = two_applications(tmp_path)[1]
    text = '#include "dog_network.h"\nint use(const dory_network_io_t *io);\n'
    text += "int use(const dory_network_io_t *io) { return dog_network_run(io); }\n"
    for name, standard in (("use.c", "c99"), ("use.cpp", "c++11")):
        (tmp_path / name).write_text(text)
        language = "c++" if name.endswith("cpp") else "c"
        where = (f"-I{app}/inc", f"-I{app}/hal/include")
        flags = ("-x", language, f"-std={standard}", *WARNINGS, *where)
        compiler = cpp_command() if language == "c++" else None
        compile_c(tmp_path, *flags, "-c", name, "-o", f"{name}.o", compiler=compiler)
    assert b"dog_network_run" in (tmp_path / "use.cpp.o").read_bytes()
    assert b"_Z15dog_network_run" not in (tmp_path / "use.cpp.o").read_bytes()


def test_readme_shows_the_header_under_its_headings(tmp_path: Path) -> None:
    text = (two_applications(tmp_path)[0] / "README.md").read_text()
    assert '#include "cat_network.h"' in text
    assert "## On a PC" in text and "## In an application" in text


@pytest.mark.parametrize("prefix", ["", "0k", "Cat", "a-b", "x" * 32, "a\nb", "*/", "é"])
def test_prefix_that_is_no_name_in_c_is_wrong_usage(prefix: str, tmp_path: Path) -> None:
    net = GraphBuilder((3, 4, 4))
    net.conv(4, SAME)
    with pytest.raises(UsageError, match="--prefix"):
        build_app(net.graph(), CHIP, tmp_path, plugins=ToyChip().plugins(), prefix=prefix)
