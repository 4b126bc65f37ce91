"""Hooks of the Cortex-M55 target: parts, options, files of the application."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
from dory_cortex_m55 import parts, plugin, toolchain
from dory_cortex_m55.backend import candidates
from dory_cortex_m55.hardware import PROGRAM_BYTES

from dory_core.api import Graph, TargetContext, Traits, UsageError, ops
from dory_core.testing import Plugins
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.zephyr import write_zephyr_application


def small() -> Graph:
    builder = GraphBuilder((8, 6, 6), name="small")
    builder.conv(8, ops.Window(kernel=(3, 3)))
    return builder.graph()


def context(**settings: str) -> TargetContext:
    return Plugins.from_objects(cortex_m55=plugin).context("cortex_m55", settings)


def test_memories_are_those_of_the_corstone_300() -> None:
    memory = context().memory
    dtcm, ram, store = (memory.level(number).memories[0] for number in (1, 2, 3))
    assert (dtcm.name, dtcm.size_bytes) == ("DTCM", 512 * 1024)
    assert dtcm.usable_bytes == 512 * 1024 - PROGRAM_BYTES
    assert ram.holds == {"activations"} and store.mapped
    assert memory.constants_level == 3


def test_constants_in_ram_share_it_with_activations() -> None:
    memory = context(constants="ram", part="hx6538").memory
    assert memory.constants_level == 2 and len(memory.levels) == 2
    assert memory.level(2).memories[0].holds == {"activations", "weights"}


def test_a_fully_connected_layer_reads_constants_unless_a_dma_loads_them() -> None:
    builder = GraphBuilder((64, 1, 1), name="linear")
    builder.linear(16)
    layer = builder.graph().layers[0]
    for settings, fetched in (({}, Traits.LINKED), ({"dma": "dma"}, "")):
        ctx = context(part="ensemble-hp", **settings)
        kernel = next(one for one in candidates(ctx, layer) if one.accepts(layer) is None)
        assert kernel.traits(layer).fetches == fetched


def test_steps_in_binary32_reach_the_kernels_of_the_fpu() -> None:
    assert context().memory.keeps_binary32
    assert not context(kernels="portable").memory.keeps_binary32


@pytest.mark.parametrize("name", parts.NAMES)
def test_every_part_names_its_source_and_has_a_clock(name: str) -> None:
    ctx, part = context(part=name), parts.part_of({parts.OPTION: name})
    assert part.source
    assert ctx.memory.level(1).memories[0].size_bytes == part.dtcm_kib * 1024
    assert ctx.operating_point is not None
    assert ctx.operating_point.core_hz == part.megahertz * 1e6


def test_a_dma_is_for_parts_where_one_reaches_dtcm() -> None:
    ctx = context(part="ensemble-hp", dma="dma")
    assert not ctx.memory.link(1).blocking and context(part="ensemble-hp").memory.link(1).blocking
    with pytest.raises(UsageError, match="no DMA of part hx6538") as caught:
        context(part="hx6538", dma="dma")
    assert "ensemble-hp" in caught.value.hint


def test_the_flash_of_a_board_is_named() -> None:
    assert context(part="hx6538", flash_kib="2048").memory.level(3).size_bytes == 2048 * 1024
    with pytest.raises(UsageError, match="128 KiB of it are for code"):
        context(flash_kib="64")


def test_memory_without_room_on_the_emulated_board_is_elsewhere(tmp_path: Path) -> None:
    build_app(small(), "cortex_m55", tmp_path / "app")
    script = (tmp_path / "app" / toolchain.SCRIPT).read_text()
    assert "(.dory_l1)) } > DTCM" in script and "(.dory_l2)) } > SRAM" in script
    assert "@" not in script


@pytest.mark.sample(2)
@pytest.mark.parametrize("cross", [False, True], ids=["host", "chip"])
def test_cmake_builds_the_library(cross: bool, tmp_path: Path) -> None:
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        pytest.skip("cmake and ninja are not installed (extra test)")
    if cross and shutil.which(toolchain.GCC) is None:
        pytest.skip(f"{toolchain.GCC} is not installed")
    build_app(small(), "cortex_m55", tmp_path / "app")
    cmake(tmp_path / "app", tmp_path / "build", cross)
    subprocess.run(["cmake", "--build", str(tmp_path / "build")], check=True, capture_output=True)
    assert list((tmp_path / "build").glob("lib*_network.a"))


def cmake(source: Path, build: Path, cross: bool) -> str:
    """Configure a project; returns what CMake says where it refuses, else nothing."""
    command = ["cmake", "-G", "Ninja", "-S", str(source), "-B", str(build)]
    if cross:
        flags = " ".join((*toolchain.GCC_FLAGS, "-O2", "-ffreestanding"))
        command += ["-DCMAKE_SYSTEM_NAME=Generic", "-DCMAKE_SYSTEM_PROCESSOR=arm"]
        command += [f"-DCMAKE_C_COMPILER={toolchain.GCC}", f"-DCMAKE_C_FLAGS={flags}"]
        command += ["-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    return " ".join(result.stderr.split()) if result.returncode else ""


def two_networks(folder: Path) -> list[Path]:
    """Return the folders of two applications with names of their own."""
    apps = [folder / "cat", folder / "dog"]
    for app in apps:
        build_app(small(), "cortex_m55", app, prefix=app.name)
    return apps


@pytest.mark.sample(2)
@pytest.mark.parametrize("cross", [False, True], ids=["host", "chip"])
def test_cmake_takes_kernels_once_and_refuses_other_ones(cross: bool, tmp_path: Path) -> None:
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        pytest.skip("cmake and ninja are not installed (extra test)")
    if cross and shutil.which(toolchain.GCC) is None:
        pytest.skip(f"{toolchain.GCC} is not installed")
    apps, user = two_networks(tmp_path), tmp_path / "user"
    user.mkdir()
    (user / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(both LANGUAGES C)\n"
        f"add_subdirectory({apps[0]} cat)\nadd_subdirectory({apps[1]} dog)\n"
    )
    assert cmake(user, user / "build", cross) == ""
    subprocess.run(["cmake", "--build", str(user / "build")], check=True, capture_output=True)
    commands = (user / "build/build.ninja").read_text()
    shared = [path.name for path in apps[0].glob("kernels/*.c")]
    assert shared
    for name in shared:
        assert len(re.findall(rf"^build \S*{name}\.o(bj)?:", commands, re.MULTILINE)) == 1, name
    kernel = apps[1] / "kernels" / shared[0]
    kernel.write_text(f"{kernel.read_text()}/* of another release */\n")
    assert "same release of dory" in cmake(user, user / "again", cross)


def test_zephyr_takes_both_modules_and_each_kernel_once(tmp_path: Path) -> None:
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        pytest.skip("cmake and ninja are not installed (extra test)")
    if shutil.which(toolchain.GCC) is None:
        pytest.skip(f"{toolchain.GCC} is not installed")
    apps, user = two_networks(tmp_path), tmp_path / "user"
    settings = write_zephyr_application(
        user, apps, Path(str(files("dory_cortex_m55"))) / "board/libc"
    )
    assert settings["CAT_NETWORK_L1_SECTION"] == "DTCM"
    assert cmake(user, user / "build", cross=True) == ""
    subprocess.run(["cmake", "--build", str(user / "build")], check=True, capture_output=True)
    commands = (user / "build/build.ninja").read_text()
    for name in (path.name for path in apps[0].glob("kernels/*.c")):
        assert len(re.findall(rf"^build \S*{name}\.o(bj)?:", commands, re.MULTILINE)) == 1, name
    for app in apps:
        assert f"{app.name}_cortex_m55.c.o" in commands
    assert 'DORY_L2_SECTION=\\".noinit.dory_l2\\"' in commands
