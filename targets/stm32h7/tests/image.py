"""Compiling networks for the STM32H7 and running their images on the emulated chip."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from dory_stm32h7 import toolchain
from dory_stm32h7.emulator.runner import Session
from dory_stm32h7.runners import has_emulator

from dory_core.api import simulate
from dory_core.testing import CompileResult, Plugins, read_graph, run_application
from dory_core.tools import read_plan
from tests.compiled import compiled as compile_for

RUNNER = "cortex-m7"
COMPILERS = (toolchain.GCC, "ziglang")
L1_BYTES = 100 * 1024

# All networks that fit the chip; those of CI are short.
IN_CI = ("nemo_small_cnn", "quantlab_small_conv8")
LONG = (
    "nemo_NAS_Frontnet",
    "nemo_PenguiNet_32",
    "nemo_Residual_connection_test_1",
    "nemo_TCN_T",
    "nemo_dronet_complete",
    "nemo_ds_cnn_kws",
    "nemo_eegnet_1d_8b_1xW",
    "nemo_mv1_025_96",
    "nemo_mv2_035_96",
    "nemo_proxylessnas_pulp_dronet",
    "nemo_resnet8",
    "quantlab_Dronet",
    "quantlab_mixed_conv",
    "quantlab_mv1_025_96",
    "quantlab_mv1_025_96_4b",
    "quantlab_mv2_035_96",
    "quantlab_resnet8",
    "quantlab_small_cnn",
    "quantlab_tcn1d_pad",
)


def require_emulator() -> None:
    """Skip the test unless an image can be built and run."""
    if not (has_emulator() and toolchain.has_toolchain()):
        pytest.skip("needs the emulator and a compiler for it: pip install dory-stm32h7[emulator]")


def choose_compiler(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let images be built with one of COMPILERS; skip the test where it is missing."""
    monkeypatch.delenv("ARM_CC", raising=False)
    there = shutil.which(name) if name == toolchain.GCC else importlib.util.find_spec(name)
    if there is None:
        pytest.skip(f"{name} is not installed")
    if name != toolchain.GCC:
        monkeypatch.setattr(toolchain, "GCC", "no-such-compiler")
    assert name in toolchain.find_toolchain().compiler.name


def compiled(
    name: str,
    directory: Path,
    plugins: Plugins,
    budgets: Mapping[int, int] | None = None,
    **settings: str,
) -> CompileResult:
    """Compile a network of the collection with its golden; L1 is 100 kB unless budgets say more."""
    chosen = {1: L1_BYTES} if budgets is None else budgets
    return compile_for(name, directory, plugins, chosen, target="stm32h7", settings=settings)


def session(directory: Path, inputs: int = 1) -> Session:
    """Return one run of the image, with nothing to compare."""
    plan = read_plan(directory)
    graph = read_graph(directory)
    layers = [
        simulate.LayerOutput(n["index"], n["name"], graph.tensors[n["output"]["name"]])
        for n in plan["layers"]
    ]
    return Session(directory, simulate.RunRequest(layers, [{}] * inputs))


def run_image(
    directory: Path, plugins: Plugins, repeat: int = 2, seed: int = 1
) -> simulate.RunResult:
    """Run the image; asserts that every element of every layer is exact, in every repetition."""
    result = run_application(directory, plugins=plugins, runner=RUNNER, repeat=repeat, seed=seed)
    wrong = result.first_difference
    assert wrong is None, f"layer {wrong[1].index} {wrong[1].name}: {wrong[1]}"
    assert len(result.runs) % repeat == 0
    return result
