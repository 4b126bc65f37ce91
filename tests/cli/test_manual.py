"""The commands that README and manual show work as they stand there."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.command_line import EXAMPLE, ROOT, dory

COMMANDS = ("compile", "run", "check", "compare", "report")
PAGES = [
    ROOT / "README.md",
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


def lay_out(page: Path, folder: Path) -> None:
    """Put the network that a page speaks of into ``folder``: the example, or one of its dialect."""
    if "--frontend nemo" in page.read_text(encoding="utf-8"):
        builder = pytest.importorskip("dory_nemo.testing", reason="the plugin nemo is missing")
        builder.NemoBuilder((3, 8, 8)).conv(8, 3, pads=1).linear(4).save(folder / "net.onnx")
        return
    for name in ("net.onnx", "golden.npz"):
        shutil.copy(EXAMPLE / name, folder)


def test_readme_shows_the_two_commands() -> None:
    assert commands(ROOT / "README.md") == [
        "dory --target gap8 --frontend quantlab net.onnx -o app --golden golden.npz",
        "dory run app",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_work_verbatim(pipeline: tuple[str, ...], tmp_path: Path, page: Path) -> None:
    lay_out(page, tmp_path)
    for line in commands(page):
        outcome = dory(*shlex.split(line)[1:], cwd=tmp_path)
        assert outcome.status == 0, f"{line}\n{outcome.stderr}"


def test_options_of_the_readme_exist(pipeline: tuple[str, ...]) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    known = "".join(dory(command, "--help").stdout for command in COMMANDS)
    shown = set(re.findall(r"`[^`\n]*?(--[a-z0-9-]+)", text))
    assert len(shown) > 8
    assert [option for option in sorted(shown) if option not in known] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
