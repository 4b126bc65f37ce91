"""What a network answers: the values of its outputs, as integers and as real numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.errors import UsageError
from dory_core.ir import Tensor
from dory_core.ir.channels import NOT_COMPUTED
from dory_core.ir.reals import dequantise
from dory_core.ir.tensor import storage_for
from dory_core.simulate.result import LayerOutput, Run, RunResult

_TOP = 3  # classes in the text of an answer


def outputs_of(result: RunResult) -> dict[str, npt.NDArray[Any]]:
    """Return the network's outputs by name, integers of the file of shape (N, H, W, C).

    N counts the inferences. Raises UsageError for values that the runner does not report.
    """
    return {
        layer.tensor.name: _narrowed(layer.tensor, _stacked(result, layer))
        for layer in result.outputs
    }


def reals_of(result: RunResult) -> dict[str, npt.NDArray[np.float32]]:
    """Return the network's outputs by name as real numbers, shape (N, H, W, C).

    Raises: UsageError for an output without scale, and as :func:`outputs_of`.
    """
    return {
        layer.tensor.name: np.stack([_real(layer.tensor, one) for one in _stacked(result, layer)])
        for layer in result.outputs
    }


def values_of(result: RunResult) -> dict[int, npt.NDArray[Any]]:
    """Return the kept values of layers by index, shape (N, H, W, C).

    Channels that nothing computes are masked. A layer without values of every inference is missing.
    """
    kept = [index for index in result.runs[0].values if all(index in r.values for r in result.runs)]
    found: dict[int, npt.NDArray[Any]] = {}
    for index in kept:
        values = np.stack([run.values[index] for run in result.runs])
        absent = values == NOT_COMPUTED
        found[index] = np.ma.MaskedArray(values, absent) if absent.any() else values
    return found


def answers(result: RunResult) -> Iterator[str]:
    """Yield a sentence for each output of each inference whose values are known."""
    for run in result.runs:
        for layer in result.outputs:
            if layer.index in run.values:
                yield f"{run.input}: output '{layer.tensor.name}' {_answer(run, layer)}"


def _answer(run: Run, layer: LayerOutput) -> str:
    tensor, values = layer.tensor, run.values[layer.index]
    shown = _real(tensor, values) if tensor.has_scale else values
    height, width, channels = shown.shape
    if height * width * channels == 1:
        return f"is {_number(shown[0, 0, 0])}"
    if height * width == 1:
        order = np.argsort(-shown[0, 0], kind="stable")[:_TOP]
        return ", ".join(f"class {n}: {_number(shown[0, 0, n])}" for n in order)
    low, high = _number(shown.min()), _number(shown.max())
    shape = f"H x W x C = {height} x {width} x {channels}"
    return f"of {shape} reaches from {low} to {high}; --dump DIR writes it"


def _number(value: Any) -> str:
    return f"{float(value):.4g}" if isinstance(value, np.floating) else str(int(value))


def _real(tensor: Tensor, values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return values of the file, shape (H, W, C), as real numbers."""
    if not tensor.has_scale:
        raise UsageError(
            f"the file of the network gives no scale for output '{tensor.name}'",
            "read the integers (`outputs`), and scale them as the network was trained",
        )
    return dequantise(tensor, values.transpose(2, 0, 1)).transpose(1, 2, 0)


def _stacked(result: RunResult, layer: LayerOutput) -> npt.NDArray[Any]:
    known = [run.values[layer.index] for run in result.runs if layer.index in run.values]
    if len(known) < len(result.runs):
        raise UsageError(
            f"runner {result.runner} reports no values of layer {layer.index} '{layer.name}',"
            " which differs from what is expected",
            "run the application with the runner host",
        )
    return np.stack(known)


def _narrowed(tensor: Tensor, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return values of the file in the smallest type of numpy that holds them and their range."""
    low, high = tensor.lo - tensor.offset, tensor.hi - tensor.offset
    bits, signed = storage_for(min(low, int(values.min())), max(high, int(values.max())))
    return values.astype(f"{'i' if signed else 'u'}{max(bits, 8) // 8}")
