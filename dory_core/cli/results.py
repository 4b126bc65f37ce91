"""What the commands give in Python: results that print themselves, and that a notebook shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dory_core.cli.html import html_page

if TYPE_CHECKING:
    from rich.console import Console

    from dory_core.driver.check import CheckReport
    from dory_core.driver.front import RamFront
    from dory_core.simulate.result import RunResult


@dataclass(frozen=True, slots=True)
class ApplicationRun:
    """The result of a run.

    Attributes:
        result: Every layer of every execution, with the elements that differ.
    """

    result: RunResult

    @property
    def exact(self) -> bool:
        """True when every element of every layer is as expected."""
        return self.result.exact

    def report(self, *, details: bool = False) -> None:
        """Print the executions and the elements that differ.

        details: print every layer.
        """
        from dory_core.cli.common import console
        from dory_core.cli.tables.run import print_run

        print_run(self.result.to_json(), console(), details=details)

    def _repr_html_(self) -> str:
        from dory_core.cli.tables.run import print_run

        return html_page(lambda out: print_run(self.result.to_json(), out, details=True))


@dataclass(frozen=True, slots=True)
class CheckedNetwork:
    """The result of a check.

    Attributes:
        result: Kernels, refusals and memory, as records.
    """

    result: CheckReport

    @property
    def supported(self) -> bool:
        """True when there is a kernel for every layer; without a target, when it can be read."""
        return self.result.supported

    @property
    def fits(self) -> bool | None:
        """True when memory suffices; None without a target or for an unsupported network."""
        return self.result.fits

    @property
    def reason(self) -> str:
        """The first problem, empty when there is none."""
        return self.result.reason

    @property
    def hint(self) -> str:
        """What the user can change, empty when there is nothing to suggest."""
        return self.result.hint

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``dory check --json``, which docs/json.md describes."""
        return self.result.to_json()

    def report(self, *, details: int = 0) -> None:
        """Print the kernel of each layer, memory and the verdict.

        details: 1 adds rejections by kernels for the kind of each layer; 2 adds all kernels.
        """
        from dory_core.cli.common import console

        self._print(console(), details)

    def _repr_html_(self) -> str:
        return html_page(self._print)

    def _print(self, out: Console, details: int = 0) -> None:
        from dory_core.cli.tables.check import print_check

        document = self.to_json()
        print_check(document, out, details=details)
        if "desktop" in document:
            from dory_core.cli.tables.desktop import print_desktop

            print_desktop(document["desktop"], out, details=details > 0)


@dataclass(frozen=True, slots=True)
class LeastRam:
    """How little L2 a network needs, and what that costs.

    Attributes:
        result: The plans, as records.
    """

    result: RamFront

    @property
    def fits(self) -> bool:
        """True when one of the plans fits the budget of L2."""
        return self.result.fits

    @property
    def least_bytes(self) -> int:
        """Bytes of L2 of the smallest plan."""
        return self.result.points[-1].l2_bytes

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``dory check --least --json``, which docs/json.md describes."""
        return self.result.to_json()

    def report(self) -> None:
        """Print the plans, from the fastest to the smallest, and what would make one fit."""
        from dory_core.cli.common import console

        self._print(console())

    def _repr_html_(self) -> str:
        return html_page(self._print)

    def _print(self, out: Console) -> None:
        from dory_core.cli.tables.front import print_front

        print_front(self.to_json(), out)
