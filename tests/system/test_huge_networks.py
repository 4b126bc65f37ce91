"""An image as large as GAP8 can hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from dory_nemo.testing import NemoBuilder

from dory_core.driver.check import check_network
from dory_core.driver.compiler import CompileOptions
from dory_core.plugins.manager import load_plugins


@pytest.mark.slow
def test_an_image_of_a_megapixel_has_tiles(tmp_path: Path) -> None:
    """Its weighted objective has parts far beyond its cycles."""
    path = NemoBuilder((1, 1024, 1024)).conv(4, 1).save(tmp_path / "net.onnx")
    assert check_network(CompileOptions(path, "gap8", "nemo"), load_plugins()).fits
