"""Residual sums and pools of the library: what is exact, and how it is called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dory_core.api import (
    Argument,
    FunctionCall,
    Layer,
    Number,
    Operand,
    Rejection,
    Requant,
    ceil_div,
    ops,
    size,
)
from dory_gap8.pulp_nn import cycles as cost
from dory_gap8.pulp_nn.upstream import (
    INT16_MAX,
    INT32,
    U8_MAX,
    U16_MAX,
    U32_MAX,
    UpstreamKernel,
    first,
    reject_u8,
)

if TYPE_CHECKING:
    from dory_core.api import Tile


@dataclass(frozen=True)
class UpstreamAdd(UpstreamKernel):
    """Residual sum: clip((x * m1 + z * m2) >> d, 0, 255), rows shared by the cores."""

    name = "pulp_nn_add"
    summary = "residual sum"

    def rejection_of(self, layer: Layer) -> Rejection | None:
        """Multipliers of 15 bits without offsets, one division by a power of two."""
        kind = layer.op
        if not isinstance(kind, ops.Add):
            return Rejection("it adds two tensors only")
        scales = [_scale(step) for step in kind.operand_requants]
        if None in scales:
            return Rejection("PULP-NN multiplies each operand by a number, without offset or clip")
        if any(not 0 <= scale <= INT16_MAX for scale in scales if scale is not None):
            return Rejection("PULP-NN multiplies the operands by numbers of 15 bits")
        if len(kind.requants) > 1:
            return Rejection("PULP-NN applies one requantisation to the sum")
        step = kind.requants[0] if kind.requants else None
        if step is not None and (step.mul != (1,) or step.add != (0,)):
            return Rejection("PULP-NN only shifts the sum")
        div = 1 if step is None else step.div
        if div & (div - 1):
            return Rejection(f"PULP-NN divides by powers of two, not by {div}")
        if step is not None and step.hi is not None and (step.lo, step.hi) != (0, U8_MAX):
            return Rejection(f"PULP-NN clips to [0, 255], not to [{step.lo}, {step.hi}]")
        most = sum(U8_MAX * scale for scale in scales if scale is not None)
        if most > U32_MAX or most // div > U16_MAX:
            return Rejection("the sum exceeds the 16 bits in which PULP-NN clips it")
        return first(
            reject_u8(layer.inputs[0], "first operand"),
            reject_u8(layer.inputs[1], "second operand"),
            reject_u8(layer.output, "output"),
        )

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Cycles of the core with the most rows."""
        row = tile.w * tile.c_out * cost.ADD_ELEMENT
        return cost.CALL + ceil_div(tile.h, self.cores) * row

    def call(self, layer: Layer) -> FunctionCall:
        """One call for the tile."""
        kind = layer.of(ops.Add)
        first_scale, second_scale = (_scale(step) for step in kind.operand_requants)
        div = kind.requants[0].div if kind.requants else 1
        arguments: dict[str, Argument] = {
            "x": Operand("x", "uint8_t *"),
            "x2": Operand("x2", "uint8_t *"),
            "y": Operand("y"),
            "mult1": first_scale,
            "mult2": second_scale,
            "shift": div.bit_length() - 1,
            **{name: size(f"y_{name}") for name in "hwc"},
        }
        return FunctionCall(self.name, arguments)


def _scale(step: Requant | None) -> int | None:
    """Return the factor that a step is, None when it is more than that."""
    if step is None:
        return 1
    plain = len(step.mul) == 1 and step.add == (0,) and step.div == 1 and step.lo is None
    return step.mul[0] if plain else None


@dataclass(frozen=True)
class UpstreamAvgPool(UpstreamKernel):
    """Average: clip((sum * lambda / taps + add) >> d); rows shared by the cores."""

    name = "pulp_nn_avgpool"
    summary = "average pool"

    def rejection_of(self, layer: Layer) -> Rejection | None:
        """No padding (the library mixes up top and bottom), unsigned arithmetic of 32 bits."""
        kind = layer.op
        if not isinstance(kind, ops.AvgPool):
            return Rejection("it computes average pools only")
        if any(kind.window.pads):
            return Rejection("the average pool of PULP-NN mixes up the paddings")
        if kind.window.dilations != (1, 1):
            return Rejection("PULP-NN has no dilation")
        step = kind.requants[0] if len(kind.requants) == 1 else None
        if step is None or len(step.mul) > 1 or len(step.add) > 1:
            return Rejection("the average pool of PULP-NN has one requantisation for all channels")
        if step.div & (step.div - 1):
            return Rejection(f"PULP-NN divides by powers of two, not by {step.div}")
        if step.hi is not None and (step.lo, step.hi) != (0, U8_MAX):
            return Rejection(f"PULP-NN clips to [0, 255], not to [{step.lo}, {step.hi}]")
        taps = kind.window.taps
        if (
            step.mul[0] < 0
            or step.add[0] < 0
            or layer.inputs[0].hi * taps * step.mul[0] * taps > (U32_MAX)
        ):
            return Rejection("the average pool of PULP-NN computes in 32 unsigned bits")
        if layer.ranges.value_hi > INT32[1]:
            return Rejection("its requantisation exceeds 31 bits")
        return first(reject_u8(layer.inputs[0], "input"), reject_u8(layer.output, "output"))

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Cycles of the core with the most rows."""
        taps = layer.window.taps
        element = cost.AVGPOOL_OUTPUT + cost.AVGPOOL_TAP_TENTHS * taps // 10
        return cost.CALL + ceil_div(tile.h, self.cores) * tile.w * tile.c_out * element

    def call(self, layer: Layer) -> FunctionCall:
        """One call; lambda is the multiplier of the sum times the taps, which it divides again."""
        window, step = layer.window, layer.op.requants[0]
        kh, kw = window.kernel
        arguments: dict[str, Argument] = {
            "x": Operand("x", "uint8_t *"),
            "y": Operand("y"),
            "lambda": step.mul[0] * window.taps,
            "shift": step.div.bit_length() - 1,
            "add": step.add[0],
            "x_w": size("x_w"),
            "x_h": size("x_h"),
            "c": size("y_c"),
            "y_w": size("y_w"),
            "y_h": size("y_h"),
            "kernel_w": kw,
            "kernel_h": kh,
            **dict.fromkeys(("top", "bottom", "left", "right"), 0),
            "stride_x": window.strides[1],
            "stride_y": window.strides[0],
            "requant": 1,
        }
        return FunctionCall(self.name, arguments)


@dataclass(frozen=True)
class UpstreamMaxPool(UpstreamKernel):
    """The maximum pool, which is never taken: it overwrites its input."""

    name = "pulp_nn_maxpool"
    summary = "maximum pool"

    def rejection_of(self, layer: Layer) -> Rejection | None:
        """Never: the next tile would read what this one left."""
        if not isinstance(layer.op, ops.MaxPool):
            return Rejection("it computes maximum pools only")
        return Rejection("the maximum pool of PULP-NN overwrites its input tile")

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """It is never called."""
        raise NotImplementedError("no layer is accepted")

    def call(self, layer: Layer) -> FunctionCall:
        """It is never called."""
        raise NotImplementedError("no layer is accepted")
