"""What all functions of CMSIS-NN have in common: files, weight blocks, calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dory_cmsis_nn.library import CmsisNn
from dory_cmsis_nn.parameters import (
    Parameters,
    find_native,
    output_bounds,
    turned,
    weights_of,
)
from dory_core.api import (
    Argument,
    FunctionCall,
    Kernel,
    Layer,
    Number,
    Operand,
    OutputFile,
    Rejection,
    Struct,
    Tile,
    WeightBlock,
    ceil_div,
    named,
    ops,
    reject_type,
    size,
)

BYTES = ("u8", "i8")


@dataclass(frozen=True)
class CmsisKernel(Kernel):
    """A function of CMSIS-NN.

    Attributes:
        library: Where its sources lie.
        function: Its name.
        native: True where the library is compiled as it is; else its requantisation is replaced.
    """

    library: CmsisNn
    function: ClassVar[str]
    native: ClassVar[bool] = True

    def symbol(self, layer: Layer) -> str:
        """Our call of the function."""
        return f"dory_{self.name}"

    def parameters(self, layer: Layer) -> Parameters | Rejection | None:
        """Return the parameters of weights, or why none are exact; None without weights."""
        return None

    def headers(self, layer: Layer) -> tuple[str, ...]:
        """The header of all calls."""
        return ("dory_cmsis_nn.h",)

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        """The library's files, untouched, and ours."""
        return self.library.application_files(self.function, self.name, self.native)

    def buffer_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the size that the library's own function states for its buffer."""
        return 0

    def copied_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of the copy of the input."""
        x = tile.c_in if isinstance(layer.op, ops.Linear) else tile.x_h * tile.x_w * tile.c_in
        return x if turned(layer.inputs[0]) else 0

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The library's buffer, and a copy of the input where bits are turned over."""
        return ceil_div(self.buffer_bytes(layer, tile) + self.copied_bytes(layer, tile), 8) * 8

    def reject_types(self, layer: Layer, output: tuple[str, ...] = BYTES) -> Rejection | None:
        """Return why types are not possible."""
        return reject_type(layer.inputs[0], "input", BYTES) or reject_type(
            layer.output, "output", output
        )

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters of each channel, then weights."""
        found = self.parameters(layer)
        if found is None or isinstance(found, Rejection):
            return 0
        channel = 4 * sum(p is not None for p in (found.mul, found.rest, found.bias))
        return ceil_div(tile.c_out * (channel + weights_of(layer)[0].size), 8) * 8

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """``mul``, ``add`` and ``bias`` of each channel, then ``weights`` as the library wants."""
        found = self.parameters(layer)
        if found is None or isinstance(found, Rejection):
            return None
        parts: dict[str, int] = {}
        data = b""
        for name, values in (("mul", found.mul), ("add", found.rest), ("bias", found.bias)):
            if values is not None:
                parts[name] = len(data)
                data += values[slice(*c_out)].astype("<i4").tobytes()
        parts["weights"] = len(data)
        data += self.arranged(weights_of(layer)[slice(*c_out)])
        return WeightBlock(data + bytes(-len(data) % 8), parts)

    def arranged(self, weights: npt.NDArray[Any]) -> bytes:
        """Return weights in the library's order: rows of outputs, taps, then channels.

        weights: (C, n) or (C, channels, kernel_h, kernel_w), C outputs of the tile.
        """
        rows = np.moveaxis(weights, 1, 3) if weights.ndim == 4 else weights
        return rows.astype(np.int8).tobytes()

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the sizes of the tile."""
        kind, y = layer.op, layer.output
        window = (
            kind.window if isinstance(kind, (ops.Conv, ops.MaxPool)) else ops.Window(kernel=(1, 1))
        )
        grouped = isinstance(kind, ops.Conv) and kind.groups > 1
        x_turned, y_turned = turned(layer.inputs[0]), turned(y)
        lo, hi = output_bounds(layer)
        found = self.parameters(layer)
        assert not isinstance(found, Rejection)
        known = Parameters(None, x_offset=128 * x_turned, y_offset=-128 * y_turned)
        values = found or known
        has = {
            name for name, part in (("mul", values.mul), ("bias", values.bias)) if part is not None
        }
        arguments: list[tuple[str, Argument]] = [
            *named("x", "y").items(),
            ("weights", Operand("weights") if found is not None else 0),
            ("mul", Operand("mul", "const int32_t *") if "mul" in has else 0),
            ("rest", Operand("add", "const int32_t *") if "mul" in has else 0),
            ("bias", Operand("bias", "const int32_t *") if "bias" in has else 0),
            ("scratch", Operand("scratch") if self.has_scratch(layer) else 0),
            ("buffer", self.buffer_size(layer)),
            *named("x_h", "x_w", "x_c", "y_h", "y_w", "y_c", "pad_top", "pad_left").items(),
            ("group_in", weights_of(layer).shape[1] if grouped else size("x_c")),
            ("kernel_h", window.kernel[0]),
            ("kernel_w", window.kernel[1]),
            ("stride_h", window.strides[0]),
            ("stride_w", window.strides[1]),
            ("dilation_h", window.dilations[0]),
            ("dilation_w", window.dilations[1]),
            ("x_turned", int(x_turned)),
            ("y_turned", int(y_turned)),
            ("x_offset", values.x_offset),
            ("y_offset", values.y_offset),
            ("lo", lo),
            ("hi", hi),
        ]
        struct = Struct(dict(arguments), "dory_cmsis_nn_t", literal=True)
        return FunctionCall(self.symbol(layer), {"arguments": struct})

    def buffer_size(self, layer: Layer) -> Number:
        """Return the size of the library's buffer."""
        return 0

    def has_scratch(self, layer: Layer) -> bool:
        """Return True when the call has scratch memory."""
        buffer = self.buffer_size(layer)
        return not isinstance(buffer, int) or buffer > 0 or turned(layer.inputs[0])


class WeightedCmsisKernel(CmsisKernel):
    """A kernel with weights."""

    def reject(self, layer: Layer) -> Rejection | None:
        """Return why types, weights or requantisation are not possible."""
        weights = weights_of(layer)
        if weights.min() < -128 or weights.max() > 127:
            return Rejection("its weights exceed 8 bits")
        rejection = self.reject_types(layer)
        if rejection is not None:
            return rejection
        found = self.parameters(layer)
        return found if isinstance(found, Rejection) else None

    def parameters(self, layer: Layer) -> Parameters | Rejection | None:
        """Those of the library's own requantisation."""
        return find_native(layer)
