"""``dory quantize``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dory_core.api import NotSupported, UsageError
from dory_core.tools import cli

if TYPE_CHECKING:
    from dory_core.api import Graph
    from dory_qdq.quantize.choices import Choices

_METHODS = ("minmax", "entropy", "percentile")
_TYPES = ("uint8", "int8")


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


def quantize(
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
    from dory_qdq import runtime

    cli.existing_file(model, "network")
    cli.existing_file(calibration, "calibration")
    written = output or model.with_name(f"{model.stem}_int8.onnx")
    if written.resolve() == model.resolve():
        raise UsageError(f"{written} is the float network", "give another --output")
    chosen = _choices(target, per_channel, activations, symmetric)
    if method not in _METHODS:
        raise UsageError(f"unknown method {method!r}", f"one of: {', '.join(_METHODS)}")
    runtime.need_onnxruntime()
    document, data = _quantised(model, calibration, chosen, method)
    cli.write_file(written, data)
    document = {"written": str(written), "target": target, **document}
    if json:
        cli.print_json(document)
    elif cli.settings.verbosity >= 0:
        from dory_qdq.quantize.report import print_report

        print_report(document, cli.console())


def _choices(
    target: str | None,
    per_channel: bool | None,
    activations: str | None,
    symmetric: bool | None,
) -> Choices:
    from dory_qdq.quantize.choices import choices_for

    if target is not None:
        from dory_core.tools import load_plugins

        load_plugins().target(target)  # raises UsageError for an unknown one
    if activations not in (None, *_TYPES):
        raise UsageError(f"unknown type {activations!r}", f"one of: {', '.join(_TYPES)}")
    given = {"per_channel": per_channel, "activations": activations, "symmetric": symmetric}
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    chosen = choices_for(target)
    return replace(chosen, **changed, reason="as asked") if changed else chosen


def _quantised(
    model: Path, calibration: Path, chosen: Choices, method: str
) -> tuple[dict[str, Any], bytes]:
    """Return the report and the bytes of the quantised network; writes nothing."""
    from dory_qdq.quantize.preparation import prepare
    from dory_qdq.quantize.quality import accuracy_of, left_in_float, noise_of_layers
    from dory_qdq.quantize.quantiser import quantise
    from dory_qdq.quantize.report import document_of
    from dory_qdq.quantize.samples import read_samples

    ready = prepare(model)
    samples = read_samples(calibration, ready.inputs)
    quantised = quantise(ready, samples, chosen, method)
    data: bytes = quantised.SerializeToString()
    graph = _imported(model, data)
    document = document_of(
        chosen,
        method,
        samples,
        graph,
        noise_of_layers(ready, quantised, samples),
        accuracy_of(ready, quantised, samples),
        left_in_float(quantised),
    )
    return document, data


def _imported(model: Path, data: bytes) -> Graph:
    """Return the network as the frontend reads it; raises NotSupported when it does not."""
    import tempfile

    from dory_core.importing import FrontendOptions
    from dory_qdq.importer import parse

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{model.stem}_int8.onnx"
        path.write_bytes(data)
        try:
            return parse(path, FrontendOptions())
        except NotSupported as error:
            raise NotSupported(
                f"the quantised network cannot be computed exactly: {error.message}",
                "replace this operator in the float network, or end the network before it",
            ) from error
