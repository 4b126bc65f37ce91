"""The pages of docs/: files that they show are those of the tree, and the site has no warnings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_files_that_pages_show_are_those_of_the_tree() -> None:
    command = [sys.executable, str(DOCS / "included.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_page_of_commands_is_that_of_the_command_line() -> None:
    """`python docs/commands.py` writes it, where the packages of all commands are installed."""
    for name in ("dory_report", "dory_qdq"):
        pytest.importorskip(name, reason="a package of commands is not installed")
    command = [sys.executable, str(DOCS / "commands.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    assert "| `--l1 BYTES` |" in page and "## `dory compare NETWORK`" in page


def test_every_page_is_reached_from_the_site() -> None:
    text = (DOCS / "mkdocs.yml").read_text()
    assert [page.name for page in DOCS.glob("*.md") if f": {page.name}\n" not in text] == []


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the docs extra is not installed")
    command = [sys.executable, str(DOCS / "site.py"), str(tmp_path / "site")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "dory_kite_conv3x3" in (tmp_path / "site/tutorial_chip/index.html").read_text()
    assert "$x_pitch" in (tmp_path / "site/plugins/index.html").read_text()
