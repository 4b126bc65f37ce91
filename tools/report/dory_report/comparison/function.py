"""``dory.compare`` of Python, which ``dory compare`` calls, and its result."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dory_core.api import UsageError
from dory_core.tools import Picture, cli

if TYPE_CHECKING:
    from rich.console import Console

    from dory_report.comparison.executors import Advance
    from dory_report.comparison.points import Outcome, Point, Study

#: Fewer points than this are planned sooner than processes start.
_WORTH_PROCESSES = 4


@dataclass(frozen=True, slots=True, repr=False)
class ComparedPlans:
    """One network on several targets, memory sizes and options.

    Attributes:
        document: The document of ``dory compare --json``, which docs/json.md describes.
    """

    document: Mapping[str, Any]

    @property
    def columns(self) -> tuple[Mapping[str, Any], ...]:
        """The plan of each target and combination, as in the document."""
        return tuple(self.document["columns"])

    @property
    def plans(self) -> tuple[Mapping[str, Any], ...]:
        """A row for each plan: what varies, whether it fits, its totals, bytes of each memory."""
        return tuple(_row(column) for column in self.columns)

    @property
    def layers(self) -> tuple[Mapping[str, Any], ...]:
        """A row for each layer of each plan: kernel and estimated cycles."""
        return tuple(
            {
                "target": column["target"],
                **column["variation"],
                **{key: layer[key] for key in ("index", "name", "kind", "kernel", "macs")},
                "cycles": layer["estimate"]["cycles"],
            }
            for column in self.columns
            for layer in column["layers"]
        )

    def to_pandas(self) -> Any:
        """Return the plans as a DataFrame; raises ToolMissing without pandas."""
        return cli.data_frame(self.plans)

    def to_json(self) -> Mapping[str, Any]:
        """Return the document of ``dory compare --json``."""
        return self.document

    def pictures(self) -> Mapping[str, Picture]:
        """Return the charts of the comparison by name."""
        from dory_report.comparison.page import compare_figures
        from dory_report.drawing import svg

        return {figure.name: Picture(svg(figure)) for figure in compare_figures(self.document)}

    def report(self) -> None:
        """Print the tables of the comparison."""
        self._print(cli.console())

    def __repr__(self) -> str:
        fit = sum(1 for column in self.columns if column["fits"])
        return f"<ComparedPlans of {self.document['network']}: {fit} of {len(self.columns)} fit>"

    def _repr_html_(self) -> str:
        return cli.html_page(self._print)

    def _print(self, out: Console) -> None:
        from dory_report.comparison.tables import print_comparison

        print_comparison(self.document, out)


def compare(
    network: str | Path,
    targets: str | Sequence[str],
    *,
    vary: Mapping[str, Sequence[object]] | None = None,
    frontend: str | None = None,
    input_bits: int = 8,
    input_signed: bool = False,
    l1: int | str | None = None,
    l2: int | str | None = None,
    l3: int | str | None = None,
    settings: Mapping[str, object] | None = None,
    objective: str = "heuristic",
    least: bool = False,
    processes: int | None = 1,
    dask: str | None = None,
    progress: Callable[[str, int, int], None] | bool | None = None,
) -> ComparedPlans:
    """Plan a network for several targets, memory sizes and options; write nothing.

    Args:
        network: File of the network.
        targets: Name of a target, or several.
        vary: Values of ``l1``, ``l2``, ``l3`` (bytes, or texts such as ``32k``) or of options of
            the target, by name; every combination is planned.
        frontend: Name of the frontend; None takes the one that recognises the file.
        input_bits: Bits of the network input where the file does not state them.
        input_signed: Signedness of the network input where the file does not state it.
        l1: Bytes of L1 for the network, or a text such as ``32k``.
        l2: Bytes of L2.
        l3: Bytes of L3.
        settings: Options of the targets; ``TARGET.NAME`` is for one of them.
        objective: What is made best, as for :func:`compile`.
        least: True to plan each also with ever fewer bytes of L2.
        processes: Number of processes; None for all cores where that is worth it. Several import
            the calling script, whose work has to stand below ``if __name__ == "__main__":``.
        dask: Address of the scheduler of a Dask cluster that plans instead.
        progress: As for :func:`compile`.

    Raises:
        UsageError: For names and values that do not exist.
        ToolMissing: For ``dask`` without its package.
    """
    from dory_core.tools import load_plugins
    from dory_report.comparison.points import Comparison, Study

    path = cli.existing_file(Path(network), "network")
    name = cli.frontend_name(frontend, path, load_plugins())
    study = Study(
        network=path.absolute(),
        frontend=name,
        content=path.read_bytes(),
        input_bits=input_bits,
        input_signed=input_signed,
        objective=objective,
        settings=cli.option_texts(settings),
        budgets=cli.given_budgets(l1, l2, l3),
        least=least,
    )
    points = _points([targets] if isinstance(targets, str) else targets, vary or {}, study)
    shown = progress if len(points) > 1 else False
    with cli.shown_progress(shown) as told:

        def advance(done: int, total: int) -> None:
            if told is not None:
                told("plan", done, total)

        outcomes = _run(study, points, advance, processes, dask)
    return ComparedPlans(Comparison(cli.network_name(path), name, outcomes).to_json())


def _row(column: Mapping[str, Any]) -> dict[str, Any]:
    totals = column["totals"] or {}
    names = ("cycles", "macs_per_cycle", "latency_ms", "energy_mj")
    return {
        "target": column["target"],
        **column["variation"],
        **{key: column[key] for key in ("supported", "fits", "deployable", "reason")},
        **{key: totals.get(key) for key in names},
        **{f"{level}_bytes": use["used"] for level, use in column["memory"].items()},
    }


def _points(
    names: Sequence[str], vary: Mapping[str, Sequence[object]], study: Study
) -> tuple[Point, ...]:
    from dory_report.comparison.points import grid

    targets = _distinct("--targets", names)
    for setting in study.settings:
        target, dot, _ = setting.rpartition(".")
        if dot and target not in targets:
            raise UsageError(
                f"--set {setting} is for {target}, which is not compared",
                f"add it to --targets, or leave the setting out; compared are {', '.join(targets)}",
            )
    varied: dict[str, tuple[str, ...]] = {}
    for name, values in vary.items():
        fixed = name in study.settings or cli.BUDGET_NAMES.get(name) in study.budgets
        if fixed:
            raise UsageError(f"{name} varies and also has a fixed value", "leave one of them out")
        texts = [cli.option_texts({name: value})[name] for value in values]
        found = _distinct(f"--vary {name}", texts)
        if name in cli.BUDGET_NAMES:
            found = tuple(str(_size(name, value)) for value in found)
        varied[name] = found
    return grid(targets, varied)


def _size(name: str, text: str) -> int:
    try:
        return cli.size_in_bytes(text)
    except UsageError as error:
        raise UsageError(f"--vary {name}: {error.message}", error.hint) from error


def _distinct(option: str, values: Sequence[str]) -> tuple[str, ...]:
    if not values or not all(values):
        listed = ",".join(values)
        raise UsageError(
            f"{option} takes values separated by commas, not {listed!r}", "give at least one"
        )
    double = [value for value in values if values.count(value) > 1]
    if double:
        raise UsageError(f"{option} names {double[0]} twice", "name each of them once")
    return tuple(values)


def _run(
    study: Study,
    points: tuple[Point, ...],
    advance: Advance,
    processes: int | None,
    dask: str | None,
) -> tuple[Outcome, ...]:
    from dory_report.comparison import executors

    if dask is not None:
        if (processes or 1) > 1:
            raise UsageError("--dask and --processes exclude each other", "leave one of them out")
        return executors.run_dask(study, points, advance, dask)
    if processes is None:
        processes = len(os.sched_getaffinity(0)) if len(points) >= _WORTH_PROCESSES else 1
    if processes == 1:
        return executors.run_here(study, points, advance)
    return executors.run_processes(study, points, advance, processes)
