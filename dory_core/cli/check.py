"""``dory check``: does a network import, and does it fit; nothing is written."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dory_core.cli import completion
from dory_core.cli.common import Debug, Json, Quiet, Verbose, print_json
from dory_core.cli.common import settings as cli_settings
from dory_core.cli.compile import (
    L1,
    L2,
    L3,
    Frontend,
    Golden,
    InputBits,
    InputRows,
    InputSigned,
    Kernels,
    L2Reserve,
    Network,
    OutputRows,
    Set,
    target_settings,
)
from dory_core.cli.requests import row_settings
from dory_core.errors import DoesNotFit, NotSupported, UsageError

_Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        metavar="NAME",
        help="Also check whether it fits this chip.",
        autocompletion=completion.target_names,
    ),
]
_CompareDesktop = Annotated[
    bool,
    typer.Option(
        "--compare-desktop",
        help="Run the interpreters for desktop computers that are installed, and tell in which "
        "operators their values differ from the chip's, and why.",
    ),
]
_Least = Annotated[
    bool,
    typer.Option(
        "--least",
        help="Print plans from the fastest to the one with the fewest bytes of L2, and what would "
        "make the network fit --l2.",
    ),
]


def check(
    network: Network,
    frontend: Frontend = None,
    target: _Target = None,
    golden: Golden = None,
    input_bits: InputBits = 8,
    input_signed: InputSigned = False,
    l1: L1 = None,
    l2: L2 = None,
    l3: L3 = None,
    l2_reserve: L2Reserve = None,
    set_: Set = None,
    kernels: Kernels = None,
    input_rows: InputRows = False,
    output_rows: OutputRows = False,
    least: _Least = False,
    compare_desktop: _CompareDesktop = False,
    json: Json = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Tell whether a network is supported and fits, layer by layer."""
    from dory_core.cli import python as dory

    settings = target_settings(set_, kernels) | row_settings(input_rows, output_rows)
    if least:
        if not target or golden or compare_desktop:
            raise UsageError(
                "--least plans a network for a target, and neither runs nor compares it",
                "name the target with --target NAME, and leave --golden and --compare-desktop out",
            )
        front = dory.least_ram(
            network,
            target,
            frontend=frontend,
            input_bits=input_bits,
            input_signed=input_signed,
            l1=l1,
            l2=l2,
            l3=l3,
            l2_reserve=l2_reserve or 0,
            settings=settings,
        )
        if json:
            print_json(front.to_json())
        elif cli_settings.verbosity >= 0:
            front.report()
        raise typer.Exit(0 if front.fits else DoesNotFit.exit_code)
    report = dory.check(
        network,
        target or "",
        frontend=frontend,
        golden=golden or (),
        input_bits=input_bits,
        input_signed=input_signed,
        l1=l1,
        l2=l2,
        l3=l3,
        l2_reserve=l2_reserve or 0,
        settings=settings,
        compare_desktop=compare_desktop,
    )
    document: dict[str, Any] = report.to_json()
    if json:
        print_json(document)
    elif cli_settings.verbosity >= 0:
        report.report(details=cli_settings.verbosity)
    raise typer.Exit(_status(document))


def _status(document: dict[str, Any]) -> int:
    if not document["supported"]:
        return NotSupported.exit_code
    return DoesNotFit.exit_code if document.get("fits") is False else 0
