"""How far a quantised model is from its float model: per tensor, in accuracy, what stayed float."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, log10
from typing import Any

import numpy as np

from dory_qdq.quantize.preparation import FloatModel
from dory_qdq.quantize.quantiser import quantised_operators
from dory_qdq.quantize.samples import Samples
from dory_qdq.runtime import quiet_session

_COMPARED = 32  # samples for the noise; more change it by fractions of a decibel
_SUFFIX = "_QuantizeLinear_Input"  # the quantiser renames what feeds a network output
_QUANTISERS = ("QuantizeLinear", "DequantizeLinear")
_MOVERS = ("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")


@dataclass(frozen=True, slots=True)
class LayerNoise:
    """Signal to noise of one activation. snr_db: infinite when all values are equal."""

    node: str
    op: str
    tensor: str
    snr_db: float


@dataclass(frozen=True, slots=True)
class LeftInFloat:
    """An operator that the quantiser left in float, and why."""

    node: str
    op: str
    reason: str


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Shares of samples whose largest output is their class."""

    samples: int
    float32: float
    int8: float


def noise_of_layers(model: FloatModel, quantised: Any, samples: Samples) -> tuple[LayerNoise, ...]:
    """Return the noise of every quantised activation, in the order of the float model."""
    stored = _dequantised(quantised)
    nodes = [node for node in model.proto.graph.node if node.output[0] in stored]
    names = [node.output[0] for node in nodes]
    exact = quiet_session(model.proto, "the float model", level="none", outputs=names)
    rounded = quiet_session(
        quantised, "the quantised model", level="none", outputs=[stored[name] for name in names]
    )
    signal, noise = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    for feed in samples.feeds(_COMPARED):
        expected = exact.run(names, feed)
        found = rounded.run([stored[name] for name in names], feed)
        for name, want, got in zip(names, expected, found, strict=True):
            signal[name] += float(np.square(want, dtype=np.float64).sum())
            noise[name] += float(np.square(np.subtract(want, got, dtype=np.float64)).sum())
    return tuple(
        LayerNoise(node.name or name, node.op_type, name, _decibels(signal[name], noise[name]))
        for node, name in zip(nodes, names, strict=True)
    )


def accuracy_of(model: FloatModel, quantised: Any, samples: Samples) -> Accuracy | None:
    """Return both accuracies where the samples have labels."""
    if samples.labels is None:
        return None
    right = [
        sum(
            int(np.argmax(session.run(None, feed)[0]) == label)
            for feed, label in zip(samples.feeds(), samples.labels, strict=True)
        )
        / len(samples)
        for session in (
            quiet_session(model.proto, "the float model"),
            quiet_session(quantised, "the quantised model"),
        )
    ]
    return Accuracy(len(samples), *right)


def left_in_float(quantised: Any) -> tuple[LeftInFloat, ...]:
    """Return the operators whose inputs or results are not stored in integers, and why.

    Those that only move the network's input in front of its QuantizeLinear are none.
    """
    known = set(quantised_operators())
    graph = quantised.graph
    makers = {output: node for node in graph.node for output in node.output}
    constants = {tensor.name for tensor in graph.initializer}
    readers: dict[str, list[Any]] = {}
    moved = {value.name for value in graph.input}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    found = []
    for node in graph.node:
        if node.op_type in (*_QUANTISERS, "Constant"):
            continue
        if node.op_type in _MOVERS and node.input[0] in moved:
            moved.update(node.output)
            continue
        reason = _reason(node, known, makers, constants, readers)
        if reason:
            found.append(LeftInFloat(node.name or node.output[0], node.op_type, reason))
    return tuple(found)


def _reason(
    node: Any,
    known: set[str],
    makers: Mapping[str, Any],
    constants: set[str],
    readers: Mapping[str, list[Any]],
) -> str:
    if node.op_type not in known:
        return f"onnxruntime's quantiser does not quantise {node.op_type}"
    for name in node.input:
        maker = makers.get(name)
        stored = maker is not None and maker.op_type in (*_QUANTISERS, "Constant")
        if name and name not in constants and not stored:
            return f"its input '{name}' has no scale"
    behind = readers.get(node.output[0], [])
    if any(reader.op_type != "QuantizeLinear" for reader in behind) or not behind:
        return f"its result '{node.output[0]}' has no scale"
    return ""


def _dequantised(quantised: Any) -> dict[str, str]:
    """Return the tensor of reals after each quantised one, by its name in the float model."""
    behind = {
        node.input[0]: node.output[0]
        for node in quantised.graph.node
        if node.op_type == "DequantizeLinear"
    }
    return {
        node.input[0].removesuffix(_SUFFIX): behind[node.output[0]]
        for node in quantised.graph.node
        if node.op_type == "QuantizeLinear" and node.output[0] in behind
    }


def _decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return inf
    return 10 * log10(signal / noise) if signal > 0 else -inf
