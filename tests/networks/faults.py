"""Planting faults into the text of a generated application, and what running it says then."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dory_core.driver.application import run_application
from dory_core.errors import VerificationFailed
from dory_core.plan import Plan
from dory_core.plugins.manager import Plugins

# A row of a table: the layer, the edit of its text, what the message has to say.
Fault = tuple[int, Callable[[str], str], str]


@dataclass(frozen=True)
class Application:
    """A correct application: its directory, its plan."""

    directory: Path
    plan: Plan

    def text(self, layer: int) -> str:
        return self._source(self.directory, layer).read_text()

    def with_text(self, layer: int, text: str, directory: Path) -> Path:
        """Copy the application, with another text of one layer."""
        assert text != self.text(layer)
        shutil.copytree(self.directory, directory, ignore=shutil.ignore_patterns("build"))
        self._source(directory, layer).write_text(text)
        return directory

    @staticmethod
    def _source(directory: Path, layer: int) -> Path:
        return directory / "src" / f"dory_layer_{layer:02d}.c"


def without(line: str, occurrence: int = 0) -> Callable[[str], str]:
    """Return an edit that removes one of the occurrences of a statement."""
    argument = re.search(r"\((.*)\);", line)
    rest = f"(void)({argument[1]});" if argument is not None and argument[1] else ";"

    def edit(text: str) -> str:
        parts = text.split(line)
        assert len(parts) > occurrence + 1
        return line.join(parts[: occurrence + 1]) + rest + line.join(parts[occurrence + 1 :])

    return edit


def replaced(pattern: str, new: str, count: int = 1) -> Callable[[str], str]:
    """Return an edit that replaces the first ``count`` matches of a pattern (0: all)."""

    def edit(text: str) -> str:
        text, made = re.subn(pattern, new, text, count=count)
        assert made >= max(count, 1)
        return text

    return edit


def more(pattern: str, by: int) -> Callable[[str], str]:
    """Return an edit that adds ``by`` to the last number of the first match."""

    def edit(text: str) -> str:
        match = re.search(pattern, text)
        assert match is not None
        start, end = match.span(match.lastindex or 0)
        return text[:start] + str(int(text[start:end]) + by) + text[end:]

    return edit


def outcome(
    directory: Path, plugins: Plugins, dma: str, sanitize: str | None = None, repeat: int = 1
) -> str:
    """Return what running a faulty application says."""
    try:
        result = run_application(
            directory, plugins=plugins, dma=dma, sanitize=sanitize, repeat=repeat
        )
    except VerificationFailed as error:
        return error.message
    wrong = result.first_difference
    return "nothing was found" if wrong is None else f"layer {wrong[1].index} '{wrong[1].name}'"
