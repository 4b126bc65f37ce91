"""The frontend of ``examples/vendor_frontend`` passes its tests, and its networks are compiled."""

from __future__ import annotations

from pathlib import Path

import dory_slate
import pytest

from dory_core.testing import CompileOptions, Plugins, compile_network
from dory_core.testing.apps import assert_exact
from examples.vendor_frontend.tests.test_conformance import TestSlate as Slate
from examples.vendor_frontend.tests.test_conformance import content
from tests.toy.chip import NAME, ToyChip


def plugins() -> Plugins:
    return Plugins.from_objects(toy=ToyChip(), slate=dory_slate)


class TestSlate(Slate):
    """Its tests, with the package as a plugin although it is not installed."""

    @pytest.fixture
    def plugins(self) -> Plugins:
        return plugins()


def test_an_application_of_a_file_is_exact(tmp_path: Path) -> None:
    source = tmp_path / "net.slate"
    source.write_bytes(content())
    loaded = plugins()
    compile_network(CompileOptions(source, NAME, "slate", output=tmp_path / "app"), loaded)
    assert_exact(tmp_path / "app", plugins=loaded)
