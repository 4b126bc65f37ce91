"""Channels that cannot change in networks that people have: found, removed, never to a loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from dory_core.driver.compiler import CompileOptions, compile_network, plan_only
from dory_core.plan import Plan
from dory_core.plugins.manager import load_plugins
from dory_core.testing.apps import assert_exact
from tests.nets import TfliteNet, net, tflite_net

# Half of its MACs are spent on channels that never change.
WAKE = "mlperf_vww_96_int8"
NETWORKS = {
    "mlperf_vww_96_int8": ("gap8", "stm32h7", "diana"),
    "mcunet_vww": ("gap8", "stm32h7"),
    "openmv_movenet_192": ("gap8",),
    "silabs_kws_on_off_v3": ("gap8", "stm32h7"),
    "tflm_hello_world": ("gap8", "stm32h7"),
}


def tflite_file(name: str) -> TfliteNet:
    """Return a network, or skip the test without it or without the plugin that reads it."""
    if not any(plugin.entry == "tflite" for plugin in load_plugins().states):
        pytest.skip("plugins are needed: tflite")
    return tflite_net(name)


def plans(options: CompileOptions) -> tuple[Plan, Plan]:
    """Return the plan with all channels, and that without those which cannot change."""
    plugins, settings = load_plugins(), {"keep_constant_channels": "yes"}
    kept = CompileOptions(options.network, options.target, options.frontend, settings=settings)
    return plan_only(kept, plugins), plan_only(options, plugins)


def removed(plan: Plan) -> list[int | None]:
    return [value for step in plan.steps for _, value in step.layer.output.removed]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("target", "share"), [("gap8", 0.88), ("stm32h7", 0.75)])
def test_half_of_the_macs_of_visual_wake_words_go(target: str, share: float) -> None:
    options = CompileOptions(tflite_file(WAKE).path, target, "tflite")
    before, after = plans(options)
    gone = removed(after)
    assert not removed(before) and len(gone) > 1900
    assert len(gone) - gone.count(None) > 1850, "proven to be constant"
    assert after.macs < 0.51 * before.macs
    assert after.cycles < share * before.cycles
    assert after.levels[1].used <= before.levels[1].used


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), [(n, t) for n, ts in NETWORKS.items() for t in ts])
def test_no_network_gets_more_cycles(name: str, target: str) -> None:
    before, after = plans(CompileOptions(tflite_file(name).path, target, "tflite"))
    assert removed(after)
    assert after.cycles < before.cycles


@pytest.mark.slow
def test_a_network_of_nemo_loses_channels_with_seven_values(tmp_path: Path) -> None:
    source, plugins = net("nemo_proxylessnas_pulp_dronet"), load_plugins()
    options = CompileOptions(
        source.onnx, "gap8", source.frontend, tmp_path / "app", golden=(source.golden,)
    )
    before, after = plans(options)
    assert len(set(removed(after)) - {None}) > 2
    assert after.cycles < before.cycles
    assert compile_network(options, plugins).golden_exact
    assert_exact(tmp_path / "app", plugins=plugins, dma=("random",))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gap8", "stm32h7"])
def test_all_tensors_of_visual_wake_words_are_exact(target: str, tmp_path: Path) -> None:
    source, plugins = tflite_file(WAKE), load_plugins()
    options = CompileOptions(
        source.path, target, "tflite", tmp_path / "app", golden=(source.golden,)
    )
    assert compile_network(options, plugins).golden_exact
    assert_exact(tmp_path / "app", plugins=plugins)
    assert_exact(
        tmp_path / "app", plugins=plugins, dma=("random",), repeat=1, sanitize="address,undefined"
    )
