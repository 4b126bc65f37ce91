"""What the commands give in Python: results that print themselves, and that a notebook shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dory_core.cli.frames import Picture, Rows, data_frame
from dory_core.cli.html import html_page
from dory_core.errors import ToolMissing, UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from rich.console import Console

    from dory_core.driver.check import CheckReport
    from dory_core.driver.front import RamFront
    from dory_core.golden.layers import GoldenReport
    from dory_core.simulate.result import RunResult

#: Parts of a layer in plan.json that a row of the layers has, by name.
_ESTIMATES = (
    *("cycles", "compute_cycles", "stall_cycles", "l3_stall_cycles", "conversion_cycles"),
    *("macs_per_cycle", "bound"),
)


@dataclass(frozen=True, slots=True, repr=False)
class CompiledNetwork:
    """A compiled network.

    Attributes:
        plan: The document plan.json, which docs/json.md describes.
        path: Directory of the application, None when the network was only planned.
        golden: Layers that goldens confirmed, None without a golden.
        passes: Names of the passes over the graph, in order.
        timeline: The document timeline.json: when each operation runs.
    """

    plan: Mapping[str, Any]
    path: Path | None
    golden: GoldenReport | None
    passes: tuple[str, ...] = ()
    timeline: Mapping[str, Any] | None = None

    @property
    def cycles(self) -> int:
        """Estimated cycles of one inference."""
        return int(self.plan["totals"]["cycles"])

    @property
    def layers(self) -> Rows:
        """Kernel, tile, memory and estimate of each layer, in the order of execution."""
        return tuple(
            {
                **{key: layer[key] for key in ("index", "name", "kind", "engine", "kernel")},
                "tile": "x".join(str(layer["tiles"][key]) for key in ("c_out", "h", "w")),
                "tiles": layer["tiles"]["count"],
                "l1_bytes": layer["bytes"]["l1"],
                "macs": layer["macs"],
                **{key: layer["estimate"][key] for key in _ESTIMATES},
            }
            for layer in self.plan["layers"]
        )

    def to_pandas(self) -> Any:
        """Return the layers as a DataFrame; raises ToolMissing without pandas."""
        return data_frame(self.layers)

    def pictures(self) -> Mapping[str, Picture]:
        """Return cycles, timeline, maps of memories and roofline as pictures, by name.

        Raises: ToolMissing without the package dory-report, which draws them.
        """
        from dory_core.plugins.manager import load_plugins

        draw = load_plugins().functions().get("pictures")
        if draw is None:
            raise ToolMissing(
                "pictures are drawn by the package dory-report, which is not installed",
                "pip install dory-report, or pip install ./tools/report in a copy of dory's"
                " repository",
            )
        return {name: Picture(svg) for name, svg in draw(self.plan, self.timeline).items()}

    def report(self, *, details: int = 0) -> None:
        """Print layers, memory and totals.

        details: 1 adds rejections by kernels for the kind of each layer; 2 adds all kernels.
        """
        from dory_core.cli.common import console
        from dory_core.cli.tables.plan import print_plan

        print_plan(self.plan, console(), details=details)

    def run(self, **options: Any) -> ApplicationRun:
        """Run the application as :func:`run` does. Raises UsageError when it was only planned."""
        from dory_core.cli.python import run

        return run(self._application(), **options)

    def evaluate(self, samples: Any, labels: Any = None, **options: Any) -> Any:
        """Count right answers as :func:`evaluate` does. Raises UsageError as :meth:`run`."""
        from dory_core.cli.python import evaluate

        return evaluate(self._application(), samples, labels, **options)

    def _application(self) -> Path:
        if self.path is None:
            raise UsageError(
                "the network was only planned, there is no application to run",
                "compile it with output= a directory",
            )
        return self.path

    def __repr__(self) -> str:
        where = "planned only" if self.path is None else f"in {self.path}"
        what = f"{self.plan['network']['name']} for {self.plan['target']}"
        size = f"{len(self.plan['layers'])} layers, {self.cycles:,} cycles"
        return f"<CompiledNetwork {what}: {size}, {where}>"

    def _repr_html_(self) -> str:
        from dory_core.cli.tables.plan import print_plan

        return html_page(lambda out: print_plan(self.plan, out))


@dataclass(frozen=True, slots=True, repr=False)
class ApplicationRun:
    """The result of a run.

    Attributes:
        result: Every layer of every execution, with the elements that differ.
        given: True when the inputs are those of the user, whose answers are then printed.
    """

    result: RunResult
    given: bool = False

    @property
    def exact(self) -> bool:
        """True when every element of every layer is as expected."""
        return self.result.exact

    @property
    def outputs(self) -> Mapping[str, npt.NDArray[Any]]:
        """The network's outputs by name: integers of the file, shape (N, H, W, C).

        N counts the inferences. Values of an output with a scale per channel do not compare across
        channels: use ``reals``. Raises UsageError where the runner reports no values.
        """
        from dory_core.driver.answers import outputs_of

        return outputs_of(self.result)

    @property
    def reals(self) -> Mapping[str, npt.NDArray[np.float32]]:
        """The network's outputs by name as real numbers: scale * (integer - zero point).

        Shape (N, H, W, C). Raises UsageError where the file of the network gives no scale.
        """
        from dory_core.driver.answers import reals_of

        return reals_of(self.result)

    @property
    def values(self) -> Mapping[int, npt.NDArray[Any]]:
        """Values of layers by index, shape (N, H, W, C): of all with ``all_layers=True``.

        Otherwise only of those that make the outputs.
        """
        from dory_core.driver.answers import values_of

        return values_of(self.result)

    @property
    def layers(self) -> Rows:
        """The comparison of each layer in each execution."""
        return tuple(
            {"run": number, "input": run.input, **asdict(layer)}
            for number, run in enumerate(self.result.runs)
            for layer in run.layers
        )

    def to_pandas(self) -> Any:
        """Return the layers as a DataFrame; raises ToolMissing without pandas."""
        return data_frame(self.layers)

    def report(self, *, details: bool = False) -> None:
        """Print the executions, answers to the user's inputs, and the elements that differ.

        details: print every layer.
        """
        from dory_core.cli.common import console

        self._print(console(), details)

    @property
    def answers(self) -> tuple[str, ...]:
        """A sentence for each output of each of the user's inputs: top classes, or values."""
        from dory_core.driver.answers import answers

        return tuple(answers(self.result)) if self.given else ()

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``dory run --json``, which docs/json.md describes."""
        return {**self.result.to_json(), "answers": list(self.answers)}

    def __repr__(self) -> str:
        verdict = "exact" if self.exact else "NOT EXACT"
        runs = len(self.result.runs)
        return f"<ApplicationRun on {self.result.runner}: {runs} executions, {verdict}>"

    def _repr_html_(self) -> str:
        return html_page(lambda out: self._print(out, True))

    def _print(self, out: Console, details: bool) -> None:
        from dory_core.cli.tables.run import print_run

        print_run(self.result.to_json(), out, details=details, answers=self.answers)


@dataclass(frozen=True, slots=True, repr=False)
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

    @property
    def layers(self) -> Rows:
        """Each layer with its kernel, or why there is none."""
        return tuple(
            {
                **{key: layer[key] for key in ("index", "node", "op", "engine", "kernel")},
                "reason": "" if layer["kernel"] else _refusals(layer),
            }
            for layer in self.to_json()["layers"]
        )

    def to_pandas(self) -> Any:
        """Return the layers as a DataFrame; raises ToolMissing without pandas."""
        return data_frame(self.layers)

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``dory check --json``, which docs/json.md describes."""
        return self.result.to_json()

    def report(self, *, details: int = 0) -> None:
        """Print the kernel of each layer, memory and the verdict.

        details: 1 adds rejections by kernels for the kind of each layer; 2 adds all kernels.
        """
        from dory_core.cli.common import console

        self._print(console(), details)

    def __repr__(self) -> str:
        fits = {True: "supported, and fits", False: "does not fit", None: "supported"}
        verdict = fits[self.fits] if self.supported else "not supported"
        return f"<CheckedNetwork: {verdict}>"

    def _repr_html_(self) -> str:
        return html_page(self._print)

    def _print(self, out: Console, details: int = 0) -> None:
        from dory_core.cli.tables.check import print_check

        document = self.to_json()
        print_check(document, out, details=details)
        if "desktop" in document:
            from dory_core.cli.tables.desktop import print_desktop

            print_desktop(document["desktop"], out, details=details > 0)


@dataclass(frozen=True, slots=True, repr=False)
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

    def to_pandas(self) -> Any:
        """Return the plans as a DataFrame; raises ToolMissing without pandas."""
        return data_frame(self.to_json()["points"])

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``dory check --least --json``, which docs/json.md describes."""
        return self.result.to_json()

    def report(self) -> None:
        """Print the plans, from the fastest to the smallest, and what would make one fit."""
        from dory_core.cli.common import console

        self._print(console())

    def __repr__(self) -> str:
        name, target = self.result.network, self.result.target
        return f"<LeastRam of {name} for {target}: {self.least_bytes:,} B of L2>"

    def _repr_html_(self) -> str:
        return html_page(self._print)

    def _print(self, out: Console) -> None:
        from dory_core.cli.tables.front import print_front

        print_front(self.to_json(), out)


def _refusals(layer: Mapping[str, Any]) -> str:
    """Return why kernels for the kind of a layer do not take it."""
    own = [one for one in layer["rejections"] if not one["other_kind"]]
    return "; ".join(f"{one['kernel']}: {one['reason']}" for one in own)
