"""Sums and products of two tensors."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Argument,
    Feature,
    FunctionCall,
    Layer,
    Number,
    Operand,
    Rejection,
    Requant,
    Struct,
    Symbol,
    Tensor,
    Tile,
    WeightBlock,
    ceil_div,
    named,
    ops,
    reject_type,
    requantisation,
    size,
)
from dory_cortex_m55 import calibration as costs
from dory_cortex_m55.backend.base import (
    BYTES,
    VectorKernel,
    bytes_of,
    count,
    elements,
    reject_bytes,
    reject_elements,
    whole,
)
from dory_cortex_m55.backend.forms import ONE_CHANNEL, Form, rounded
from dory_cortex_m55.backend.requant import clipped, form_of_steps

_TABLE = 256
_INT31 = (1 << 30) - 1
_INT32 = (1 << 31) - 1
# Axes along which the second operand has one element.
_SAME, _PIXEL, _CHANNEL = (False, False, False), (False, True, True), (True, False, False)


class SumsKernel(VectorKernel):
    """Sum of two operands: a table says what each byte of one is."""

    name = "dory_cortex_m55_sums"
    file = "sums"
    summary = "Sum of two operands, bytes by tables, four at a time"
    features = VectorKernel.features | {Feature.OTHER_OPERAND}
    kind: ClassVar[type[ops.Pairwise]] = ops.Add

    def accepts(self, layer: Layer) -> Rejection | None:
        """Operands of which each has its numbers; one requantisation for all channels."""
        kind = layer.op
        if not isinstance(kind, self.kind):
            return Rejection(f"it computes {self.kind.__name__}", other_kind=True)
        if any(step.is_channelwise for step in kind.requants):
            return Rejection("its requantisation differs from channel to channel")
        wrong = _reject_shape(layer) or _reject_output(layer)
        if wrong is None and None in operands_of(layer):
            return Rejection("an operand is neither bytes with one step nor plain numbers")
        if wrong is None and _form(layer) is None:
            return Rejection("no factor, addend and shift have the values of its requantisation")
        return wrong

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters, tables, and numbers of channels."""
        total: Number = 8 * _form_of(layer).channel_bytes
        for one in operands_of(layer):
            assert one is not None
            total += 4 * (tile.c_out if one.by_channel else len(one.numbers))
        return whole(total, 8)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return the parameters of one channel eight times, tables, and numbers of channels."""
        parameters = _form_of(layer).parameters(ONE_CHANNEL)
        data = parameters
        for one in operands_of(layer):
            assert one is not None
            data += one.of_channels(*c_out).astype("<i4").tobytes()
        return WeightBlock(data + bytes(-len(data) % 8), {"mul": 0, "weights": len(parameters)})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Elements in fours, of all the tile or pixel by pixel."""
        each = costs.SUMS_FOUR + _form_of(layer).cycles // 2
        others = (one is None or one.kind != "BYTES" for one in operands_of(layer))
        if any(others) or layer.output.bits > 8:
            each += costs.SUMS_OTHER
        if _is_one_run(layer):
            return costs.CALL + ceil_div(elements(tile), 4) * each
        return costs.CALL + tile.h * tile.w * (costs.SUMS_RUN + ceil_div(tile.c_out, 4) * each)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        first, second = operands_of(layer)
        assert first is not None and second is not None
        is_one = _is_one_run(layer)
        first_numbers = size("y_c") if first.by_channel else len(first.numbers)
        members: dict[str, Argument] = {
            "first": first.struct("x", 0),
            "second": second.struct("x2", 4 * first_numbers),
            "y": Operand("y"),
            "y_bytes": bytes_of(layer.output),
            "runs": 1 if is_one else size("y_h") * size("y_w"),
            "count": count() if is_one else size("y_c"),
            "requant": _form_of(layer).struct(),
        }
        return self.struct_call(layer, members, "sums")


class ProductsKernel(SumsKernel):
    """Product of two operands."""

    name = "dory_cortex_m55_products"
    summary = "Product of two operands, bytes by tables, four at a time"
    kind = ops.Mul


@dataclass(frozen=True, slots=True, eq=False)
class OneOperand:
    """One of two operands.

    Attributes:
        kind: BYTES by a table, HALVES or WORDS as they are, ONE byte for a pixel, or words that are
            SCALED by a factor of each channel.
        numbers: The table, int64, or constants, one or of each channel, or factors; empty for none.
        next: Bytes from a pixel to the next, 0 where all have the same.
        is_constant: The operand is no tensor.
        up: Bits by which scaled words are shifted to the left, before the product.
        down: Bits by which the upper half of the product is shifted to the right.
    """

    kind: str
    numbers: npt.NDArray[np.int64]
    next: Argument
    is_constant: bool = False
    up: int = 0
    down: int = 0

    @property
    def by_channel(self) -> bool:
        """Return True when the numbers are those of channels."""
        return self.is_constant or self.kind == "SCALED"

    def of_channels(self, first: int, end: int) -> npt.NDArray[np.int64]:
        """Return the numbers of a tile of channels."""
        if not self.by_channel:
            return self.numbers
        own = self.numbers if len(self.numbers) == 1 else self.numbers[first:end]
        return np.broadcast_to(own, (end - first,))

    def struct(self, name: str, place: Number) -> Struct:
        """Return the ``dory_cortex_m55_operand_t``. place: where its numbers begin."""
        numbers = Operand("weights", "const int32_t *", offset=place)
        data = Operand("weights", offset=place) if self.is_constant else Operand(name)
        members: dict[str, Argument] = {
            "x": data,
            "table": numbers if len(self.numbers) and not self.is_constant else None,
            "kind": Symbol(f"DORY_OPERAND_{self.kind}"),
            "next": self.next,
            "up": self.up,
            "down": self.down,
        }
        return Struct(members)


@requantisation.cached_per_layer
def operands_of(layer: Layer) -> tuple[OneOperand | None, OneOperand | None]:
    """Return both operands of a pair, None for one that the kernel cannot read."""
    kind = layer.of(ops.Pairwise)
    first = _of_tensor(layer, 0)
    if kind.constant is None:
        return first, _of_tensor(layer, 1)
    values, step = kind.constant.values.astype(np.int64), kind.operand_requants[1]
    numbers = (values if step is None else step.apply(values)).reshape(-1)
    if kind.constant.shape[1:] != (1, 1) or np.abs(numbers).max() > _INT31:
        return first, None
    return first, OneOperand("WORDS", numbers, 0, is_constant=True)


def _of_tensor(layer: Layer, number: int) -> OneOperand | None:
    x, step = layer.inputs[number], layer.of(ops.Pairwise).operand_requants[number]
    axes = layer.whole_axes(1) if number else _SAME
    next_run = size("y_c") * bytes_of(x) if axes == _SAME else int(axes == _CHANNEL)
    if step is not None and step.is_channelwise:
        return None if axes == _CHANNEL else _scaled(x, step, next_run)
    if x.type_name in BYTES:
        table = _by_byte(x, step)
        if np.abs(table).max() > _INT31:
            return None
        return OneOperand("ONE" if axes == _CHANNEL else "BYTES", table, next_run)
    none = np.zeros(0, np.int64)
    if step is not None or axes == _CHANNEL or max(-x.lo, x.hi) > _INT32:
        return None
    if reject_elements(x, "input") is None:
        return OneOperand("HALVES", none, next_run)
    return OneOperand("WORDS", none, next_run) if x.bits == 32 else None


def _scaled(x: Tensor, step: Requant, next_run: Argument) -> OneOperand | None:
    """Return words by a factor of each channel, None where no upper half of a product is exact."""
    most = max(-x.lo, x.hi)
    if x.bits != 32 or step.lo is not None or most * max(map(abs, step.mul)) // step.div >= _INT31:
        return None
    within = replace(step, lo=-_INT31, hi=_INT31)
    form = rounded(within, np.zeros(1, np.int64), np.array([most], np.int64))
    if form is None:
        return None
    return OneOperand("SCALED", form.mul, next_run, up=int(form.up[0]), down=form.down)


def _reject_shape(layer: Layer) -> Rejection | None:
    """Return why the second operand is repeated in a way that the kernel does not know."""
    if layer.of(ops.Pairwise).constant is not None:
        return None
    if layer.whole_axes(1) in (_SAME, _PIXEL, _CHANNEL):
        return None
    return Rejection("its second operand is neither as large, one pixel nor one channel")


def _reject_output(layer: Layer) -> Rejection | None:
    """Return why outputs are not possible; without a requantisation they are the sums."""
    if layer.op.requants or layer.output.bits < 32:
        return reject_elements(layer.output, "output")
    return None


def _is_one_run(layer: Layer) -> bool:
    """Return True when operands have an element for each output, and no numbers of channels."""
    if any(one is not None and one.by_channel for one in operands_of(layer)):
        return False
    return layer.whole_axes(1) == _SAME


@requantisation.cached_per_layer
def _form(layer: Layer) -> Form | None:
    """Return the form of sums or products, None where there is none."""
    steps, lo, hi = requantisation.steps_of_sums(layer)
    ends = np.array([lo.min()]), np.array([hi.max()])
    if steps:
        return form_of_steps(layer, steps, ends, 1)
    if max(abs(int(end[0])) for end in ends) > _INT32:
        return None
    zero = np.zeros(1, np.int64)
    return Form("SUMS", zero, zero, zero, None, zero, 0, (0, 0))


def _form_of(layer: Layer) -> Form:
    found = _form(layer)
    assert found is not None
    return found


def _by_byte(x: Tensor, step: Requant | None) -> npt.NDArray[np.int64]:
    """Return the values of an operand by the byte that stores its number; 0 elsewhere."""
    values = np.arange(x.lo, x.hi + 1, dtype=np.int64)
    table = np.zeros(_TABLE, np.int64)
    table[values & 0xFF] = values if step is None else step.apply(values[None])[0]
    return table


@dataclass(frozen=True, slots=True)
class Line:
    """y = clip((((mul * x + mul2 * x2 + add) >> down) * mul_after + add_after) >> down_after).

    All before the clip has 32 bits.
    """

    mul: int
    mul2: int
    add: int
    down: int
    mul_after: int
    add_after: int
    down_after: int
    lo: int
    hi: int


class LineKernel(VectorKernel):
    """Sum of two tensors of bytes of which each counts a number of times."""

    name = "dory_cortex_m55_line"
    file = "sums"
    summary = "Sum of multiples of two bytes, four at a time"
    features = VectorKernel.features | {Feature.OTHER_OPERAND}

    def accepts(self, layer: Layer) -> Rejection | None:
        """Two tensors of one shape, products, and a shift or two."""
        rejection = _reject_pair(layer)
        if rejection is None and layer.whole_axes(1) != _SAME:
            return Rejection("its second operand is smaller")
        if rejection is None and _line(layer) is None:
            return Rejection("its requantisation is no sum of multiples with a shift or two")
        return rejection

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Elements in fours."""
        return costs.CALL + ceil_div(elements(tile), 4) * costs.LINE_FOUR

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        line = _line(layer)
        assert line is not None
        members: dict[str, Argument] = {
            **named("x", "x2", "y"),
            "count": count(),
            "x_signed": int(layer.inputs[0].signed),
            "x2_signed": int(layer.inputs[1].signed),
            **asdict(line),
        }
        return self.struct_call(layer, members, "line")


@requantisation.cached_per_layer
def _line(layer: Layer) -> Line | None:
    """Return the sum of multiples that a layer is, None for another one."""
    kind = layer.of(ops.Add)
    if len(kind.requants) not in (1, 2):
        return None
    steps = clipped(kind.requants, layer)
    first, last = steps[0], steps[-1]
    after = (1, 0, 0)
    if last is not first:
        after = (last.mul[0], last.add[0], last.shift or 0)
    plain = all(step is None or _only_multiplies(step) for step in kind.operand_requants)
    assert last.lo is not None and last.hi is not None
    if not plain:
        return None
    if last is not first and first.lo is not None:
        return None
    if not all(_shifts(step) for step in kind.requants):
        return None
    muls, adds = [], []
    for step in kind.operand_requants:
        muls.append(first.mul[0] * (1 if step is None else step.mul[0]))
        adds.append(first.mul[0] * (0 if step is None else step.add[0]))
    add, down = first.add[0] + sum(adds), first.shift or 0
    most = abs(add)
    for mul, x in zip(muls, layer.inputs, strict=True):
        most += abs(mul) * max(abs(x.lo), abs(x.hi))
    beyond = ((most >> down) + 1) * abs(after[0]) + abs(after[1])
    if max(most, beyond) > _INT32:
        return None
    return Line(muls[0], muls[1], add, down, *after, last.lo, last.hi)


def _shifts(step: Requant) -> bool:
    """Return True for a product, an addend and a shift that fits an instruction."""
    plain = step.add_negative is None and not step.float32
    return plain and step.shift is not None and step.shift <= 31


def _only_multiplies(step: Requant) -> bool:
    return step.div == 1 and step.lo is None and step.add_negative is None and not step.float32


def _reject_pair(layer: Layer) -> Rejection | None:
    """Return why a layer is no sum of two tensors of bytes with one step."""
    kind = layer.op
    if not isinstance(kind, ops.Add) or kind.constant is not None:
        return Rejection("it computes sums of two tensors", other_kind=True)
    if any(step.is_channelwise for step in kind.steps):
        return Rejection("its requantisation differs from channel to channel")
    return reject_bytes(layer) or reject_type(layer.inputs[1], "second operand", BYTES)
