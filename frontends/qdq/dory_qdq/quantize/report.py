"""What ``dory quantize`` says: a document, and its text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from dory_core.tools import cli
from dory_qdq.quantize.choices import Choices
from dory_qdq.quantize.quality import Accuracy, LayerNoise, LeftInFloat
from dory_qdq.quantize.samples import Samples

if TYPE_CHECKING:
    from rich.console import Console

    from dory_core.api import Graph

_LOW_DB = 10.0
#: Networks read numbers of another size than such samples.
_FAR = 1e4


def document_of(
    chosen: Choices,
    method: str,
    samples: Samples,
    graph: Graph,
    noise: Sequence[LayerNoise],
    accuracy: Accuracy | None,
    in_float: Sequence[LeftInFloat],
) -> dict[str, Any]:
    """Return the document of ``dory quantize --json``; an infinite ratio is null."""
    return {
        "choices": {
            "activations": chosen.activations,
            "per_channel": chosen.per_channel,
            "symmetric": chosen.symmetric,
            "method": method,
            "reason": chosen.reason,
        },
        "samples": len(samples),
        "inputs": [
            {"name": name, "range": [float(values.min()), float(values.max())]}
            for name, values in samples.inputs.items()
        ],
        "imported_layers": len(graph.ops),
        "notes": [*_far(samples), *graph.notes],
        "layers": [
            {
                "node": one.node,
                "op": one.op,
                "tensor": one.tensor,
                "snr_db": round(one.snr_db, 2) if isfinite(one.snr_db) else None,
            }
            for one in noise
        ],
        "accuracy": None
        if accuracy is None
        else {"samples": accuracy.samples, "float": accuracy.float32, "int8": accuracy.int8},
        "left_in_float": [
            {"node": one.node, "op": one.op, "reason": one.reason} for one in in_float
        ],
    }


def _far(samples: Samples) -> Iterator[str]:
    """Yield a warning for each input whose samples are so large that they are not scaled."""
    for name, values in samples.inputs.items():
        lo, hi = float(values.min()), float(values.max())
        if max(-lo, hi) > _FAR:
            yield (
                f"samples of '{name}' reach from {lo:.4g} to {hi:.4g}: calibrate with inputs scaled"
                " as in training, the scales of the network come from them"
            )


def print_report(document: Mapping[str, Any], out: Console) -> None:
    """Print the document for a person."""
    chosen = document["choices"]
    scales = "a scale for each channel" if chosen["per_channel"] else "one scale for each tensor"
    zero = ", symmetric" if chosen["symmetric"] else ""
    lines = [
        f"{document['samples']} samples, {chosen['method']};"
        f" activations {chosen['activations']}{zero}, weights int8, {scales}: {chosen['reason']}"
    ]
    table = cli.new_table("layer", "op", "SNR")
    for layer in document["layers"]:
        ratio = "exact" if layer["snr_db"] is None else f"{layer['snr_db']:.1f} dB"
        table.add_row(layer["node"], layer["op"], ratio)
    out.print(lines[0], markup=False)
    out.print(table)
    low = [n["node"] for n in document["layers"] if (n["snr_db"] or _LOW_DB) < _LOW_DB]
    if low:
        out.print(f"below {_LOW_DB:.0f} dB: {', '.join(low)}: more samples may help", markup=False)
    for one in document["left_in_float"]:
        out.print(f"in float: {one['op']} '{one['node']}': {one['reason']}", markup=False)
    if document["accuracy"]:
        shares = document["accuracy"]
        out.print(
            f"accuracy on these {shares['samples']} samples: float {shares['float']:.1%},"
            f" int8 {shares['int8']:.1%}",
            markup=False,
        )
    for note in document["notes"]:
        out.print(f"note: {note}", markup=False)
    out.print(
        f"written: {document['written']} ({document['imported_layers']} layers for dory)",
        markup=False,
    )
