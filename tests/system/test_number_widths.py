"""Numbers of the C of real networks have 32 bits, on every target that takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dory_core.driver.compiler import compile_network
from dory_core.errors import DoesNotFit, NotSupported
from dory_core.plugins.manager import load_plugins
from tests.codegen.narrow import narrow_numbers
from tests.system.test_c_of_networks import NETWORKS, STACK_BYTES, options

#: Layers in parts whose tiles are counted from a start that differs, and shared functions.
QUICK = ("nemo_dronet_complete", "nemo_ds_cnn_kws")


@pytest.mark.sample(3)
@pytest.mark.parametrize("target", sorted(STACK_BYTES))
@pytest.mark.parametrize(
    "network",
    [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in NETWORKS],
)
def test_numbers_have_32_bits(network: str, target: str, tmp_path: Path) -> None:
    app = tmp_path / "app"
    try:
        compile_network(options(network, target, app), load_plugins())
    except (DoesNotFit, NotSupported) as error:
        pytest.skip(error.message)
    assert narrow_numbers(app) == {}
