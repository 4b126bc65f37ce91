"""Pairs of tensors, or of a tensor and a constant: sum, product, the larger and the smaller one.

The second operand may be smaller than the first, and requantisations may differ from channel to
channel. What operands contribute is found for each of them apart (:class:`Contribution`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Argument,
    Feature,
    FunctionCall,
    Items,
    Layer,
    Number,
    Operand,
    Rejection,
    Requant,
    Symbol,
    Tensor,
    WeightBlock,
    ceil_div,
    minimum,
    ops,
    reject_type,
    requantisation,
    size,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.instance import (
    Arguments,
    ClusterKernel,
    Instance,
    c_type,
    call_text,
)
from dory_gap8.backend.requant import epilogue, reject_requants
from dory_gap8.backend.steps import INT32, INT64, c_int, fits, reject_steps

if TYPE_CHECKING:
    from dory_core.api import Tile

_TYPES = ("u8", "i8", "u16", "i16", "i32")
_OPERANDS = (*_TYPES, "u32")
_KINDS = {ops.Add: "add", ops.Mul: "mul", ops.Maximum: "maximum", ops.Minimum: "minimum"}

# Forms of a contribution, by the macro that selects them.
PLAIN, LINEAR, TABLE = "DORY_PLAIN", "DORY_LINEAR", "DORY_TABLE"
SHIFTED, WORD = "DORY_SHIFTED", "DORY_WORD"
_FORM_CYCLES = {
    PLAIN: 0,
    LINEAR: cal.PAIR_LINEAR,
    TABLE: cal.PAIR_TABLE,
    SHIFTED: cal.PAIR_SHIFTED,
    WORD: 0,
}
# A table of words is loaded for tensors of at least N elements.
_TABLE_ELEMENTS = 512

_Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """What an operand contributes to the accumulator.

    form: PLAIN: itself; LINEAR: x * mul + add; TABLE: an entry for each of its bytes; SHIFTED:
    clip((x * mul + add) >> shift), in 64 bits, or without the clip where 32 bits of it are left
    (``fits``); WORD: the constants, ready.
    records: int32, shape (C, words), or (1, words) when all channels have the same. clip: of
    SHIFTED. words: of WORD, int32, shape (C or 1, H or 1, W or 1).
    """

    form: str
    records: npt.NDArray[np.int32]
    shift: int = 0
    clip: tuple[int, int] = INT32
    fits: bool = False
    words: npt.NDArray[np.int32] | None = None

    @property
    def per_channel(self) -> bool:
        """Whether each channel has a record in the weight block."""
        return self.form in (LINEAR, SHIFTED) and len(self.records) > 1

    @property
    def suffix(self) -> str:
        """The part of an instance's name."""
        name = self.form.removeprefix("DORY_").lower() + "_32" * self.fits
        return name if self.per_channel or self.form not in (LINEAR, SHIFTED) else f"{name}_scalar"

    def data(self, c_out: tuple[int, int]) -> bytes:
        """Return the bytes in the weight block of some output channels."""
        if self.words is not None:
            rows = self.words[slice(*c_out)] if len(self.words) > 1 else self.words
            return np.ascontiguousarray(rows.transpose(1, 2, 0)).astype("<i4").tobytes()
        if self.form == TABLE:
            return self.records.astype("<i4").tobytes()
        return self.records[slice(*c_out)].astype("<i4").tobytes() if self.per_channel else b""

    def data_bytes(self, c_out: Number) -> Number:
        """Return the bytes of :meth:`data` for a number of channels."""
        if self.words is not None:
            channels, height, width = self.words.shape
            return 4 * height * width * (c_out if channels > 1 else 1)
        if self.form == TABLE:
            return 4 * 256
        return 4 * self.records.shape[1] * c_out if self.per_channel else 0

    @property
    def element_cycles(self) -> int:
        """Estimated cycles per element."""
        loads = self.records.shape[1] if self.per_channel else 0
        return _FORM_CYCLES[self.form] + loads - cal.PAIR_UNCLIPPED * self.fits


def _values(x: Tensor, step: Requant, values: _Integers) -> _Integers:
    """Return the results of a step for values of a tensor, shape (C or 1, values)."""
    return step.apply(np.clip(values, x.lo, x.hi)[None])


def _table(x: Tensor, step: Requant) -> Contribution | None:
    """Return the contribution of a byte whose step is the same for all channels."""
    if x.bits != 8 or step.is_channelwise:
        return None
    patterns = np.arange(256, dtype=np.int64)
    entries = _values(
        x, step, np.where(patterns > 127, patterns - 256, patterns) if x.signed else patterns
    )
    return Contribution(TABLE, entries.astype(np.int32))


def contribution(x: Tensor, step: Requant | None, elements: int) -> Contribution | None:
    """Return the cheapest contribution of a tensor with ``elements``; None when there is none."""
    if step is None or step.is_identity:
        return Contribution(PLAIN, np.zeros((1, 0), np.int32))
    ends = _values(x, step, np.array([x.lo, x.hi], dtype=np.int64))
    if not fits(INT32, int(ends.min()), int(ends.max())):
        return None
    one_addend = step.add_negative is None
    mul, add = (np.array(p, dtype=np.int64) for p in step.parameters[:2])
    if step.div == 1 and step.lo is None and one_addend:
        if not fits(INT32, *step.mul, *step.add):
            return None
        return Contribution(LINEAR, _records(mul, add))
    table = _table(x, step)
    numerators = [
        int(m) * end + int(a)
        for m, a in zip(*np.broadcast_arrays(mul, add), strict=True)
        for end in (x.lo, x.hi)
    ]
    shifts = step.shift is not None and step.shift < 64 and fits(INT32, *step.mul)
    if not (shifts and one_addend and fits(INT64, *numerators, *step.add)):
        return table
    if table is not None and elements >= _TABLE_ELEMENTS:
        return table
    clip = INT32 if step.lo is None or step.hi is None else (step.lo, step.hi)
    shift = step.shift or 0
    within = shift < 32 and fits(clip, *(number >> shift for number in numerators))
    return Contribution(SHIFTED, _records(mul, add, add >> 32), shift, clip, within)


def _records(*columns: _Integers) -> npt.NDArray[np.int32]:
    """Return columns of numbers modulo 2^32 as rows of words."""
    rows = np.stack(np.broadcast_arrays(*columns), axis=1)
    return (rows & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def _constant(layer: Layer) -> Contribution | None:
    """Return the contribution of the constant operand, after its step."""
    op = layer.of(ops.Pairwise)
    assert op.constant is not None
    values, step = op.constant.values.astype(np.int64), op.operand_requants[1]
    if step is not None:
        values = step.apply(values)
    if not fits(INT32, int(values.min()), int(values.max())):
        return None
    return Contribution(WORD, np.zeros((1, 0), np.int32), words=values.astype(np.int32))


@requantisation.cached_per_layer
def contributions(layer: Layer) -> tuple[Contribution, Contribution] | None:
    """Return the contributions of both operands; None when one of them has no form."""
    op = layer.of(ops.Pairwise)
    elements = layer.output.elements
    first = contribution(layer.inputs[0], op.operand_requants[0], elements)
    if op.constant is not None:
        second = _constant(layer)
    else:
        second = contribution(layer.inputs[1], op.operand_requants[1], elements)
    return None if first is None or second is None else (first, second)


@dataclass(frozen=True)
class PairKernel(ClusterKernel):
    """Element-wise function of two operands, of which the second may be smaller or a constant."""

    name = "dory_gap8_pair"
    summary = "sum, product, maximum, minimum of two operands"
    features = ClusterKernel.features | {Feature.OTHER_OPERAND}

    def accepts(self, layer: Layer) -> Rejection | None:
        """Whole bytes; accumulators and contributions of 32 bits."""
        op = layer.op
        if not isinstance(op, ops.Pairwise):
            return Rejection("it computes functions of two operands only", other_kind=True)
        names = ("first operand", "second operand")
        types = [reject_type(x, n, _OPERANDS) for x, n in zip(layer.inputs, names, strict=False)]
        checks = (
            *types,
            reject_type(layer.output, "output", _TYPES),
            reject_steps(op.operand_requants),
            reject_requants(layer, op.requants),
        )
        rejection = next((c for c in checks if c is not None), None)
        if rejection is None and any(x.hi > INT32[1] for x in layer.inputs):
            return Rejection("an operand exceeds 31 bits")
        if rejection is None and contributions(layer) is None:
            return Rejection("what an operand contributes has no form here")
        return rejection

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of tables, records and a constant operand."""
        first, second = self._operands(layer)
        chosen = epilogue(layer)
        last = tile.c_out * chosen.channel_bytes if chosen.per_channel else 0
        size = first.data_bytes(tile.c_out) + second.data_bytes(tile.c_out) + last
        return ceil_div(size, 8) * 8

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """Encode ``add`` of the first operand, ``weights`` of the second, ``mul`` of the result."""
        first, second = self._operands(layer)
        chunks = [("add", first.data(c_out)), ("weights", second.data(c_out))]
        last = epilogue(layer).part(c_out) if epilogue(layer).per_channel else None
        chunks += [] if last is None else [last]
        parts: dict[str, int] = {}
        data = b""
        for name, content in chunks:
            if content:
                parts[name] = len(data)
                data += content
        return WeightBlock(data + bytes(-len(data) % 8), parts) if data else None

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Elements of one core."""
        chosen = epilogue(layer)
        element = cal.PAIR_ELEMENT + (chosen.step_cycles if chosen.steps else 0)
        element += chosen.records.shape[1] if chosen.per_channel else 0
        element += sum(one.element_cycles for one in self._operands(layer))
        pixels, channels = tile.h * tile.w, tile.c_out
        if self._is_flat(layer):
            pixels, channels = 1, pixels * channels
        fours = ceil_div(channels, 4)
        ways = [
            ceil_div(pixels, self.cores // n) * (cal.PAIR_PIXEL + ceil_div(fours, n) * 4 * element)
            for n in (1, 2, 4, 8)
            if n <= self.cores
        ]
        return cal.CALL + (ways[0] if len(ways) == 1 else minimum(*ways))

    def label(self, layer: Layer) -> str:
        """Function, types, contributions and requantisation."""
        first, second = self._operands(layer)
        types = "_".join(t.type_name for t in (*layer.inputs, layer.output))
        forms = f"{first.suffix}_{second.suffix}" + ("_single" if self._one_channel(layer) else "")
        what = _KINDS[type(layer.op)]
        return f"{self.name}_{what}_{types}_{forms}{epilogue(layer).suffix or '_as_is'}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call for all elements of the tile."""
        first, second = self._operands(layer)
        chosen = epilogue(layer)
        flat = self._is_flat(layer)
        arguments: list[tuple[str, Argument]] = [
            ("x", Operand("x")),
            ("x2", Operand("weights" if second.form == WORD else "x2")),
            ("y", Operand("y")),
            ("pixels", 1 if flat else size("y_h") * size("y_w")),
            ("y_w", 1 if flat else size("y_w")),
            ("channels", size("y_h") * size("y_w") * size("y_c") if flat else size("y_c")),
            *self._places(layer),
        ]
        for n, (one, part) in enumerate(((first, "add"), (second, "weights"))):
            arguments += _operand_arguments(n, one, part)
        if chosen.steps:
            arguments.append(("requant", chosen.struct(arrays=False)))
        return call_text(self.symbol(layer), "pair", arguments)

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        first, second = self._operands(layer)
        x, y = layer.inputs[0].type_name, layer.output.type_name
        x2 = "i32" if second.form == WORD else layer.inputs[1].type_name
        what = _KINDS[type(layer.op)]
        macros = (
            ("DORY_X_T", c_type(x)),
            ("DORY_X2_T", c_type(x2)),
            ("DORY_Y_T", c_type(y)),
            ("DORY_PAIR", f"DORY_PAIR_{what.upper()}"),
            ("DORY_FORM1", first.form),
            ("DORY_CHANNELS1", str(int(first.per_channel))),
            ("DORY_FITS1", str(int(first.fits))),
            ("DORY_FORM2", second.form),
            ("DORY_CHANNELS2", str(int(second.per_channel))),
            ("DORY_FITS2", str(int(second.fits))),
            ("DORY_ONE_CHANNEL", str(int(self._one_channel(layer)))),
            ("DORY_PIXEL_CHANNELS", str(cal.PAIR_PIXEL_CHANNELS)),
            *epilogue(layer).macros,
        )
        purpose = f"{what.capitalize()} of {x} and {x2} to {y}, operands of any size."
        return Instance("pair", self.label(layer), purpose, macros)

    def _places(self, layer: Layer) -> Arguments:
        """Return where the second operand's elements lie: steps from row to row and so on."""
        one_channel, one_row, one_column = self._shared(layer)
        constant = layer.of(ops.Pairwise).constant
        channels = 1 if one_channel else size("y_c")
        width = 1 if one_column else size("y_w") if constant is None else layer.output.width
        row = 0 if one_row else width * channels
        column = 0 if one_column else channels
        if self._is_flat(layer):
            return (("row", 0), ("column", 0), ("first", 0))
        first = 0 if constant is None else size("y_row") * row + size("y_column") * column
        return (("row", row), ("column", column), ("first", first))

    def _shared(self, layer: Layer) -> tuple[bool, bool, bool]:
        """Return along which axes (C, H, W) one element of the second operand serves all."""
        constant = layer.of(ops.Pairwise).constant
        total = layer.output.shape
        if constant is None:
            sizes: Sequence[int] = layer.inputs[1].shape
            c, h, w = (mine != all_ for mine, all_ in zip(sizes, total, strict=True))
            return c, h, w
        words = self._operands(layer)[1].words
        assert words is not None
        c, h, w = (mine == 1 for mine in words.shape)
        return c, h, w

    def _one_channel(self, layer: Layer) -> bool:
        return self._shared(layer)[0]

    def _is_flat(self, layer: Layer) -> bool:
        """Return True when a tile is one run of elements for both operands."""
        by_channel = epilogue(layer).per_channel or any(
            one.per_channel for one in self._operands(layer)
        )
        shared = self._shared(layer)
        constant = layer.of(ops.Pairwise).constant is not None
        return not by_channel and (all(shared) or not (constant or any(shared)))

    @staticmethod
    def _operands(layer: Layer) -> tuple[Contribution, Contribution]:
        found = contributions(layer)
        if found is None:
            raise TypeError("the layer was rejected")
        return found


def _operand_arguments(n: int, one: Contribution, part: str) -> Arguments:
    """Return the arguments of a contribution: its records, and how it is shifted and clipped."""
    if one.form in (PLAIN, WORD):
        return ()
    if one.form == TABLE or one.per_channel:
        records: Argument = Operand(part, "const int32_t *")
    else:
        records = Items(tuple(int(word) for word in one.records[0]), "const int32_t")
    found: list[tuple[str, Argument]] = [(f"operand[{n}].records", records)]
    if one.form == SHIFTED:
        found.append((f"operand[{n}].shift", one.shift))
    if one.form == SHIFTED and not one.fits:
        lo, hi = one.clip
        found += [
            (f"operand[{n}].lo", Symbol(f"(int32_t){c_int(lo)}")),
            (f"operand[{n}].hi", hi),
        ]
    return tuple(found)
