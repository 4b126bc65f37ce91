"""Hooks of the Cortex-M55 target: parts, options, files of the application."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from dory_cortex_m55 import parts, plugin, toolchain
from dory_cortex_m55.hardware import PROGRAM_BYTES

from dory_core.api import Graph, TargetContext, UsageError, ops
from dory_core.testing import Plugins
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder


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


@pytest.mark.parametrize("cross", [False, True], ids=["host", "chip"])
def test_cmake_builds_the_library(cross: bool, tmp_path: Path) -> None:
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        pytest.skip("cmake and ninja are not installed (extra test)")
    if cross and shutil.which(toolchain.GCC) is None:
        pytest.skip(f"{toolchain.GCC} is not installed")
    build_app(small(), "cortex_m55", tmp_path / "app")
    command = ["cmake", "-G", "Ninja", "-S", str(tmp_path / "app"), "-B", str(tmp_path / "build")]
    if cross:
        flags = " ".join((*toolchain.GCC_FLAGS, "-O2", "-ffreestanding"))
        command += ["-DCMAKE_SYSTEM_NAME=Generic", "-DCMAKE_SYSTEM_PROCESSOR=arm"]
        command += [f"-DCMAKE_C_COMPILER={toolchain.GCC}", f"-DCMAKE_C_FLAGS={flags}"]
        command += ["-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY"]
    subprocess.run(command, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", str(tmp_path / "build")], check=True, capture_output=True)
    assert list((tmp_path / "build").glob("lib*_network.a"))
