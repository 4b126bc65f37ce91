"""Images of real networks on the emulated chip: every element of every layer, twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from dory_stm32h7 import toolchain
from image import compiled, require_emulator, run_image

from dory_core.plugins import Plugins, load_plugins

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


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    require_emulator()
    return load_plugins()


def check(name: str, directory: Path, plugins: Plugins) -> None:
    result = compiled(name, directory, plugins)
    assert result.golden_exact
    assert result.plan.deployable
    run = run_image(directory, plugins).runs
    layers = [layer.index for layer in run[0].layers]
    assert sorted(layers) == sorted(step.index for step in result.plan.steps)
    for first, second in zip(run[0].layers, run[1].layers, strict=True):
        assert first.instructions > 0
        assert first.cycles is None
        # Waiting for the MDMA is the only part that may differ.
        assert abs(first.instructions - second.instructions) < 0.02 * first.instructions + 500


@pytest.mark.parametrize("name", IN_CI)
def test_image_is_exact(name: str, plugins: Plugins, tmp_path: Path) -> None:
    check(name, tmp_path / "app", plugins)


@pytest.mark.parametrize("compiler", [toolchain.GCC, "ziglang"])
def test_image_of_each_compiler_is_exact(
    compiler: str, plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARM_CC", raising=False)
    if compiler == toolchain.GCC:
        if shutil.which(compiler) is None:
            pytest.skip(f"{compiler} is not installed")
    else:
        monkeypatch.setattr(toolchain, "GCC", "no-such-compiler")
    assert compiler in toolchain.find_toolchain().compiler.name
    compiled("nemo_small_cnn", tmp_path / "app", plugins)
    run_image(tmp_path / "app", plugins)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_image_of_a_larger_network_is_exact(name: str, plugins: Plugins, tmp_path: Path) -> None:
    check(name, tmp_path / "app", plugins)
