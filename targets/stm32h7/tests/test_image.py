"""Images of real networks on the emulated chip: every element of every layer, twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from image import (
    COMPILERS,
    IN_CI,
    L1_BYTES,
    LONG,
    choose_compiler,
    compiled,
    require_emulator,
    run_image,
)

from dory_core.testing import Plugins, run_application
from dory_core.tools import load_plugins


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    require_emulator()
    return load_plugins()


def check(
    name: str, directory: Path, plugins: Plugins, l1_bytes: int = L1_BYTES, doubled: int = 0
) -> None:
    """Compile with the target's own kernels; run twice on this machine and on the chip, where the
    MDMA moves all data. At least ``doubled`` layers have two buffers."""
    result = compiled(name, directory, plugins, {1: l1_bytes})
    assert result.golden_exact
    assert result.plan.deployable
    assert all(step.kernel.name.startswith("dory_stm32h7_") for step in result.plan.steps)
    buffers = [max(b.copies for b in step.tiling.buffers) for step in result.plan.steps]
    assert buffers.count(2) >= doubled
    host = run_application(directory, plugins=plugins, runner="host", dma="late", repeat=2)
    assert len(host.runs) == 2
    assert host.first_difference is None
    image = run_image(directory, plugins)
    assert image.dma == "late"
    run = image.runs
    layers = [layer.index for layer in run[0].layers]
    assert sorted(layers) == sorted(step.index for step in result.plan.steps)
    for first, second in zip(run[0].layers, run[1].layers, strict=True):
        assert first.instructions > 0
        assert first.cycles is None
        # Waiting for the MDMA is the only part that may differ.
        assert abs(first.instructions - second.instructions) < 0.02 * first.instructions + 500


@pytest.mark.sample(4)
@pytest.mark.parametrize(("l1_bytes", "doubled"), [(L1_BYTES, 0), (12 * 1024, 4)])
@pytest.mark.parametrize("name", IN_CI)
def test_image_is_exact(
    name: str, l1_bytes: int, doubled: int, plugins: Plugins, tmp_path: Path
) -> None:
    check(name, tmp_path / "app", plugins, l1_bytes, doubled)


@pytest.mark.sample(2)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_image_of_each_compiler_is_exact(
    compiler: str, plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_compiler(compiler, monkeypatch)
    compiled("nemo_small_cnn", tmp_path / "app", plugins)
    run_image(tmp_path / "app", plugins)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_image_of_a_larger_network_is_exact(name: str, plugins: Plugins, tmp_path: Path) -> None:
    check(name, tmp_path / "app", plugins)


def test_tensors_that_stay_in_l1_are_exact(plugins: Plugins, tmp_path: Path) -> None:
    """On the chip, where everything else in L1 is overwritten between layers."""
    result = compiled("nemo_small_cnn", tmp_path / "app", plugins, {})
    stay = [step.output.form.name == "RESIDENT" for step in result.plan.steps]
    assert sum(stay) >= len(stay) // 2
    other = compiled("nemo_small_cnn", tmp_path / "other", plugins, {}, moves="-l1-residency")
    assert result.plan.levels[1].used < other.plan.levels[1].used
    assert result.plan.cycles < other.plan.cycles
    run_image(tmp_path / "app", plugins)
