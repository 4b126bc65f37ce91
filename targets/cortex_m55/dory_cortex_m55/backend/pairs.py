"""Sums and products of two tensors."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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
    count,
    elements,
    reject_bytes,
)
from dory_cortex_m55.backend.forms import Form
from dory_cortex_m55.backend.requant import clipped, form_between

_EIGHT = np.zeros(8, np.intp)  # the same channel eight times
_TABLE = 256
_INT31 = (1 << 30) - 1
_INT32 = (1 << 31) - 1
# Axes along which the second operand has one element.
_SAME, _PIXEL = (False, False, False), (False, True, True)


class SumsKernel(VectorKernel):
    """Sum of two tensors of bytes: a table says what each byte of an operand is."""

    name = "dory_cortex_m55_sums"
    file = "sums"
    summary = "Sum of bytes by a table for each operand"
    features = VectorKernel.features | {Feature.OTHER_OPERAND}
    kind: ClassVar[type[ops.Pairwise]] = ops.Add

    def accepts(self, layer: Layer) -> Rejection | None:
        """Two tensors, one requantisation for all channels."""
        rejection = reject_pair(layer, self.kind)
        if rejection is None and layer.whole_axes(1) not in (_SAME, _PIXEL):
            return Rejection("its second operand is smaller, and no pixel of all channels")
        if rejection is None and _pair(layer) is None:
            return Rejection("no factor, addend and shift have the values of its requantisation")
        return rejection

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Two tables, and parameters."""
        return 2 * _TABLE * 4 + 8 * _found(layer)[1].channel_bytes

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return the tables, and the parameters of one channel eight times."""
        tables, form = _found(layer)
        data = tables.astype("<i4").tobytes()
        block = data + form.parameters(_EIGHT)
        return WeightBlock(block, {"weights": 0, "mul": len(data)})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Elements in fours, of all the tile or pixel by pixel."""
        each = costs.SUMS_FOUR + _found(layer)[1].cycles // 2
        if layer.whole_axes(1) == _SAME:
            return costs.CALL + ceil_div(elements(tile), 4) * each
        return costs.CALL + tile.h * tile.w * (costs.SUMS_RUN + ceil_div(tile.c_out, 4) * each)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        form = _found(layer)[1]
        is_same = layer.whole_axes(1) == _SAME
        members: dict[str, Argument] = {
            **named("x", "x2", "y"),
            "tables": Operand("weights", "const int32_t *"),
            "runs": 1 if is_same else size("y_h") * size("y_w"),
            "count": count() if is_same else size("y_c"),
            "requant": form.struct(),
        }
        return self.struct_call(layer, members)


class ProductsKernel(SumsKernel):
    """Product of two tensors of bytes."""

    name = "dory_cortex_m55_products"
    summary = "Product of bytes by a table for each operand"
    kind = ops.Mul


@requantisation.cached_per_layer
def _pair(layer: Layer) -> tuple[npt.NDArray[np.int64], Form] | None:
    """Return the operands that bytes of both inputs are, and the form of the accumulators.

    None where there is no form.
    """
    kind = layer.of(ops.Pairwise)
    if not kind.requants:
        return None
    steps, lo, hi = requantisation.steps_of_sums(layer)
    tables = [
        _by_byte(x, step) for x, step in zip(layer.inputs, kind.operand_requants, strict=True)
    ]
    form = form_between(clipped(steps, layer), lo, hi, 1)
    if form is None or max(np.abs(table).max() for table in tables) > _INT31:
        return None
    return np.concatenate(tables), form


def _found(layer: Layer) -> tuple[npt.NDArray[np.int64], Form]:
    found = _pair(layer)
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
        rejection = reject_pair(layer, ops.Add)
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
        struct = Struct(members, "dory_cortex_m55_line_t")
        return FunctionCall(self.symbol(layer), {"arguments": struct})


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


def reject_pair(layer: Layer, wanted: type[ops.Pairwise]) -> Rejection | None:
    """Return why a layer is no sum or product of two tensors of bytes with one step."""
    kind = layer.op
    if not isinstance(kind, wanted) or kind.constant is not None:
        return Rejection(f"it computes {wanted.__name__} of two tensors", other_kind=True)
    if any(step.is_channelwise for step in kind.steps):
        return Rejection("its requantisation differs from channel to channel")
    return reject_bytes(layer) or reject_type(layer.inputs[1], "second operand", BYTES)
