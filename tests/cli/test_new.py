"""``dory new``: what it writes works as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import environment, python
from tests.cli.new_plugins import install_new, run_tests_of


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a new target, installed."""
    return install_new("target", "my-chip", tmp_path_factory.mktemp("new"))


def test_a_new_target_compiles_and_runs_a_network(
    site: Path, net: Path, golden: Path, tmp_path: Path
) -> None:
    env = environment(site) | {"DORY_PLUGINS": "my-chip,plain"}
    app = tmp_path / "app"
    arguments = ("--target", "my-chip", "--frontend", "plain", net, "--golden", golden, "-o", app)
    outcome = python("-m", "dory_core.cli.main", *arguments, env=env)
    assert outcome.status == 0, outcome.stderr
    assert "dory_portable_conv" in outcome.stdout
    assert "deployable: no, target my-chip has no HAL" in outcome.stdout, "it has no driver yet"
    ran = python("-m", "dory_core.cli.main", "run", app, env=env)
    assert ran.status == 0, ran.stderr
    assert "8 of 8 layers exact" in ran.stdout


def test_tests_of_a_new_target_pass(site: Path) -> None:
    outcome = run_tests_of("my-chip", site, "hierarchy or conv3x3")
    assert outcome.status == 0, outcome.stdout
    assert " passed" in outcome.stdout


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["9lives", "My-Chip", "a--b", "class", "", "../x"])
def test_a_name_that_cannot_be_one_is_refused(tmp_path: Path, name: str) -> None:
    outcome = python(
        "-m", "dory_core.cli.main", "new", "target", name, env=environment(), cwd=tmp_path
    )
    assert outcome.status == 2
    assert "cannot be the name of a plugin" in outcome.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_name_whose_distribution_is_installed_is_refused(tmp_path: Path) -> None:
    arguments = ("-m", "dory_core.cli.main", "new", "target", "core")
    outcome = python(*arguments, env=environment(), cwd=tmp_path)
    assert outcome.status == 2
    assert "dory-core" in outcome.stderr and "would replace it" in outcome.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "dory-blinky" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("precious", encoding="utf-8")
    arguments = ("-m", "dory_core.cli.main", "new", "target", "blinky")
    outcome = python(*arguments, env=environment(), cwd=tmp_path)
    assert outcome.status == 2
    assert "dory-blinky exists" in outcome.stderr
    assert [p.name for p in mine.parent.iterdir()] == ["mine.txt"]
