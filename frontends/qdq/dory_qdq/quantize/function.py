"""``dory.quantize`` of Python, which ``dory quantize`` calls, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dory_core.api import NotSupported, UsageError
from dory_core.tools import cli

if TYPE_CHECKING:
    from rich.console import Console

    from dory_core.api import Graph
    from dory_qdq.quantize.choices import Choices

_METHODS = ("minmax", "entropy", "percentile")
_TYPES = ("uint8", "int8")


@dataclass(frozen=True, slots=True, repr=False)
class QuantizedNetwork:
    """An 8-bit network made of a float one.

    Attributes:
        document: The document of ``dory quantize --json``, which docs/json.md describes.
    """

    document: Mapping[str, Any]

    @property
    def path(self) -> Path:
        """File of the quantised network."""
        return Path(self.document["written"])

    @property
    def accuracy(self) -> Mapping[str, float] | None:
        """Accuracies on the samples of the float and the 8-bit network, None without labels."""
        found: Mapping[str, float] | None = self.document["accuracy"]
        return found

    @property
    def layers(self) -> tuple[Mapping[str, Any], ...]:
        """Signal to noise of each layer against float, in decibel; None when they are equal."""
        return tuple(self.document["layers"])

    def to_pandas(self) -> Any:
        """Return the layers as a DataFrame; raises ToolMissing without pandas."""
        return cli.data_frame(self.layers)

    def to_json(self) -> Mapping[str, Any]:
        """Return the document of ``dory quantize --json``."""
        return self.document

    def report(self) -> None:
        """Print the noise of each layer, what stayed in float, and accuracies."""
        self._print(cli.console())

    def __repr__(self) -> str:
        return f"<QuantizedNetwork {self.path}: {self.document['imported_layers']} layers>"

    def _repr_html_(self) -> str:
        return cli.html_page(self._print)

    def _print(self, out: Console) -> None:
        from dory_qdq.quantize.report import print_report

        print_report(self.document, out)


def quantize(
    model: str | Path,
    calibration: Any,
    *,
    output: str | Path | None = None,
    target: str | None = None,
    per_channel: bool | None = None,
    activations: str | None = None,
    symmetric: bool | None = None,
    method: str = "minmax",
) -> QuantizedNetwork:
    """Make an 8-bit QDQ network of a float ONNX one, with samples, and write it.

    Args:
        model: File of the float network.
        calibration: Samples (N, ...) by the name of the input, float32, or an .npz file with them;
            the array ``labels`` has their classes.
        output: File to write; None for FLOAT_int8.onnx next to the model.
        target: Name of the target that it shall suit.
        per_channel: A scale for each channel of weights; None for what the target likes.
        activations: ``uint8`` or ``int8``; None for what the target likes.
        symmetric: Zero points of activations in the middle; None for what the target likes.
        method: ``minmax``, ``entropy`` or ``percentile``.

    Raises:
        UsageError: For wrong names, files and samples.
        NotSupported: When the result cannot be computed exactly; nothing is written then.
        ToolMissing: Without onnxruntime.
    """
    from dory_qdq import runtime

    path = cli.existing_file(Path(model), "network")
    written = Path(output) if output is not None else path.with_name(f"{path.stem}_int8.onnx")
    if not isinstance(calibration, Mapping):
        calibration = cli.existing_file(Path(calibration), "calibration")
    if written.resolve() == path.resolve():
        raise UsageError(f"{written} is the float network", "give another --output")
    chosen = _choices(target, per_channel, activations, symmetric)
    if method not in _METHODS:
        raise UsageError(f"unknown method {method!r}", f"one of: {', '.join(_METHODS)}")
    runtime.need_onnxruntime()
    document, data = _quantised(path, calibration, chosen, method)
    cli.write_file(written, data)
    return QuantizedNetwork({"written": str(written), "target": target, **document})


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
    model: Path, calibration: Any, chosen: Choices, method: str
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
