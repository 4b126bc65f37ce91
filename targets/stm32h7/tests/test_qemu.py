"""The same C on QEMU, when it is installed: values, and counts beside the emulator's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from image import compiled, require_emulator, run_image

from dory_core.api import ToolMissing, UsageError
from dory_core.testing import Plugins, run_application
from dory_core.tools import load_plugins


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    require_emulator()
    return load_plugins()


@pytest.fixture
def qemu() -> None:
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed")


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["nemo_small_cnn", "quantlab_small_cnn"])
def test_both_emulators_agree(name: str, qemu: None, plugins: Plugins, tmp_path: Path) -> None:
    directory = tmp_path / "app"
    compiled(name, directory, plugins, dma="memcpy")
    other = run_application(directory, plugins=plugins, runner="qemu", repeat=2)
    assert other.exact and other.runner == "qemu"
    assert len(other.runs) == 2
    ours = run_image(directory, plugins, repeat=1)
    for a, b in zip(ours.runs[0].layers, other.runs[0].layers, strict=True):
        # The timer of QEMU counts in steps, and the calls around a layer differ.
        assert abs(a.instructions - b.instructions) < 0.01 * a.instructions + 400


def test_image_with_mdma_is_refused(qemu: None, plugins: Plugins, tmp_path: Path) -> None:
    compiled("nemo_small_cnn", tmp_path / "app", plugins)
    with pytest.raises(UsageError, match="has no MDMA") as caught:
        run_application(tmp_path / "app", plugins=plugins, runner="qemu")
    assert "--set dma=memcpy" in caught.value.hint


def test_missing_qemu_is_named(
    plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled("nemo_small_cnn", tmp_path / "app", plugins, dma="memcpy")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ToolMissing, match="qemu-system-arm"):
        run_application(tmp_path / "app", plugins=plugins, runner="qemu")
