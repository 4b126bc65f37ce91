"""Functions of two operands: sums, products, the larger and the smaller one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dory_core.api import (
    Feature,
    FunctionCall,
    Items,
    Layer,
    Number,
    Operand,
    Rejection,
    Requant,
    Struct,
    Tile,
    WeightBlock,
    ceil_div,
    ops,
    reject_type,
    requantisation,
    size,
)
from dory_core.importing import ranges
from dory_stm32h7 import calibration as costs
from dory_stm32h7.backend.epilogue import epilogue, reject_epilogue
from dory_stm32h7.backend.instance import (
    OUTPUTS,
    InstanceKernel,
    c_type,
    tile_arguments,
)
from dory_stm32h7.backend.lines import Line
from dory_stm32h7.backend.weighted import output_extra

_OPERANDS = ("u8", "i8", "u16", "i16")


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """What happens to an operand before the sum. form: its macro; line: None as it is."""

    form: str
    line: Line | None = None

    @property
    def token(self) -> str:
        """The part of an instance's name."""
        return self.form.removeprefix("DORY_").lower()


@dataclass(frozen=True, slots=True)
class Second:
    """What the second operand is, a tensor or a constant. shared: axes C, H, W with one element."""

    lo: int
    hi: int
    bits: int
    signed: bool
    shared: tuple[bool, bool, bool]

    @property
    def type_name(self) -> str:
        """Its type: ``u8``."""
        return f"{'i' if self.signed else 'u'}{self.bits}"

    @property
    def c_type(self) -> str:
        """Its type in C."""
        return f"{'' if self.signed else 'u'}int{self.bits}_t"


class PairKernel(InstanceKernel):
    """Element-wise function of two operands, with steps for each of them and for its value.

    kind: of the layers. value: the macro of the function. other: why a layer is none of them.
    """

    template = "pair"
    features = InstanceKernel.features | {Feature.OTHER_OPERAND}
    kind: ClassVar[type[ops.Pairwise]]
    value: ClassVar[str]
    other: ClassVar[str]

    def accepts(self, layer: Layer) -> Rejection | None:
        """Parameters of all requantisations are the same for all channels."""
        kind = layer.op
        if not isinstance(kind, self.kind):
            return Rejection(self.other)
        if any(step.is_channelwise for step in kind.steps):
            return Rejection("its requantisation differs from channel to channel")
        second = _second(layer)
        if second.type_name not in _OPERANDS:
            return Rejection(
                f"its second operand is {second.type_name}, possible are {', '.join(_OPERANDS)}"
            )
        rejection = (
            reject_type(layer.inputs[0], "first operand", _OPERANDS)
            or reject_type(layer.output, "output", OUTPUTS)
            or reject_epilogue(layer)
        )
        if rejection is None and any(o is None for o in _operands(layer)):
            return Rejection("no 32-bit numbers have exactly the values of an operand's step")
        return rejection

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The elements of a constant operand."""
        constant = layer.of(ops.Pairwise).constant
        if constant is None:
            return 0
        channels, height, width = constant.shape
        count = tile.c_out if channels > 1 else 1
        return ceil_div(height * width * count * (_second(layer).bits // 8), 8) * 8

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """All rows of a constant operand, channels last."""
        constant, second = layer.of(ops.Pairwise).constant, _second(layer)
        if constant is None:
            return None
        values = constant.values[slice(*c_out)] if constant.shape[0] > 1 else constant.values
        kind = f"<{second.type_name[0]}{second.bits // 8}"
        data = values.transpose(1, 2, 0).astype(kind).tobytes()
        return WeightBlock(data + bytes(-len(data) % 8), {"weights": 0})

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Elements, and runs of them."""
        element = costs.PAIR_ELEMENT + output_extra(epilogue(layer))
        element += costs.PAIR_PRODUCT if isinstance(layer.op, ops.Mul) else 0
        plain = ("DORY_AS_IS", "DORY_OFFSET")
        forms = [o.form for o in _operands(layer) if o is not None and o.form not in plain]
        element += (0, costs.PAIR_SCALED, costs.PAIR_SCALED_BOTH)[len(forms)]
        element += costs.PAIR_CLIPPED * forms.count("DORY_CLIPPED")
        element += costs.PAIR_UPPER * forms.count("DORY_UPPER")
        element += costs.PAIR_TURNED * epilogue(layer).turned
        runs = 0 if _is_flat(layer) else tile.h * tile.w * costs.PAIR_RUN
        return costs.CALL + runs + tile.h * tile.w * tile.c_out * element

    def label(self, layer: Layer) -> str:
        """Types, operands that are requantised or shared, requantisation of the value."""
        second = _second(layer)
        types = f"{layer.inputs[0].type_name}_{second.type_name}_{layer.output.type_name}"
        operands = "".join(f"_{o.token}" for o in _operands(layer) if o is not None)
        form = "" if _is_flat(layer) else "_one" if second.shared[0] else "_runs"
        return f"{self.name}{form}_{types}{operands}{epilogue(layer).suffix}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call for the tile, with the steps from element to element of the second operand."""
        lines = tuple(
            Struct({"shift": 0}) if o is None or o.line is None else o.line.struct()
            for o in _operands(layer)
        )
        one_channel, one_row, one_column = _second(layer).shared
        constant = layer.of(ops.Pairwise).constant
        if constant is None:
            channels, width = 1 if one_channel else size("x_c"), 1 if one_column else size("x_w")
            second = Operand("x2")
        else:
            channels, width = 1 if one_channel else size("y_c"), constant.shape[2]
            row, column = 0 if one_row else size("y_row"), 0 if one_column else size("y_column")
            place = (row * width + column) * channels * (_second(layer).bits // 8)
            second = Operand("weights", f"const {_second(layer).c_type} *", place)
        arguments = (
            *tile_arguments("x", "y", "y_h", "y_w", "y_c"),
            ("x2", second),
            ("row", 0 if one_row else width * channels),
            ("column", 0 if one_column else channels),
            ("operand", Items(lines)),
            ("requant", epilogue(layer).struct(arrays=False)),
        )
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        operands, second = enumerate(_operands(layer), 1), _second(layer)
        macros = (
            ("DORY_X_T", c_type(layer.inputs[0])),
            ("DORY_X2_T", second.c_type),
            ("DORY_Y_T", c_type(layer.output)),
            ("DORY_FLAT", int(_is_flat(layer))),
            ("DORY_ONE_CHANNEL", int(second.shared[0])),
            ("DORY_VALUE", self.value),
            *((f"DORY_OPERAND{n}", o.form) for n, o in operands if o is not None),
            *epilogue(layer).macros,
        )
        return macros


class AddKernel(PairKernel):
    """Sum."""

    name = "dory_stm32h7_add"
    summary = "Sum, element by element"
    kind = ops.Add
    value = "DORY_SUM"
    other = "it computes sums only"


class MulKernel(PairKernel):
    """Product."""

    name = "dory_stm32h7_mul"
    summary = "Product, element by element"
    kind = ops.Mul
    value = "DORY_PRODUCT"
    other = "it computes products only"


class MaximumKernel(PairKernel):
    """The larger one."""

    name = "dory_stm32h7_maximum"
    summary = "Larger one of two operands"
    kind = ops.Maximum
    value = "DORY_LARGER"
    other = "it computes the larger one of two operands only"


class MinimumKernel(PairKernel):
    """The smaller one."""

    name = "dory_stm32h7_minimum"
    summary = "Smaller one of two operands"
    kind = ops.Minimum
    value = "DORY_SMALLER"
    other = "it computes the smaller one of two operands only"


def _second(layer: Layer) -> Second:
    """Return the second operand of a layer."""
    constant, y = layer.of(ops.Pairwise).constant, layer.output
    if constant is None:
        x = layer.inputs[1]
        c, h, w = (mine != total for mine, total in zip(x.shape, y.shape, strict=True))
        return Second(x.lo, x.hi, x.bits, x.signed, (c, h, w))
    c, h, w = (size == 1 for size in constant.shape)
    lo, hi = constant.bounds
    bits, signed = ranges.storage_for(lo, hi)
    return Second(lo, hi, max(bits, 8), signed, (c, h, w))


def _is_flat(layer: Layer) -> bool:
    """Return True when both operands of a tile are the same elements in the same order."""
    return layer.of(ops.Pairwise).constant is None and not any(_second(layer).shared)


@requantisation.cached_per_layer
def _operands(layer: Layer) -> tuple[Side | None, ...]:
    """Return both operands; None where no 32-bit arithmetic has its values."""
    first, second = layer.of(ops.Pairwise).operand_requants
    x, x2 = layer.inputs[0], _second(layer)
    return _operand(first, x.lo, x.hi), _operand(second, x2.lo, x2.hi)


def _operand(step: Requant | None, lo: int, hi: int) -> Side | None:
    if step is None or step.is_identity:
        return Side("DORY_AS_IS")
    if step.shift is not None and (step.lo, step.add_negative, step.float32) == (None, None, False):
        ends = [step.mul[0] * v + step.add[0] for v in (lo, hi)]
        if max(*map(abs, (*ends, step.mul[0], step.add[0]))) < 1 << 31:
            mul, add = (np.array(values, dtype=np.int64) for values in (step.mul, step.add))
            form = "DORY_OFFSET" if step.mul == (1,) and step.div == 1 else "DORY_SCALED"
            return Side(form, Line(mul, add, step.shift, None))
    stairs = requantisation.staircase((step,), np.array([lo]), np.array([hi]))
    found = None if stairs is None else requantisation.narrow_32(stairs)
    if found is None or stairs is None:
        return _upper(step, lo, hi)
    clip = stairs.clip
    mul, add = (v.astype(np.int32).astype(np.int64) for v in (found.mul, found.add))
    # Steep lines may overshoot the bounds, flat ones need no clip when their ends are inside.
    ends = [(int(found.mul[0]) * v + int(found.add[0])) >> found.shift for v in (lo, hi)]
    if clip is None or (clip[0] <= min(ends) and max(ends) <= clip[1]):
        return Side("DORY_SCALED", Line(mul, add, found.shift, None))
    return Side("DORY_CLIPPED", Line(mul, add, found.shift, clip))


def _upper(step: Requant, lo: int, hi: int) -> Side | None:
    """Return the upper half of a product with a step's own numbers; None: they are too large."""
    if step.shift is None or step.shift > 32 or step.lo is not None or step.turn or step.float32:
        return None
    all_up = 32 - step.shift
    up = min(all_up, 31 - max(-lo - 1, hi).bit_length())  # of the operand; the rest of the factor
    mul, add = step.mul[0] << all_up - up, step.add[0] << all_up
    below = (step.addends[-1][0] << all_up) - add
    words = (mul, below, *(step.scalar(x, 0) for x in (lo, hi)))
    if min(words) < -1 << 31 or max(words) >= 1 << 31 or abs(add) >= 1 << 62:
        return None
    own_mul, own_add, own_below = (np.array([number], np.int64) for number in (mul, add, below))
    line = Line(own_mul, own_add, up, None, below=own_below)
    return Side("DORY_UPPER", line)
