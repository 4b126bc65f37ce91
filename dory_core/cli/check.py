"""``dory check``: does a network import, and does it fit; nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dory_core.cli.common import Debug, Json, Quiet, Verbose, console, existing_file, print_json
from dory_core.cli.common import settings as cli_settings
from dory_core.cli.compile import (
    L1,
    L2,
    L3,
    Frontend,
    InputBits,
    InputSigned,
    Kernels,
    L2Reserve,
    Network,
    Set,
    budgets,
    frontend_name,
    target_settings,
)
from dory_core.errors import DoesNotFit, NotSupported, UsageError

if TYPE_CHECKING:
    from dory_core.compiler import CompileOptions
    from dory_core.plugins import Plugins


def check(
    network: Network,
    frontend: Frontend = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", metavar="NAME", help="Check whether it fits this chip, too."
        ),
    ] = None,
    input_bits: InputBits = 8,
    input_signed: InputSigned = False,
    l1: L1 = None,
    l2: L2 = None,
    l3: L3 = None,
    l2_reserve: L2Reserve = None,
    set_: Set = None,
    kernels: Kernels = None,
    compare_desktop: Annotated[
        bool,
        typer.Option(
            "--compare-desktop",
            help="Run the interpreters for desktop computers that are installed, and tell in which "
            "operators their values differ from the chip's, and why.",
        ),
    ] = False,
    json: Json = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Tell whether a network is supported and fits, layer by layer."""
    existing_file(network, "network")
    if target is None and (set_ or kernels or budgets(l1, l2, l3) or l2_reserve):
        raise UsageError(
            "budgets and settings are those of a target, and none is named",
            "give --target NAME, too; `dory targets` lists them",
        )
    from dory_core.check import check_network
    from dory_core.compiler import CompileOptions
    from dory_core.plugins import load_plugins

    plugins = load_plugins()
    options = CompileOptions(
        network=network,
        target=target or "",
        frontend=frontend_name(frontend, network, plugins),
        input_bits=input_bits,
        input_signed=input_signed,
        budgets=budgets(l1, l2, l3),
        l2_reserve=l2_reserve or 0,
        settings=target_settings(set_, kernels),
    )
    document: dict[str, Any] = check_network(options, plugins).to_json()
    if compare_desktop and document["supported"]:
        document["desktop"] = _desktop(options, plugins)
    if json:
        print_json(document)
    elif cli_settings.verbosity >= 0:
        from dory_core.cli.tables.check import print_check

        out = console()
        print_check(document, out, details=cli_settings.verbosity > 0)
        if "desktop" in document:
            from dory_core.cli.tables.desktop import print_desktop

            print_desktop(document["desktop"], out, details=cli_settings.verbosity > 0)
    raise typer.Exit(_status(document))


def _desktop(options: CompileOptions, plugins: Plugins) -> dict[str, Any]:
    from dory_core.desktop import compare_desktop

    frontend = plugins.frontend(options.frontend)
    if frontend.desktop is None:
        raise UsageError(
            f"frontend {frontend.name} knows no desktop interpreter to compare with",
            "leave --compare-desktop out",
        )
    return compare_desktop(frontend.desktop(options.network)).to_json()


def _status(document: dict[str, Any]) -> int:
    if not document["supported"]:
        return NotSupported.exit_code
    return DoesNotFit.exit_code if document.get("fits") is False else 0
