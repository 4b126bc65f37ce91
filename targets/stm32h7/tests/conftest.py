"""Make the helpers beside the tests importable; applications that several modules build into."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dory_core.testing import Plugins
from dory_core.tools import load_plugins

sys.path.insert(0, str(Path(__file__).parent))

from dory_stm32h7.parts import part_of
from image import require_emulator
from stm32h7_projects import Library, build


@pytest.fixture(scope="session")
def plugins() -> Plugins:
    require_emulator()
    pytest.importorskip("ziglang")
    return load_plugins()


@pytest.fixture(scope="session", params=["stm32h743", "cortex-m4"])
def library(
    request: pytest.FixtureRequest, plugins: Plugins, tmp_path_factory: pytest.TempPathFactory
) -> Library:
    directory = tmp_path_factory.mktemp("library") / "app"
    build(directory, plugins, request.param, form="library")
    return Library(directory, part_of({"part": request.param}))
