"""Hooks of the STM32H7 target: memories, options, files of the application."""

from __future__ import annotations

from pathlib import Path

import pytest
from dory_cmsis_nn.options import cmsis_nn_path, kernels_of
from dory_stm32h7 import plugin
from dory_stm32h7.hardware import TARGET

from dory_core.api import TargetContext, UsageError
from dory_core.testing import Plugins


def context(**settings: str) -> TargetContext:
    return Plugins.from_objects(stm32h7=plugin).context("stm32h7", settings)


def test_the_plugin_loads_with_its_hooks() -> None:
    plugins = Plugins.from_objects(stm32h7=plugin)
    assert [t.name for t in plugins.targets()] == ["stm32h7"]
    assert plugins.states[0].state == "loaded"


def test_memories_are_those_of_the_h743() -> None:
    memory = context().memory
    assert [(m.name, m.size_bytes) for m in memory.level(2).memories] == [
        ("AXI SRAM", 524288),
        ("D2 SRAM", 294912),
    ]
    dtcm = memory.level(1).memories[0]
    assert dtcm.usable_bytes == 131072 - 8192 - 4096
    flash = memory.level(3).memories[0]
    assert flash.mapped and flash.size_bytes == 2 << 20
    assert "activations" not in flash.holds
    assert memory.constants_level == 3
    assert memory.cores == 1


def test_options_choose_who_moves_the_data() -> None:
    assert not context().memory.in_place
    in_place = {name: context(memory=name).memory for name in ("dcache", "uncached")}
    assert all(memory.in_place for memory in in_place.values())
    cache = in_place["dcache"].cache
    assert cache is not None and (cache.size_bytes, cache.ways, cache.sets) == (16384, 4, 128)
    assert in_place["uncached"].cache is None
    mdma, memcpy = (context(dma=name).memory.link(1) for name in ("mdma", "memcpy"))
    assert mdma.cycles(16384) < memcpy.cycles(16384)
    names = {
        dma: {file.path for file in plugin.dory_dma_hal(context(dma=dma)).files}
        for dma in ("mdma", "memcpy")
    }
    assert names["mdma"] - names["memcpy"] == {
        "hal/stm32h7/dory_mdma.c",
        "hal/stm32h7/dory_mdma_blocks.h",
    }
    assert names["memcpy"] - names["mdma"] == {"hal/stm32h7/dory_memcpy.c"}


@pytest.mark.parametrize("kernels", ["builtin", "portable", "cmsis-nn", "cmsis-nn=/opt/cmsis"])
def test_kernels_are_known(kernels: str) -> None:
    assert kernels_of(context(kernels=kernels)) == kernels.partition("=")[0]


@pytest.mark.parametrize("kernels", ["dory", "cmsis-nn=", "portable=x", ""])
def test_other_kernels_are_wrong_usage(kernels: str) -> None:
    with pytest.raises(UsageError) as caught:
        context(kernels=kernels)
    assert "cmsis-nn=PATH" in caught.value.hint


def test_cmsis_nn_is_named_by_option_or_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CMSIS_NN_PATH", raising=False)
    assert cmsis_nn_path(context(kernels="cmsis-nn")) is None
    monkeypatch.setenv("CMSIS_NN_PATH", "/from/environment")
    assert cmsis_nn_path(context(kernels="cmsis-nn")) == Path("/from/environment")
    assert cmsis_nn_path(context(kernels="cmsis-nn=/from/option")) == Path("/from/option")


def test_other_targets_are_left_to_other_plugins() -> None:
    plugins = Plugins.from_objects(stm32h7=plugin)
    ctx = TargetContext("gap8", {})
    assert plugins.dma_hal(ctx) is None
    assert plugins.kernels(ctx, None) == ()
    assert plugins.runners(ctx) == ()
    assert plugins.application(ctx, None) == ()


def test_runners_are_the_emulated_chip_and_qemu() -> None:
    runners = plugin.dory_runners(context())
    assert [runner.name for runner in runners] == ["cortex-m7", "qemu"]
    assert not any(r.preferred for r in plugin.dory_runners(context(form="library")))


def test_operating_points_name_their_sources() -> None:
    assert all(p.source for p in TARGET.operating_points)
    names = ("480MHz", "400MHz")
    assert context().operating_point == context(operating_point=names[0]).operating_point
    fast, slow = (context(operating_point=name).operating_point for name in names)
    assert fast is not None and slow is not None
    assert slow.energy_j_per_cycle == pytest.approx(0.9075e-9)
    assert fast.energy_j_per_cycle / slow.energy_j_per_cycle == pytest.approx(1.35 / 1.2)
