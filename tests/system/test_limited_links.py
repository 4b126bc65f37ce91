"""Real networks with their goldens on chips whose links can do less, resident and streamed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dory_core.plugins.manager import Plugins
from dory_core.testing.apps import assert_exact
from tests.compiled import compiled
from tests.toy.chip import NAME, ToyChip
from tests.toy.limited import streaming

CHIPS: dict[str, dict[str, Any]] = {
    "words": {"alignment_bytes": 4, "core_cycles_per_byte": 4.0},
    "double words": {"alignment_bytes": 8},
    "rows of words": {
        "alignment_bytes": 4,
        "dimensions": 1,
        "max_bytes": 1024,
        "core_cycles_per_byte": 4.0,
    },
}
# KiB of L2 with which a network is streamed.
NETWORKS = {
    "nemo_resnet8": 40,
    "nemo_ds_cnn_kws": 20,
    "nemo_TCN_T": 10,
    "nemo_small_cnn": 24,
    "nemo_eegnet_1d_8b_1xW": 40,
    "nemo_Residual_connection_test_1": 64,
    "quantlab_resnet8": 40,
    "quantlab_small_cnn": 24,
    "quantlab_small_conv8": 24,
    "quantlab_mixed_conv": 24,
    "quantlab_tcn1d_pad": 24,
}


def plugins_of(toy: ToyChip) -> Plugins:
    nemo, quantlab = (pytest.importorskip(name) for name in ("dory_nemo", "dory_quantlab"))
    return Plugins.from_objects(toy=toy, nemo=nemo, quantlab=quantlab)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("streamed", [False, True], ids=["resident", "streamed"])
def test_real_networks_are_exact(network: str, name: str, streamed: bool, tmp_path: Path) -> None:
    limits = CHIPS[name]
    below = {"alignment_bytes": limits["alignment_bytes"]}
    l2_bytes = (NETWORKS[network] if streamed else 2048) * 1024
    toy = streaming(limits, below, 32 * 1024, l2_bytes, cores=4)
    plugins = plugins_of(toy)
    result = compiled(network, tmp_path / "app", plugins, target=NAME)
    assert bool(result.plan.transfers) == streamed
    assert_exact(tmp_path / "app", plugins=plugins, dma=("random",), repeat=1)
