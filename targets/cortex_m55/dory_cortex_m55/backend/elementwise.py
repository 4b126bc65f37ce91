"""Sums of two tensors, functions of one byte, and pools."""

from __future__ import annotations

from dataclasses import asdict, dataclass

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
    reject_maximum,
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
    pad_value,
    reject_bytes,
    window_members,
)
from dory_cortex_m55.backend.forms import Form
from dory_cortex_m55.backend.requant import clipped, form_between, form_of, reject_form

_EIGHT = np.zeros(8, np.intp)  # the same channel eight times
_TABLE = 256
_INT31 = (1 << 30) - 1
_INT32 = (1 << 31) - 1


class SumsKernel(VectorKernel):
    """Sum of two tensors of bytes: a table says what each byte of an operand adds."""

    name = "dory_cortex_m55_sums"
    file = "sums"
    summary = "Sum of bytes by a table for each operand"
    features = VectorKernel.features | {Feature.OTHER_OPERAND}

    def accepts(self, layer: Layer) -> Rejection | None:
        """Two tensors of one shape, one requantisation for all channels."""
        rejection = reject_pair(layer)
        if rejection is None and _sums(layer) is None:
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
        """Elements in fours."""
        each = costs.SUMS_FOUR + _found(layer)[1].cycles // 2
        return costs.CALL + ceil_div(elements(tile), 4) * each

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        form = _found(layer)[1]
        members: dict[str, Argument] = {
            **named("x", "x2", "y"),
            "tables": Operand("weights", "const int32_t *"),
            "count": count(),
            "requant": form.struct(),
        }
        return self.struct_call(layer, members)


@requantisation.cached_per_layer
def _sums(layer: Layer) -> tuple[npt.NDArray[np.int64], Form] | None:
    """Return the addend of each byte of both operands, and the form of sums; None without one."""
    kind = layer.of(ops.Add)
    if not kind.requants:
        return None
    tables = [
        _by_byte(x, step) for x, step in zip(layer.inputs, kind.operand_requants, strict=True)
    ]
    used = [_values(x, step) for x, step in zip(layer.inputs, kind.operand_requants, strict=True)]
    lo, hi = (np.array([sum(int(end(own)) for own in used)]) for end in (np.min, np.max))
    form = form_between(clipped(kind.requants, layer), lo, hi, 1)
    if form is None:
        return None
    if max(np.abs(table).max() for table in tables) > _INT31:
        return None
    return np.concatenate(tables), form


def _found(layer: Layer) -> tuple[npt.NDArray[np.int64], Form]:
    found = _sums(layer)
    assert found is not None
    return found


def _values(x: Tensor, step: Requant | None) -> npt.NDArray[np.int64]:
    values = np.arange(x.lo, x.hi + 1, dtype=np.int64)
    return values if step is None else step.apply(values[None])[0]


def _by_byte(x: Tensor, step: Requant | None) -> npt.NDArray[np.int64]:
    """Return the values of an operand by the byte that stores its number; 0 elsewhere."""
    table = np.zeros(_TABLE, np.int64)
    table[np.arange(x.lo, x.hi + 1) & 0xFF] = _values(x, step)
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
        rejection = reject_pair(layer)
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


def reject_pair(layer: Layer) -> Rejection | None:
    """Return why a layer is no sum of two tensors of bytes in equal ways."""
    kind = layer.op
    if not isinstance(kind, ops.Add) or kind.constant is not None:
        return Rejection("it computes sums of two tensors", other_kind=True)
    x, x2 = layer.inputs
    if x.shape != x2.shape:
        return Rejection("its second operand is smaller")
    if any(step.is_channelwise for step in kind.steps):
        return Rejection("its requantisation differs from channel to channel")
    return reject_bytes(layer) or reject_type(x2, "second operand", BYTES)


class LutKernel(VectorKernel):
    """Function of one byte by a table."""

    name = "dory_cortex_m55_lut"
    file = "lut"
    summary = "Function of one byte by a table, 16 at a time"
    features = VectorKernel.features | {Feature.OTHER_OPERAND}

    def accepts(self, layer: Layer) -> Rejection | None:
        """One table for all channels; a pair of a tensor and a number is such a function."""
        if not isinstance(layer.op, ops.Lut | ops.Pairwise):
            return Rejection("it computes functions of one byte", other_kind=True)
        rejection = reject_bytes(layer)
        if rejection is None:
            table = requantisation.byte_table(layer)
            if table is None or table.ndim > 1:
                return Rejection("it has one table of bytes for all channels")
        return rejection

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The table."""
        return _TABLE

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return the table."""
        table = requantisation.byte_table(layer)
        assert table is not None
        return WeightBlock((table & 0xFF).astype(np.uint8).tobytes(), {"weights": 0})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Elements, 16 at a time."""
        return costs.CALL + ceil_div(elements(tile), 16) * costs.LUT_VECTOR

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        members = {**named("x", "y"), "table": Operand("weights"), "count": count()}
        return FunctionCall(self.symbol(layer), members)


class PoolKernel(VectorKernel):
    """What pools share."""

    file = "pool"

    def members(self, layer: Layer) -> dict[str, Argument]:
        """Return the members of the struct that both kinds have."""
        return {
            **named("x", "y", "x_h", "x_w", "y_h", "y_w"),
            "c": size("y_c"),
            **named("pad_top", "pad_left"),
            **window_members(layer.window),
            "x_signed": int(layer.inputs[0].signed),
        }


class MaxPoolKernel(PoolKernel):
    """Maximum over a window, 16 channels at a time."""

    name = "dory_cortex_m55_maxpool"
    summary = "Maximum pooling of 16 channels at a time"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any window; the maximum is stored as it is."""
        return reject_maximum(layer) or reject_type(layer.inputs[0], "input", BYTES)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Taps of 16 channels."""
        vector = costs.POOL_VECTOR + layer.window.taps * costs.MAXPOOL_TAP
        return costs.CALL + tile.h * tile.w * (costs.PIXEL + ceil_div(tile.c_out, 16) * vector)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        return self.struct_call(layer, self.members(layer))


class AvgPoolKernel(PoolKernel):
    """Sum over a window, four channels at a time; the requantisation divides."""

    name = "dory_cortex_m55_avgpool"
    summary = "Average pooling of four channels at a time"
    features = PoolKernel.features | {Feature.PAD_VALUE}

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any window, one requantisation for all channels."""
        kind = layer.op
        if not isinstance(kind, ops.AvgPool) or kind.real is not None:
            return Rejection("it computes averages in integers", other_kind=True)
        if any(step.is_channelwise for step in kind.requants):
            return Rejection("its requantisation differs from channel to channel")
        return reject_bytes(layer) or reject_form(layer)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters of one channel, eight times."""
        return 8 * form_of(layer).channel_bytes

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return the parameters of one channel eight times."""
        form = form_of(layer)
        return WeightBlock(form.parameters(_EIGHT), {"mul": 0})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Taps of four channels."""
        each = costs.POOL_VECTOR + layer.window.taps * costs.AVGPOOL_TAP
        each += form_of(layer).cycles // 2
        return costs.CALL + tile.h * tile.w * (costs.PIXEL + ceil_div(tile.c_out, 4) * each)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        form = form_of(layer)
        members: dict[str, Argument] = {
            **self.members(layer),
            "padding": pad_value(layer),
            "requant": form.struct(),
        }
        return self.struct_call(layer, members)
