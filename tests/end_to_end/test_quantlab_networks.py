"""The real networks of the QuantLab quantiser, from ONNX to exact C on the simulated GAP8.

Budgets are what the chip leaves. Activations and weights of less than 8 bits are stored in whole
bytes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dory_core.application import run_application
from dory_core.compiler import CompileOptions, CompileResult, compile_network
from dory_core.plugins import Plugins, load_plugins
from dory_core.testing.apps import assert_exact
from tests.nets import net, net_params
from tests.sanitizers import require_sanitizer


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


def compiled(name: str, directory: Path, plugins: Plugins) -> CompileResult:
    source = net(name)
    return compile_network(
        CompileOptions(
            onnx=source.onnx,
            target="gap8",
            frontend=source.frontend,
            output=directory,
            golden=(source.golden,),
            input_bits=source.input_bits,
            input_signed=source.input_signed,
        ),
        plugins,
    )


@pytest.mark.parametrize("name", net_params("quantlab_"))
def test_network_is_exact_in_all_dma_modes_twice(
    name: str, plugins: Plugins, tmp_path: Path
) -> None:
    result = compiled(name, tmp_path / "app", plugins)
    assert result.golden_exact
    assert result.plan.deployable
    assert len(result.plan.steps) == net(name).layers
    assert_exact(tmp_path / "app", plugins=plugins)


@pytest.mark.sanitizer
@pytest.mark.parametrize("sanitize", ["address,undefined", "thread"])
@pytest.mark.parametrize("name", ["quantlab_mixed_conv", "quantlab_resnet8"])
def test_network_is_clean_under_sanitizers(
    name: str, sanitize: str, plugins: Plugins, tmp_path: Path
) -> None:
    require_sanitizer(sanitize)
    compiled(name, tmp_path / "app", plugins)
    assert_exact(tmp_path / "app", plugins=plugins, sanitize=sanitize)


def test_signed_residuals_are_dumped_as_true_integers(plugins: Plugins, tmp_path: Path) -> None:
    source = net("quantlab_mv2_035_96")
    result = compiled("quantlab_mv2_035_96", tmp_path / "app", plugins)
    run_application(tmp_path / "app", plugins=plugins, dump=tmp_path / "dump")
    golden = np.load(source.golden)
    adds = [s.index for s in result.plan.steps if s.layer.layer.kind == "Add"]
    assert len(adds) == 6
    for index in adds:
        values = np.load(tmp_path / "dump" / f"layer_{index:02d}.npy")
        assert values.min() < 0
        assert np.array_equal(values.reshape(-1), golden[f"layer_{index:02d}"])
