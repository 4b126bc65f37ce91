"""``dory compile``, which is also what ``dory`` without a command does."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dory_core import quoting
from dory_core.cli import completion
from dory_core.cli.common import (
    Debug,
    InputLayout,
    Json,
    Quiet,
    Verbose,
    byte_size,
    console,
    key_values,
    print_json,
    settings,
)
from dory_core.cli.progress import progress_bar
from dory_core.errors import UsageError

if TYPE_CHECKING:
    from dory_core.cli.results import CompiledNetwork


class Objective(StrEnum):
    """What a plan makes best."""

    heuristic = "heuristic"
    latency = "latency"
    cycles = "cycles"
    ram = "ram"


Network = Annotated[Path, typer.Argument(metavar="NETWORK", help="The quantised network.")]
Target = Annotated[
    str,
    typer.Option(
        "--target",
        "-t",
        metavar="NAME",
        help="The chip; `dory targets` lists them.",
        autocompletion=completion.target_names,
    ),
]
Frontend = Annotated[
    str | None,
    typer.Option(
        "--frontend",
        "-f",
        metavar="NAME",
        help="The format of the file, if the file does not show it; `dory frontends` lists them.",
        autocompletion=completion.frontend_names,
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
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="An option of the target; may be repeated.",
        autocompletion=completion.target_options,
    ),
]
Kernels = Annotated[
    str | None,
    typer.Option(
        "--kernels",
        metavar="NAME",
        help="Same as --set kernels=NAME.",
        autocompletion=completion.kernels,
    ),
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
        help="Bytes of L2 that your program needs in addition to the network.",
    ),
]


def target_settings(pairs: list[str] | None, kernels: str | None) -> dict[str, str]:
    """Return the target options of ``--set`` and ``--kernels``. Raises UsageError."""
    values = key_values(pairs or [])
    if kernels is not None:
        if values.get("kernels", kernels) != kernels:
            raise UsageError(
                "--kernels and --set kernels= say different things", "leave one of them out"
            )
        values["kernels"] = kernels
    return values


_Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="DIR",
        help="The application's directory; default: ./NET_TARGET.",
    ),
]
_Layer = Annotated[
    int | None,
    typer.Option(
        "--layer", metavar="N", min=0, help="Emit only this layer, as a callable function."
    ),
]
_FloatIo = Annotated[
    bool,
    typer.Option(
        "--float-io",
        help="Add functions that convert float input and output; without it both are integers.",
    ),
]
_Objective = Annotated[
    Objective,
    typer.Option(
        "--objective",
        help="What is made best: cycles (the same as heuristic), latency (tiles by their cycles "
        "alone), or ram, the fewest bytes of L2.",
    ),
]
InputRows = Annotated[
    bool,
    typer.Option(
        "--input-rows",
        help="Inputs come by rows, as a camera delivers them; they are never whole in L2.",
    ),
]
OutputRows = Annotated[
    bool,
    typer.Option("--output-rows", help="Outputs go by rows; they are never whole in L2."),
]
_PlanOnly = Annotated[
    bool, typer.Option("--plan-only", help="Plan and report, write no application.")
]
_DumpStages = Annotated[
    Path | None,
    typer.Option(
        "--dump-stages",
        metavar="DIR",
        help="Write what each stage and pass gives.",
    ),
]
_Prefix = Annotated[
    str,
    typer.Option("--prefix", metavar="NAME", help="What all public names in C begin with."),
]
_NotDeployableOk = Annotated[
    bool,
    typer.Option(
        "--not-deployable-ok",
        help="Also write an application whose budgets are beyond the chip's memory.",
    ),
]


def compile_(
    network: Network,
    target: Target,
    frontend: Frontend = None,
    output: _Output = None,
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
    layer: _Layer = None,
    float_io: _FloatIo = False,
    input_rows: InputRows = False,
    output_rows: OutputRows = False,
    objective: _Objective = Objective.heuristic,
    plan_only: _PlanOnly = False,
    dump_stages: _DumpStages = None,
    prefix: _Prefix = "dory",
    not_deployable_ok: _NotDeployableOk = False,
    json: Json = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compile a network into a C application (the default command)."""
    from dory_core.cli import python as dory

    with progress_bar(enabled=not json) as progress:
        compiled = dory.compile(
            network,
            target,
            output=None if plan_only else output or Path(f"{network.stem}_{target}"),
            frontend=frontend,
            golden=golden or (),
            input=input_,
            input_layout=input_layout or "",
            input_bits=input_bits,
            input_signed=input_signed,
            l1=l1,
            l2=l2,
            l3=l3,
            l2_reserve=l2_reserve or 0,
            settings=target_settings(set_, kernels),
            objective=objective.value,
            layer=layer,
            prefix=prefix,
            float_io=float_io,
            input_rows=input_rows,
            output_rows=output_rows,
            not_deployable_ok=not_deployable_ok,
            dump_stages=dump_stages,
            progress=progress or False,
        )
    if json:
        print_json(compiled.plan)
    elif settings.verbosity >= 0:
        _show(compiled)


def _show(compiled: CompiledNetwork) -> None:
    compiled.report(details=settings.verbosity)
    out = console()
    if settings.verbosity > 0:
        out.print(f"passes: {', '.join(compiled.passes)}", markup=False)
    if compiled.golden is not None:
        from dory_core.cli.tables.golden import golden_lines

        names = {layer["index"]: layer["name"] for layer in compiled.plan["layers"]}
        for line in golden_lines(compiled.golden.to_json(), names):
            out.print(line, markup=False)
    if compiled.path is not None:
        how = quoting.shell("dory", "run", quoting.path(compiled.path))
        out.print(
            f"written: {quoting.visible(str(compiled.path))} (run it with: {how})", markup=False
        )
    else:
        out.print("plan only: no application was written", markup=False)
