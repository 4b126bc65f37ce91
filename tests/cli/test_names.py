"""What commands print of names controls no terminal and passes for no message of dory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import Outcome, dory
from tests.toy.chip import NAME
from tests.toy.network import write_network

FILE = "-a\x1b[2J\u202eb\ndory: hint: run `x`\n$(shell touch hacked).txt"
LAYER = "\x1b[31mred\x1b[0m\u202e"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    net, _ = write_network(folder)
    text = net.read_text(encoding="utf-8")
    lines = [
        f"{line.partition('# ')[0]}# {LAYER}" if "# " in line else line for line in text.split("\n")
    ]
    name = folder / FILE
    name.write_text("\n".join(lines), encoding="utf-8")
    net.unlink()
    return name


def assert_harmless(outcome: Outcome) -> None:
    for text in (outcome.stdout, outcome.stderr):
        for line in text.split("\n"):
            assert line.isprintable(), repr(line)
            assert not line.startswith("dory: hint: run `x`")


def test_commands_print_names_as_text(network: Path) -> None:
    folder = network.parent
    compiled = dory("--target", NAME, "--frontend", "plain", f"./{FILE}", "-v", cwd=folder)
    assert compiled.status == 0, compiled.stderr
    assert_harmless(compiled)
    [app] = [path for path in folder.iterdir() if path.is_dir()]
    assert f"written: {app.name[:2]}<U+001B>" in compiled.stdout
    assert "dory run $'./-a\\x1b[2J" in compiled.stdout
    for command in (
        ["run", f"./{app.name}", "-v"],
        ["check", f"./{FILE}", "--frontend", "plain", "--target", NAME, "-v"],
        ["run", f"./{FILE}"],
        [f"./{FILE}{FILE}"],
        ["--target", FILE, f"./{FILE}"],
    ):
        outcome = dory(*command, cwd=folder)
        assert outcome.status in {0, 2, 3}, outcome
        assert_harmless(outcome)
    assert not list(folder.rglob("hacked"))
