"""Tests of the core do without our plugins: what ``conftest`` sees to."""

from __future__ import annotations

import importlib
import os

import pytest

from dory_core.plugins.manager import load_plugins
from tests.cli.command_line import ROOT, dory

PLUGINS = sorted(path.parent.name for path in ROOT.glob("*/*/dory_*/__init__.py"))


@pytest.mark.parametrize("package", PLUGINS)
def test_our_plugins_cannot_be_imported_here(package: str) -> None:
    with pytest.raises(ImportError, match=f"tests of the core do not import {package}"):
        importlib.import_module(package)


def test_the_toy_plugins_are_installed_here_and_in_processes_of_their_own() -> None:
    assert os.environ["DORY_PLUGINS"] == "toy,plain"
    assert [target.name for target in load_plugins().targets()] == ["toy"]
    assert [frontend.name for frontend in load_plugins().frontends()] == ["plain"]
    rows = dory("plugins", "--json").json
    assert [row["entry"] for row in rows if row["state"] == "loaded"] == ["plain", "toy"]
