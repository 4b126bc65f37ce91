"""Real plugin distributions, built in a folder as an installer would leave them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.command_line import Outcome, environment, python

GOOD_TARGET = """
from dory_core.api import Level, Link, Memory, MemoryHierarchy, Option, Target
from dory_core.api import hookimpl

@hookimpl
def dory_targets():
    return [Target("{name}", "a chip of the tests", options=(
        Option("cores", int, 4, "cores that run kernels"),
        Option("fast", bool, False, "run fast"),
        Option("kernels", str, "own", "kernel library", ("own", "vendor")),
    ))]

@hookimpl(target="{name}")
def dory_memory_hierarchy(ctx):
    levels = (Level(1, (Memory("SRAM1", 8192),)), Level(2, (Memory("SRAM2", 65536),)))
    return MemoryHierarchy(levels, (Link(1, 2, 10, 4.0),), cores=ctx.options["cores"])
"""

GOOD_FRONTEND = """
from dory_core.importing import Frontend
from dory_core.api import hookimpl

@hookimpl
def dory_frontends():
    return [Frontend("{name}", "a dialect of the tests", lambda path, options: None)]
"""


class Site:
    """A folder of installed distributions, put on the module path of a subprocess."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(
        self, dist: str, entry: str, source: str, version: str = "1.0", commands: bool = False
    ) -> None:
        """Install a distribution of one module whose entry point ``entry`` is that module.

        commands: the module is also in the group ``dory.commands``.
        """
        module = dist.replace("-", "_")
        (self.folder / f"{module}.py").write_text(source, encoding="utf-8")
        info = self.folder / f"{module}-{version}.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {dist}\nVersion: {version}\n"
        (info / "METADATA").write_text(metadata, encoding="utf-8")
        groups = ("dory", "dory.commands") if commands else ("dory",)
        points = "".join(f"[{group}]\n{entry} = {module}\n" for group in groups)
        (info / "entry_points.txt").write_text(points, encoding="utf-8")
        (info / "RECORD").write_text(f"{module}.py,,\n", encoding="utf-8")

    def python(self, *arguments: str, plugins: str | None = None) -> Outcome:
        """Run Python with the distributions installed; plugins: the value of DORY_PLUGINS."""
        env = environment(self.folder)
        env.pop("DORY_PLUGINS", None)
        extra = {} if plugins is None else {"DORY_PLUGINS": plugins}
        return python(*arguments, env=env | extra, cwd=self.folder)

    def dory(self, *arguments: str, plugins: str | None = None) -> Outcome:
        """Run the command line."""
        return self.python("-m", "dory_core.cli.main", *arguments, plugins=plugins)

    def rows(self, plugins: str | None = None) -> dict[str, dict[str, Any]]:
        """Return the rows of ``dory plugins --json`` by entry point."""
        outcome = self.dory("plugins", "--json", plugins=plugins)
        assert outcome.status == 0, outcome.stderr
        return {row["entry"]: row for row in outcome.json}
