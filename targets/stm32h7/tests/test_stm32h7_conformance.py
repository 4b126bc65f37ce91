"""The conformance matrix of dory on the STM32H7."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dory_core.testing import Capabilities, TargetConformance
from dory_core.testing.cases import Case


@pytest.mark.sample(12)
class TestStm32h7(TargetConformance):
    """One core, DTCM down to 16 KiB, core 0 moves all data."""

    capabilities = Capabilities(target="stm32h7", l1_budgets=(16384, 102400))


@pytest.mark.sample(6)
class TestStm32h7Cache(TargetConformance):
    """Layers in place, through the D-cache; DTCM holds scratch memory alone."""

    capabilities = Capabilities(
        target="stm32h7", settings=(("memory", "dcache"),), l1_budgets=(102400,)
    )

    @pytest.mark.slow
    def test_layer_is_exact(
        self, layer_case: Case, l1_bytes: int, plugins: Any, tmp_path: Path
    ) -> None:
        """The networks run the same C; this adds each kind of layer alone."""
        super().test_layer_is_exact(layer_case, l1_bytes, plugins, tmp_path)

    @pytest.mark.slow
    def test_every_kernel_of_the_plugins_is_chosen(self, plugins: Any, tmp_path: Path) -> None:
        """The kernels are those of the DTCM, which are chosen there."""
        super().test_every_kernel_of_the_plugins_is_chosen(plugins, tmp_path)


@pytest.mark.slow
@pytest.mark.sample(3)
class TestStm32h7Uncached(TargetConformance):
    """Layers in place with the D-cache off: the C of the D-cache, with other estimates."""

    capabilities = Capabilities(
        target="stm32h7", settings=(("memory", "uncached"),), l1_budgets=(102400,)
    )


@pytest.mark.skipif(
    not os.environ.get("CMSIS_NN_PATH"),
    reason="needs the sources of CMSIS-NN: set CMSIS_NN_PATH",
)
@pytest.mark.sample(6)
class TestStm32h7CmsisNn(TargetConformance):
    """The kernels of CMSIS-NN first; those of the target where they reject a layer."""

    capabilities = Capabilities(
        target="stm32h7", settings=(("kernels", "cmsis-nn"),), l1_budgets=(24576, 102400)
    )
