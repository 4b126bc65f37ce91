"""``dory quantize``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dory_core.tools import cli

_Model = Annotated[Path, typer.Argument(metavar="FLOAT.ONNX", help="The float network.")]
_Calibration = Annotated[
    Path,
    typer.Option(
        "--calibration",
        metavar="FILE",
        help="An .npz with samples (N, ...) by the input's name; 'labels' holds classes.",
    ),
]
_Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Default: FLOAT_int8.onnx."),
]
_Target = Annotated[
    str | None, typer.Option("--target", "-t", metavar="NAME", help="Choose what suits it.")
]
_PerChannel = Annotated[
    bool | None,
    typer.Option("--per-channel/--per-tensor", help="Scales of weights; default: the target's."),
]
_Activations = Annotated[
    str | None,
    typer.Option("--activations", metavar="TYPE", help="uint8 or int8; default: the target's."),
]
_Symmetric = Annotated[
    bool | None,
    typer.Option(
        "--symmetric/--asymmetric", help="Zero points of activations; default: the target's."
    ),
]
_Method = Annotated[
    str, typer.Option("--method", metavar="NAME", help="minmax, entropy or percentile.")
]


def quantize_(
    model: _Model,
    calibration: _Calibration,
    output: _Output = None,
    target: _Target = None,
    per_channel: _PerChannel = None,
    activations: _Activations = None,
    symmetric: _Symmetric = None,
    method: _Method = "minmax",
    json: cli.Json = False,
    quiet: cli.Quiet = False,
    debug: cli.Debug = False,
) -> None:
    """Make an 8-bit QDQ network of a float ONNX one, with samples."""
    from dory_qdq.quantize.function import quantize

    done = quantize(
        model,
        calibration,
        output=output,
        target=target,
        per_channel=per_channel,
        activations=activations,
        symmetric=symmetric,
        method=method,
    )
    if json:
        cli.print_json(done.to_json())
    elif cli.settings.verbosity >= 0:
        done.report()
