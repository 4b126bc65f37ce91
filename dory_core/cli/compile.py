"""``dory compile``, which is also what ``dory`` without a command does."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dory_core import quoting
from dory_core.cli.common import (
    Debug,
    InputLayout,
    Json,
    Quiet,
    Verbose,
    byte_size,
    console,
    existing_file,
    key_values,
    print_json,
    progress_bar,
    settings,
)
from dory_core.errors import UsageError, VerificationFailed

if TYPE_CHECKING:
    from dory_core.compiler import CompileOptions, CompileResult
    from dory_core.plugins import Plugins


class Objective(StrEnum):
    """What the tiler makes best."""

    heuristic = "heuristic"
    latency = "latency"


Network = Annotated[Path, typer.Argument(metavar="NETWORK", help="The quantised network.")]
Target = Annotated[
    str, typer.Option("--target", "-t", metavar="NAME", help="The chip; `dory targets` lists them.")
]
Frontend = Annotated[
    str | None,
    typer.Option(
        "--frontend",
        "-f",
        metavar="NAME",
        help="The format of the file, if the file does not show it; `dory frontends` lists them.",
    ),
]
Golden = Annotated[
    list[Path] | None,
    typer.Option(
        "--golden",
        metavar="PATH",
        help="golden.npz, or a folder with input.txt and out_layerN.txt: check the import layer by "
        "layer and embed as test vectors. May be repeated.",
    ),
]
Input = Annotated[
    Path | None, typer.Option("--input", metavar="FILE", help="An input of the network.")
]
InputBits = Annotated[
    int, typer.Option("--input-bits", metavar="N", min=1, max=16, help="Bits of the network input.")
]
InputSigned = Annotated[
    bool, typer.Option("--input-signed/--input-unsigned", help="Type of the network input.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="An option of the target; may be repeated."),
]
Kernels = Annotated[
    str | None, typer.Option("--kernels", metavar="NAME", help="Same as --set kernels=NAME.")
]
L1 = Annotated[
    int | None,
    typer.Option("--l1", parser=byte_size, metavar="BYTES", help="Bytes of L1 for the network."),
]
L2 = Annotated[
    int | None,
    typer.Option("--l2", parser=byte_size, metavar="BYTES", help="Bytes of L2 for the network."),
]
L3 = Annotated[
    int | None,
    typer.Option("--l3", parser=byte_size, metavar="BYTES", help="Bytes of L3 for the network."),
]

L2Reserve = Annotated[
    int | None,
    typer.Option(
        "--l2-reserve",
        parser=byte_size,
        metavar="BYTES",
        help="Bytes of L2 that your program needs beside the network.",
    ),
]


def budgets(l1: int | None, l2: int | None, l3: int | None) -> dict[int, int]:
    """Return the given budgets by level number."""
    return {level: size for level, size in enumerate((l1, l2, l3), start=1) if size is not None}


def frontend_name(frontend: str | None, path: Path, plugins: Plugins) -> str:
    """Return the frontend's name as given, or of the one that recognises the file.

    Raises: UsageError when none was given and not exactly one recognises it.
    """
    return frontend or plugins.frontend_for(path).name


def target_settings(pairs: list[str] | None, kernels: str | None) -> dict[str, str]:
    """Return the target options of ``--set`` and ``--kernels``. Raises UsageError."""
    values = key_values(pairs or [])
    if kernels is not None:
        if values.get("kernels", kernels) != kernels:
            raise UsageError("--kernels and --set kernels= say different things")
        values["kernels"] = kernels
    return values


def compile_(
    network: Network,
    target: Target,
    frontend: Frontend = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="The application's directory; default: ./NET_TARGET.",
        ),
    ] = None,
    golden: Golden = None,
    input_: Input = None,
    input_layout: InputLayout = None,
    input_bits: InputBits = 8,
    input_signed: InputSigned = False,
    l1: L1 = None,
    l2: L2 = None,
    l3: L3 = None,
    l2_reserve: L2Reserve = None,
    set_: Set = None,
    kernels: Kernels = None,
    layer: Annotated[
        int | None,
        typer.Option(
            "--layer", metavar="N", min=0, help="Emit this layer alone, as a callable function."
        ),
    ] = None,
    float_io: Annotated[
        bool,
        typer.Option(
            "--float-io",
            help="Add functions that convert float input and output; without it both are integers.",
        ),
    ] = False,
    objective: Annotated[
        Objective, typer.Option("--objective", help="What the tiler makes best.")
    ] = Objective.heuristic,
    plan_only: Annotated[
        bool, typer.Option("--plan-only", help="Plan and report, write no application.")
    ] = False,
    dump_stages: Annotated[
        Path | None,
        typer.Option(
            "--dump-stages",
            metavar="DIR",
            help="Write what each stage and pass gives.",
        ),
    ] = None,
    prefix: Annotated[
        str,
        typer.Option("--prefix", metavar="NAME", help="What all public names in C begin with."),
    ] = "dory",
    not_deployable_ok: Annotated[
        bool,
        typer.Option(
            "--not-deployable-ok",
            help="Also write an application whose budgets are beyond the chip's memory.",
        ),
    ] = False,
    json: Json = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compile a network into a C application (the default command)."""
    existing_file(network, "network")
    if input_ is not None:
        if golden:
            raise UsageError(
                "--golden brings its own input; --input would be ignored", "leave one of them out"
            )
        existing_file(input_, "input")
    from dory_core.compiler import CompileOptions, compile_network
    from dory_core.plugins import load_plugins

    plugins = load_plugins()
    options = CompileOptions(
        network=network,
        target=target,
        frontend=frontend_name(frontend, network, plugins),
        output=None if plan_only else output or Path(f"{network.stem}_{target}"),
        golden=tuple(golden or ()),
        input=input_,
        input_layout=input_layout or "",
        input_bits=input_bits,
        input_signed=input_signed,
        budgets=budgets(l1, l2, l3),
        settings=target_settings(set_, kernels),
        layer=layer,
        float_io=float_io,
        objective=objective.value,
        plan_only=plan_only,
        dump_stages=dump_stages,
        prefix=prefix,
        l2_reserve=l2_reserve or 0,
        deployable_only=not not_deployable_ok,
    )
    with progress_bar(enabled=not json) as progress:
        result = compile_network(options, plugins, progress)
    if json:
        print_json(result.plan.to_json())
    elif settings.verbosity >= 0:
        _show(result.plan.to_json(), options, result)
    if result.golden_exact is False:
        raise VerificationFailed("the imported network differs from the golden")


def _show(plan: dict[str, Any], options: CompileOptions, result: CompileResult) -> None:
    from dory_core.cli.tables.plan import print_plan

    out = console()
    print_plan(plan, out, details=settings.verbosity > 0)
    if settings.verbosity > 0:
        out.print(f"passes: {', '.join(result.passes)}", markup=False)
    if result.golden_exact:
        out.print(f"golden: all {len(plan['layers'])} layers are exact", markup=False)
    if result.output is not None:
        how = quoting.shell("dory", "run", quoting.path(result.output))
        out.print(
            f"written: {quoting.visible(str(result.output))} (run it with: {how})", markup=False
        )
    elif options.plan_only:
        out.print("plan only: no application was written", markup=False)
