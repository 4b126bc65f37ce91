"""``dory compare``: one network on several targets and sizes, side by side; nothing is written."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dory_core.api import DoesNotFit, NotSupported, UsageError
from dory_core.tools import cli, quoting
from dory_report.options import Html, ImageFormat, Images

if TYPE_CHECKING:
    from dory_report.comparison.executors import Advance
    from dory_report.comparison.points import Outcome, Point, Study

#: Fewer points than this are planned sooner than processes start.
_WORTH_PROCESSES = 4


_Targets = Annotated[
    str,
    typer.Option(
        "--targets",
        metavar="A,B",
        help="The chips, separated by commas.",
        autocompletion=cli.list_of_targets,
    ),
]
_Vary = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="KEY=A,B",
        help="Values of l1, l2, l3 or of an option of the target; every combination of all "
        "--vary is planned.",
    ),
]
_Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="[TARGET.]KEY=VALUE",
        help="An option of the targets, or of one of them; may be repeated.",
    ),
]
_Objective = Annotated[cli.Objective, typer.Option("--objective", help="What is made best.")]
_Least = Annotated[
    bool,
    typer.Option(
        "--least",
        help="Also plan with ever fewer bytes of L2, and draw cycles over bytes in --html.",
    ),
]
_Processes = Annotated[
    int | None,
    typer.Option("--processes", metavar="N", min=1, help="Processes; default: all cores."),
]
_Dask = Annotated[
    str | None,
    typer.Option("--dask", metavar="ADDRESS", help="Plan on the cluster of this scheduler."),
]
_Markdown = Annotated[
    Path | None,
    typer.Option("--markdown", metavar="FILE", help="Also write the table as Markdown."),
]


def compare(
    network: cli.Network,
    targets: _Targets,
    frontend: cli.Frontend = None,
    vary: _Vary = None,
    input_bits: cli.InputBits = 8,
    input_signed: cli.InputSigned = False,
    l1: cli.L1 = None,
    l2: cli.L2 = None,
    l3: cli.L3 = None,
    set_: _Set = None,
    objective: _Objective = cli.Objective.heuristic,
    least: _Least = False,
    processes: _Processes = None,
    dask: _Dask = None,
    html: Html = None,
    markdown: _Markdown = None,
    images: Images = None,
    image_format: ImageFormat = "svg",
    json: cli.Json = False,
    verbose: cli.Verbose = 0,
    quiet: cli.Quiet = False,
    debug: cli.Debug = False,
) -> None:
    """Compare targets, memory sizes and options for one network."""
    cli.existing_file(network, "network")
    from dory_core.tools import load_plugins
    from dory_report.comparison.points import Comparison, Study

    frontend = cli.frontend_name(frontend, network, load_plugins())
    study = Study(
        network=network.absolute(),
        frontend=frontend,
        content=network.read_bytes(),
        input_bits=input_bits,
        input_signed=input_signed,
        objective=objective.value,
        settings=cli.target_settings(set_, None),
        budgets=cli.given_budgets(l1, l2, l3),
        least=least,
    )
    points = _points(targets, vary or [], study)
    with cli.progress_bar(enabled=not json and len(points) > 1) as progress:

        def advance(done: int, total: int) -> None:
            if progress is not None:
                progress("plan", done, total)

        outcomes = _run(study, points, advance, processes, dask)
    document = Comparison(cli.network_name(network), frontend, outcomes).to_json()
    _write_files(document, html, markdown, images, image_format)
    if json:
        cli.print_json(document)
    elif cli.settings.verbosity >= 0:
        from dory_report.comparison.tables import print_comparison

        print_comparison(document, cli.console())
    raise typer.Exit(_status(outcomes))


def _write_files(
    document: dict[str, Any],
    html: Path | None,
    markdown: Path | None,
    images: Path | None,
    image_format: str,
) -> None:
    """Write the forms of a comparison that the user asked for."""
    if html is not None:
        from dory_report.comparison.page import compare_page

        cli.write_file(html, compare_page(document).encode())
    if markdown is not None:
        from dory_report.comparison.markdown import comparison_markdown

        cli.write_file(markdown, comparison_markdown(document, _command()).encode())
    if images is not None:
        from dory_report.comparison.page import compare_figures
        from dory_report.drawing import write_images

        write_images(images, image_format, compare_figures(document))


def _command() -> str:
    """Return the command line, with names of files instead of paths that hold on this machine."""
    words = (word.rpartition("/")[2] if word.startswith("/") else word for word in sys.argv[1:])
    return quoting.shell("dory", *words)


def _points(targets: str, vary: list[str], study: Study) -> tuple[Point, ...]:
    from dory_report.comparison.points import grid

    names = _values("--targets", targets)
    for setting in study.settings:
        target, dot, _ = setting.rpartition(".")
        if dot and target not in names:
            raise UsageError(
                f"--set {setting} is for {target}, which is not compared",
                f"add it to --targets, or leave the setting out; compared are {', '.join(names)}",
            )
    varied: dict[str, tuple[str, ...]] = {}
    for text in vary:
        name, separator, values = text.partition("=")
        if not separator or not name:
            raise UsageError(
                f"--vary takes KEY=A,B, not {text!r}",
                "KEY is l1, l2, l3 or an option of the target; `dory targets` lists them",
            )
        if name in varied:
            raise UsageError(f"--vary {name} is given twice", "name all its values in one --vary")
        fixed = name in study.settings or cli.BUDGET_NAMES.get(name) in study.budgets
        if fixed:
            raise UsageError(f"{name} varies and also has a fixed value", "leave one of them out")
        found = _values(f"--vary {name}", values)
        if name in cli.BUDGET_NAMES:
            found = tuple(str(_size(name, value)) for value in found)
        varied[name] = found
    return grid(names, varied)


def _size(name: str, text: str) -> int:
    try:
        return cli.byte_size(text)
    except typer.BadParameter as error:
        raise typer.BadParameter(error.message, param_hint=f"'--vary {name}'") from error


def _values(option: str, text: str) -> tuple[str, ...]:
    values = tuple(value.strip() for value in text.split(","))
    if not all(values):
        raise UsageError(
            f"{option} takes values separated by commas, not {text!r}", "give at least one"
        )
    double = [value for value in values if values.count(value) > 1]
    if double:
        raise UsageError(f"{option} names {double[0]} twice", "name each of them once")
    return values


def _run(
    study: Study,
    points: tuple[Point, ...],
    advance: Advance,
    processes: int | None,
    dask: str | None,
) -> tuple[Outcome, ...]:
    from dory_report.comparison import executors

    if dask is not None:
        if processes is not None:
            raise UsageError("--dask and --processes exclude each other", "leave one of them out")
        return executors.run_dask(study, points, advance, dask)
    if processes is None:
        processes = len(os.sched_getaffinity(0)) if len(points) >= _WORTH_PROCESSES else 1
    if processes == 1:
        return executors.run_here(study, points, advance)
    return executors.run_processes(study, points, advance, processes)


def _status(outcomes: tuple[Outcome, ...]) -> int:
    """Return 0 when the network fits at any point, else the status of the nearest result."""
    if any(outcome.fits for outcome in outcomes):
        return 0
    if any(outcome.supported for outcome in outcomes):
        return DoesNotFit.exit_code
    return NotSupported.exit_code
