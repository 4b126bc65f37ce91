"""The real networks of the QuantLab quantiser, from ONNX to exact C on the simulated GAP8.

Budgets are what the chip leaves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dory_onnx.testing import OnnxBuilder

from dory_core.driver.application import run_application
from dory_core.plugins.frontend import FrontendOptions
from dory_core.plugins.manager import Plugins, load_plugins
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.sanitizers import require_sanitizer
from tests.compiled import compiled
from tests.nets import net, net_params

UNSIGNED, SIGNED = (0, 255), (-128, 127)


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


@pytest.mark.slow
@pytest.mark.sample(9)
@pytest.mark.parametrize("name", net_params("quantlab_"))
def test_network_is_exact_in_all_dma_modes_twice(
    name: str, plugins: Plugins, tmp_path: Path
) -> None:
    result = compiled(name, tmp_path / "app", plugins)
    assert result.golden_exact
    assert result.plan.deployable
    assert result.plan.steps[-1].index + 1 == net(name).layers
    assert_exact(tmp_path / "app", plugins=plugins)


@pytest.mark.slow
@pytest.mark.sanitizer
@pytest.mark.parametrize("sanitize", ["address,undefined", "thread"])
@pytest.mark.parametrize("name", net_params("quantlab_"))
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
    adds = [s.index for s in result.plan.steps if s.layer.op.kind == "Add"]
    assert len(adds) == 6
    for index in adds:
        values = np.load(tmp_path / "dump" / f"layer_{index:02d}.npy")
        assert values.min() < 0
        assert np.array_equal(values.reshape(-1), golden[f"layer_{index:02d}"])


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("first", "second", "attributes"),
    [
        (UNSIGNED, UNSIGNED, {"in1": (900, 0, 10), "levels": (64, 32, 256)}),
        (SIGNED, SIGNED, {"in1": (900, 7, 10), "levels": (64, 32, 256), "signed": True}),
        (SIGNED, UNSIGNED, {"in1": (900, 7, 10), "out": (700, 512, 10), "signed": True}),
        (SIGNED, SIGNED, {"out": (700, 512, 10), "signed": False}),
        (UNSIGNED, UNSIGNED, {"levels": (256, 256, 512)}),
        (SIGNED, SIGNED, {"levels": (256, 256, 512), "signed": True}),
        (UNSIGNED, UNSIGNED, {"in1": (500_000_003, 1 << 30, 31), "in2": (700_000_001, 0, 31)}),
    ],
    ids=["clipped", "signed-clipped", "mixed", "to-unsigned", "16-bit", "signed-16-bit", "64-bit"],
)
def test_residuals_are_exact(
    first: tuple[int, int],
    second: tuple[int, int],
    attributes: dict[str, Any],
    plugins: Plugins,
    tmp_path: Path,
) -> None:
    from dory_quantlab.testing import QuantlabBuilder

    builder = QuantlabBuilder((3, 9, 7), seed=4).conv(8, 1, lo=second[0], hi=second[1])
    branch = builder.value
    builder.conv(8, 3, pads=1, lo=first[0], hi=first[1]).add(branch, **attributes).conv(4, 3)
    build(builder, tmp_path, plugins)


@pytest.mark.sample(6)
@pytest.mark.parametrize(("lo", "hi"), [(0, 3), (-2, 1), (0, 15), (-8, 7), (0, 255), (-128, 127)])
def test_precisions_are_exact(lo: int, hi: int, plugins: Plugins, tmp_path: Path) -> None:
    from dory_quantlab.testing import QuantlabBuilder

    builder = QuantlabBuilder((3, 8, 8), seed=2, input_lo=lo, input_hi=hi)
    builder.conv(8, 3, pads=1, weight_bits=2, lo=lo, hi=hi)
    builder.depthwise(3, pads=1, weight_bits=4, lo=lo, hi=hi).maxpool(2)
    builder.linear(12, weight_bits=4, bias=True, lo=lo, hi=hi)
    builder.linear(3, weight_bits=2, activation=False)
    build(builder, tmp_path, plugins, FrontendOptions((hi - lo).bit_length(), lo < 0))


def build(
    builder: OnnxBuilder, folder: Path, plugins: Plugins, options: FrontendOptions | None = None
) -> None:
    """Compile a built network for GAP8 and compare two inputs in every DMA mode."""
    graph = plugins.frontend("quantlab").parse(builder.save(folder / "net.onnx"), options)
    build_app(graph, "gap8", folder / "app", plugins=plugins, seeds=(0, 1))
    assert_exact(folder / "app", plugins=plugins)
