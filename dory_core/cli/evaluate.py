"""``dory evaluate``: the accuracy of an application on labelled samples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dory_core.cli.common import Debug, InputLayout, Json, Quiet, print_json, settings
from dory_core.cli.run import Application, Dma, RunnerName
from dory_core.errors import VerificationFailed

_Samples = Annotated[
    Path,
    typer.Argument(
        metavar="SAMPLES",
        help="An .npz with samples (N, H, W, C) and 'labels', their classes; or an .npy of samples."
        " Floats are real numbers where the network's input has a scale.",
    ),
]
_Labels = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help="An .npy with the class of each sample."),
]
_Dma = Annotated[Dma, typer.Option("--dma", help="When simulated transfers happen.")]


def evaluate(
    app: Application,
    samples: _Samples,
    labels: _Labels = None,
    input_layout: InputLayout = None,
    dma: _Dma = Dma.early,
    runner: RunnerName = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run an application on labelled samples and tell its accuracy."""
    from dory_core.cli import python as dory

    found = dory.evaluate(
        app,
        samples,
        labels,
        input_layout=input_layout or "",
        dma=dma.value,
        runner=runner,
        progress=False if json else None,
    )
    if json:
        print_json(found.to_json())
    elif settings.verbosity >= 0:
        found.report()
    if not found.exact:
        raise typer.Exit(VerificationFailed.exit_code)
