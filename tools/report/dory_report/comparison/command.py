"""``dory compare``: one network on several targets and sizes, side by side; nothing is written."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dory_core.api import DoesNotFit, NotSupported, UsageError
from dory_core.tools import cli, quoting
from dory_report.options import Html, ImageFormat, Images

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


def compare_(
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
    from dory_report.comparison.function import compare

    compared = compare(
        network,
        _values(targets),
        vary=_varied(vary or []),
        frontend=frontend,
        input_bits=input_bits,
        input_signed=input_signed,
        l1=l1,
        l2=l2,
        l3=l3,
        settings=cli.target_settings(set_, None),
        objective=objective.value,
        least=least,
        processes=processes,
        dask=dask,
        progress=False if json else None,
    )
    document = dict(compared.to_json())
    _write_files(document, html, markdown, images, image_format)
    if json:
        cli.print_json(document)
    elif cli.settings.verbosity >= 0:
        compared.report()
    raise typer.Exit(_status(document["columns"]))


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
        from dory_report.page import MARK

        cli.write_file(html, compare_page(document).encode(), MARK)
    if markdown is not None:
        from dory_report.comparison.markdown import MARKDOWN_MARK, comparison_markdown

        text = comparison_markdown(document, _command())
        cli.write_file(markdown, text.encode(), MARKDOWN_MARK)
    if images is not None:
        from dory_report.comparison.page import compare_figures
        from dory_report.drawing import write_images

        write_images(images, image_format, compare_figures(document))


def _command() -> str:
    """Return the command line, with names of files instead of paths that hold on this machine."""
    words = (word.rpartition("/")[2] if word.startswith("/") else word for word in sys.argv[1:])
    return quoting.shell("dory", *words)


def _varied(texts: list[str]) -> dict[str, list[str]]:
    """Return the values of ``--vary KEY=A,B`` by their name. Raises UsageError."""
    varied: dict[str, list[str]] = {}
    for text in texts:
        name, separator, values = text.partition("=")
        if not separator or not name:
            raise UsageError(
                f"--vary takes KEY=A,B, not {text!r}",
                "KEY is l1, l2, l3 or an option of the target; `dory targets` lists them",
            )
        if name in varied:
            raise UsageError(f"--vary {name} is given twice", "name all its values in one --vary")
        varied[name] = _values(values)
    return varied


def _values(text: str) -> list[str]:
    return [value.strip() for value in text.split(",")]


def _status(columns: Sequence[Mapping[str, Any]]) -> int:
    """Return 0 when the network fits at any point, else the status of the nearest result."""
    if any(column["fits"] for column in columns):
        return 0
    if any(column["supported"] for column in columns):
        return DoesNotFit.exit_code
    return NotSupported.exit_code
