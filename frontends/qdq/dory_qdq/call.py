"""An operator of the file while it is converted to layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from dory_onnx import Node

from dory_core.api import NotSupported, ops
from dory_qdq.network import Axes, Network, standard_axes
from dory_qdq.numerics import Quantisation, quantise
from dory_qdq.values import Constant, FloatInput, Place, QuantisedConstant, Real, Value

QUANTISE_HINT = "quantise the network entirely: `dory quantize` does that"
#: Of operators that read reals of the network's input.
FIRST_HINT = (
    f"{QUANTISE_HINT}; or let the file begin after it (onnx.utils.extract_model), and compute it in"
    " the application"
)


@dataclass(frozen=True, slots=True)
class Call:
    """One operator with its inputs, and what its result is quantised to.

    Attributes:
        y: None where nothing quantises the result.
        lo, hi: Bounds of activations after it, as reals.
        result: The value of the file that holds the result.
        turned: Onnxruntime computes with uint8 what the file has as int8.
        integer: Onnxruntime has an integer operator for it, rather than reals.
    """

    node: Node
    network: Network
    inputs: tuple[Value | None, ...]
    y: Quantisation | None
    result: str
    lo: float | None = None
    hi: float | None = None
    turned: bool = False
    integer: bool = True

    @property
    def shift(self) -> int:
        """What onnxruntime adds to stored values and zero points before it computes."""
        return 128 if self.turned else 0

    def error(self, reason: str, hint: str = "") -> NotSupported:
        """Return the refusal of this operator."""
        return NotSupported(f"{self.node.label}: {reason}", hint)

    @property
    def output(self) -> Quantisation:
        """What the result is quantised to; raises NotSupported when nothing does that."""
        if self.y is None:
            raise self.error(
                f"no QuantizeLinear rounds its result '{self.node.outputs[0]}', which has no scale",
                QUANTISE_HINT,
            )
        return self.y

    def attribute(self, name: str, default: Any) -> Any:
        """Return an attribute."""
        return self.node.attributes.get(name, default)

    def has(self, position: int) -> bool:
        """True when the operator has this input."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def real(self, position: int = 0) -> Real:
        """Return an input that is dequantised; raises NotSupported for others."""
        value = self.inputs[position] if position < len(self.inputs) else None
        if not isinstance(value, Real):
            raise self.unquantised(position)
        return value

    def unquantised(self, position: int) -> NotSupported:
        """Return the refusal of an input that has no scale."""
        name, value = self.node.input(position), self.inputs[position : position + 1]
        hint = FIRST_HINT if any(isinstance(one, FloatInput) for one in value) else QUANTISE_HINT
        what = f"its input '{name}' is not quantised" if name else f"input {position} is missing"
        return self.error(f"{what}: no DequantizeLinear gives it a scale", hint)

    def constant(self, position: int) -> npt.NDArray[Any]:
        """Return the content of a constant input; raises NotSupported for others."""
        value = self.inputs[position] if position < len(self.inputs) else None
        if isinstance(value, QuantisedConstant):
            return value.reals
        if not isinstance(value, Constant):
            raise self.error(
                f"input '{self.node.input(position)}' is no constant",
                "export the network with fixed shapes and parameters",
            )
        return value.values

    def integers(self, position: int, attribute: str = "") -> list[int] | None:
        """Return a list of integers, an attribute in old files and an input in new ones."""
        given = self.node.attributes.get(attribute)
        if given is None and self.has(position):
            given = self.constant(position)
        if given is None:
            return None
        values = np.reshape(given, -1)
        if values.size and values.dtype.kind not in "iu":
            raise self.error(f"input '{self.node.input(position)}' holds no integers")
        return [int(v) for v in values]

    def clip(self) -> tuple[int, int]:
        """Return the bounds of stored results: those of the type and of activations after."""
        y = self.output
        lo, hi = y.bounds
        if self.lo is not None:
            lo = max(lo, self._stored(self.lo))
        if self.hi is not None:
            hi = min(hi, self._stored(self.hi))
        return lo, max(lo, hi)

    def _stored(self, bound: float) -> int:
        y = self.output
        return int(quantise(np.float32([bound]), y.scale, y.zero_point, *y.bounds)[0])

    def tensor(self, place: Place, axes: Axes | None = None) -> tuple[str, Axes]:
        """Return the tensor of a value and how its dimensions lie in it.

        axes: how they must lie; otherwise as they do, or in the standard order.
        """
        found = axes or self.network.axes(place) or standard_axes(place.shape)
        if found is None:
            raise self.error(
                f"its input has the shape {list(place.shape)}; possible are one image (1, C, H, W)"
                " and (1, C)",
                "export the network with a fixed batch of 1",
            )
        try:
            return self.network.arranged(place, found), found
        except NotSupported as error:
            raise self.error(error.message, error.hint) from None

    def image(self, place: Place) -> str:
        """Return the tensor of a value of shape (1, C, H, W) or (1, C, W)."""
        return self.tensor(place, standard_axes(place.shape))[0]

    def emit(self, kind: type[ops.Operator], *inputs: str, **fields: Any) -> str:
        """Append a layer; returns its output."""
        return self.network.append(kind, self.node.title, inputs, self.result, self.y, **fields)
