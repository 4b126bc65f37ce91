"""What `dory new` writes, installed, and its own tests."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command_line import Outcome, environment, python


def install_new(kind: str, name: str, folder: Path) -> Path:
    """Write a new plugin to ``folder`` and install it in the folder ``site`` there; return that."""
    made = python("-m", "dory_core.cli.main", "new", kind, name, env=environment(), cwd=folder)
    assert made.status == 0, made.stderr
    assert f"written: dory-{name}" in made.stdout
    pip = ("-m", "pip", "-q", "install", "--no-build-isolation", "--no-deps")
    where = ("--target", folder / "site", folder / f"dory-{name}")
    installed = python(*pip, *where, env=environment())
    assert installed.status == 0, installed.stderr
    return folder / "site"


def run_tests_of(name: str, site: Path, chosen: str) -> Outcome:
    """Run the tests of an installed new plugin whose names match ``chosen``."""
    project = site.parent / f"dory-{name}"
    arguments = ("-p", "no:cacheprovider", "-c", project / "pyproject.toml", "-k", chosen)
    env = environment(site) | {"DORY_PLUGINS": name}
    return python("-m", "pytest", "-q", *arguments, project / "tests", env=env)
