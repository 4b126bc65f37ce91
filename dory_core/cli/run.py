"""``dory run``: run an application, by default in the host simulation, against its golden."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dory_core.cli import completion
from dory_core.cli.common import (
    Debug,
    InputLayout,
    Json,
    Quiet,
    Verbose,
    print_json,
    report_error,
    settings,
)
from dory_core.errors import VerificationFailed

_MOST_SEED = (1 << 64) - 1


class Dma(StrEnum):
    """When the simulated DMA moves the data of a transfer."""

    early = "early"
    late = "late"
    random = "random"


Application = Annotated[Path, typer.Argument(metavar="DIR", help="An application made by dory.")]
_Input = Annotated[
    list[Path] | None,
    typer.Option(
        "--input",
        metavar="FILE",
        help="Run this input, or a batch (N, H, W, C), and tell what the network answers: .npy,"
        " .npz with an array per input, .bin, .txt or a picture; may be repeated: state goes from"
        " one to the next.",
    ),
]
_InputReals = Annotated[
    bool,
    typer.Option(
        "--input-reals",
        help="Floats of --input are real numbers: scale and zero point of the input quantise them.",
    ),
]
_Golden = Annotated[
    list[Path] | None,
    typer.Option("--golden", metavar="PATH", help="Compare with this golden; may be repeated."),
]
_Dump = Annotated[
    Path | None,
    typer.Option("--dump", metavar="DIR", help="Write every layer's output as layer_NN.npy."),
]
_Dma = Annotated[
    Dma | None,
    typer.Option(
        "--dma",
        help="When simulated transfers happen: start, wait, between; default: all of them "
        "where that is quick, else early.",
    ),
]
_Seed = Annotated[
    int,
    typer.Option("--seed", metavar="N", min=0, max=_MOST_SEED, help="Seed of --dma random."),
]
_Repeat = Annotated[
    int, typer.Option("--repeat", metavar="N", min=1, help="Executions of each input.")
]
_Sanitize = Annotated[
    str | None,
    typer.Option(
        "--sanitize", metavar="LIST", help="address,undefined or thread, of the C compiler."
    ),
]
RunnerName = Annotated[
    str | None,
    typer.Option(
        "--runner",
        metavar="NAME",
        help="Where to run; default: what the target prefers, else host, the simulation.",
        autocompletion=completion.runner_names,
    ),
]


def run(
    app: Application,
    input_: _Input = None,
    input_layout: InputLayout = None,
    input_reals: _InputReals = False,
    golden: _Golden = None,
    dump: _Dump = None,
    dma: _Dma = None,
    seed: _Seed = 1,
    repeat: _Repeat = 1,
    sanitize: _Sanitize = None,
    runner: RunnerName = None,
    json: Json = False,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run an application and compare every layer with the golden."""
    from dory_core.cli import python as dory

    done = dory.run(
        app,
        inputs=input_ or (),
        input_layout=input_layout or "",
        input_reals=input_reals,
        golden=golden or (),
        dump=dump,
        dma=dma.value if dma is not None else None,
        seed=seed,
        repeat=repeat,
        sanitize=sanitize,
        runner=runner,
        progress=False if json else None,
    )
    document = done.to_json()
    if json:
        print_json(document)
    elif settings.verbosity >= 0:
        done.report(details=settings.verbosity > 0)
    elif not document["exact"]:
        from dory_core.cli.tables.run import first_mismatch

        report_error(VerificationFailed(first_mismatch(document["runs"])))
    if not document["exact"]:
        raise typer.Exit(VerificationFailed.exit_code)
