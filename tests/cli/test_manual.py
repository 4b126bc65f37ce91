"""README and manual show what there is; ``tests/system`` runs their commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.command_line import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(ROOT.glob("*/*/README.md")),
]


def blocks(page: Path) -> list[str]:
    """Return the lines of a page that are indented as commands of dory."""
    return re.findall(
        r"^    (dory .*?)(?:  +#.*)?$", page.read_text(encoding="utf-8"), re.MULTILINE
    )


def commands(page: Path) -> list[str]:
    return [line for line in blocks(page) if not line.startswith("dory: ")]


def test_readme_shows_the_two_commands() -> None:
    assert commands(ROOT / "README.md") == [
        "dory --target gap8 net.tflite -o app --golden golden.npz",
        "dory run app",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", sorted((ROOT / "targets").glob("*/README.md")), ids=str)
def test_the_readme_of_a_target_installs_the_frontends_that_it_uses(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    installed = set(re.findall(r"\./frontends/(\w+)", text))
    assert set(re.findall(r"--frontend (\w+)", text)) <= installed
