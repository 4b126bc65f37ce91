"""Cases of the campaign, and what became of them."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dory_core.errors import DoryError, ToolMissing
from dory_core.plugins.manager import Plugins, load_plugins

#: Of a bug of dory: never the user's fault.
BUG = 1


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """One thing to try: ``kind:subject:seed``. size: how much of it, 0 for all that is drawn."""

    kind: str
    subject: str
    seed: int
    size: int = 0

    def __str__(self) -> str:
        return f"{self.kind}:{self.subject}:{self.seed}" + (f":{self.size}" if self.size else "")

    @staticmethod
    def parse(text: str) -> Case:
        """Return the case of a text; raises ValueError."""
        kind, subject, seed, *size = text.split(":")
        return Case(kind, subject, int(seed), int(size[0]) if size else 0)

    @property
    def draw(self) -> random.Random:
        """The generator that decides everything about the case but its size."""
        return random.Random(f"{self.kind}:{self.subject}:{self.seed}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a case.

    outcome: one word for the table. text: what happened, in words. bad: it must not be so.
    """

    case: Case
    outcome: str
    text: str = ""
    bad: bool = False
    seconds: float = 0.0

    @property
    def line(self) -> str:
        """The verdict as one line of a log."""
        text = " ".join(self.text.split())
        return f"{self.case}\t{self.outcome}\t{self.seconds:.2f}\t{text}"


#: Tries a case in an empty folder.
Check = Callable[[Case, Path], Verdict]


@cache
def plugins() -> Plugins:
    """Return the plugins of this process."""
    return load_plugins()


def refusal(case: Case, error: DoryError) -> Verdict:
    """Return the verdict of an error for users: refused, with a reason and without a bug."""
    text = f"{type(error).__name__}: {error.message}"
    if error.exit_code == BUG:
        return Verdict(case, "bug", text, bad=True)
    if isinstance(error, ToolMissing):  # a sanitizer that this machine has no room for
        return Verdict(case, "not tried", text)
    return Verdict(case, "refused", text)


def check_in_folder(case: Case, check: Check) -> Verdict:
    """Try a case in a temporary folder of its own, in which alone it may write."""
    with tempfile.TemporaryDirectory(prefix="dory-fuzz-") as name:
        return check(case, Path(name))
