"""Residual sums of bytes: operands by products or by table, what follows by shift or by table.

A byte has 256 values: whatever its requantisation is, a table of 256 entries does the same. And
whatever follows the sum does, a table over all sums does the same.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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
    Tensor,
    WeightBlock,
    ceil_div,
    ops,
    reject_type,
    requantisation,
    size,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.instance import (
    HALVES,
    ClusterKernel,
    Instance,
    c_type,
    call_text,
    reject_channelwise,
    tile_arguments,
)
from dory_gap8.backend.requant import reject_requants
from dory_gap8.backend.steps import INT32, fits, reject_steps

if TYPE_CHECKING:
    from dory_core.api import Tile

# Bytes of a table over sums, and between tables, see ``dory_gap8_add_bytes_impl.h``.
MOST_SUMS = 2048
GAP = 24

DOT, TABLES, HALF = "DORY_ADD_DOT", "DORY_ADD_TABLES", "DORY_ADD_HALVES"
PRODUCTS = "DORY_ADD_PRODUCTS"
SHIFTED, LOOKUP, STORE = "DORY_ADD_SHIFT", "DORY_ADD_LOOKUP", "DORY_ADD_STORE"
_OUTPUTS = ("u8", "i8", "u16", "i16", "i32", HALVES)

Values = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Addend:
    """One operand. values: what it contributes, for each bit pattern of a byte.

    mul, add: the contribution is mul * x + add; mul is None where it is not.
    """

    values: Values
    reachable: npt.NDArray[np.bool_]
    mul: int | None
    add: int

    @property
    def lo(self) -> int:
        """The least contribution that can occur."""
        return int(self.values[self.reachable].min())

    @property
    def hi(self) -> int:
        """The greatest contribution that can occur."""
        return int(self.values[self.reachable].max())


@dataclass(frozen=True, slots=True, eq=False)
class Scheme:
    """How a sum is computed, see ``dory_gap8_add_bytes_impl.h``.

    tables: operands' tables and the table of sums, as they lie in memory. entries: bytes of an
    entry of the operands' tables.
    """

    form: str
    finish: str
    mul: tuple[int, int] = (0, 0)
    entries: int = 1
    tables: bytes = b""
    add: int = 0
    shift: int = 0
    hi: int = 0

    @property
    def cycles_tenths(self) -> int:
        """Estimated tenths of a cycle per element."""
        if self.form == HALF:
            return cal.ADD_BYTES_HALVES
        tables = cal.ADD_BYTES_TABLES if self.entries == 1 else cal.ADD_BYTES_WORDS
        forms = {DOT: cal.ADD_BYTES_DOT, PRODUCTS: cal.ADD_BYTES_PRODUCTS, TABLES: tables}
        finish = {
            SHIFTED: cal.ADD_BYTES_SHIFT,
            LOOKUP: cal.ADD_BYTES_LOOKUP,
            STORE: cal.ADD_BYTES_STORE,
        }
        return forms[self.form] + finish[self.finish]


def _operand(x: Tensor, step: Requant | None) -> Addend:
    patterns = np.arange(256, dtype=np.int64)
    inputs = np.where(patterns > 127, patterns - 256, patterns) if x.signed else patterns
    reachable = (inputs >= x.lo) & (inputs <= x.hi)
    if step is None:
        return Addend(inputs, reachable, 1, 0)
    values = step.apply(np.clip(inputs, x.lo, x.hi)[None])[0]
    if step.div == 1 and step.lo is None and step.add_negative is None:
        return Addend(values, reachable, step.mul[0], step.add[0])
    return Addend(values, reachable, None, 0)


def _apply(steps: tuple[Requant, ...], acc: Values) -> Values:
    for step in steps:
        acc = step.apply(acc[None])[0]
    return acc


def _scheme(layer: Layer) -> Scheme | None:
    """Return the cheapest scheme, None when there is none."""
    kind = layer.of(ops.Add)
    steps = kind.requants
    one, two = (
        _operand(x, step) for x, step in zip(layer.inputs, kind.operand_requants, strict=True)
    )
    if layer.output.halves:
        plain = not steps and all((o.mul, o.add) == (1, 0) for o in (one, two))
        bytewise = not any(x.signed for x in layer.inputs)
        return Scheme(HALF, STORE) if plain and bytewise else None
    lo, hi = one.lo + two.lo, one.hi + two.hi
    alike = layer.inputs[0].signed == layer.inputs[1].signed
    dot = alike and all(o.mul is not None and 0 <= o.mul <= 255 for o in (one, two))
    if dot:
        offset = one.add + two.add
        base = Scheme(DOT, STORE, (one.mul or 0, two.mul or 0))
        tables = b""
    elif (products := _products(one, two)) is not None:
        base, offset, tables = products, one.add + two.add, b""
    else:
        tables, entries, offset = _operand_tables(one, two)
        base = Scheme(TABLES, STORE, entries=entries, tables=tables)
    if not steps:
        return _with(base, STORE, add=offset)
    if layer.output.bits != 8:
        return _of_16_bits(layer, one, two)
    # A table goes by what the first step leaves of the sum, where that is only a shift.
    first, shift, add = steps[0], 0, 0
    if first.mul == (1,) and _shifts(first) and fits(INT32, lo + first.add[0], hi + first.add[0]):
        shift, add = first.shift or 0, first.add[0]
        if len(steps) == 1 and _is_clip((first.lo, first.hi)):
            return _with(base, SHIFTED, add + offset, shift, first.hi or 0)
    least = (lo + add) >> shift
    count = ((hi + add) >> shift) - least + 1
    # The kernel shifts a sum from which the least was taken: 33 bits where both ends are far.
    if count <= MOST_SUMS and fits(INT32, hi + add - (least << shift)):
        sums = np.minimum(((np.arange(count) + least) << shift) - add + (1 << shift) - 1, hi)
        lookup = _apply(steps, sums).astype(np.int8).tobytes()
        moved = offset + add - (least << shift)
        return _with(base, LOOKUP, moved, shift, tables=tables + lookup)
    return _multiplied(layer, one, two)


def _products(one: Addend, two: Addend, mul: int = 1) -> Scheme | None:
    """Return the form for operands that are products, times ``mul``, which 32 bits hold."""
    if one.mul is None or two.mul is None:
        return None
    ends = [sorted((mul * (o.lo - o.add), mul * (o.hi - o.add))) for o in (one, two)]
    (lo, hi), (lo_2, hi_2) = ends
    held = fits(INT32, lo, hi, lo_2, hi_2, lo + lo_2, hi + hi_2)
    return Scheme(PRODUCTS, STORE, (one.mul * mul, two.mul * mul)) if held else None


def _shifts(step: Requant) -> bool:
    """Return True for a product, an addend and a shift, in integers."""
    integers = not step.float32 and not step.turn and step.add_negative is None
    return integers and step.shift is not None


def _is_clip(clip: tuple[int | None, int | None]) -> bool:
    """Return True for a clip that is one instruction."""
    lo, hi = clip
    return lo is not None and hi is not None and hi >= 0 and lo in (0, -hi - 1)


def _with(
    base: Scheme, finish: str, add: int, shift: int = 0, hi: int = 0, tables: bytes | None = None
) -> Scheme | None:
    if not fits(INT32, add) or shift > 31:
        return None
    data = base.tables if tables is None else tables
    return replace(base, finish=finish, tables=data, add=add, shift=shift, hi=hi)


def _operand_tables(one: Addend, two: Addend) -> tuple[bytes, int, int]:
    """Return the tables of both operands, the bytes of an entry and what both leave out."""
    if all(o.hi - o.lo <= 255 for o in (one, two)):
        moved = [np.clip(o.values, o.lo, o.hi) - o.lo - 128 for o in (one, two)]
        return _tables(m.astype(np.int8) for m in moved), 1, one.lo + two.lo + 256
    return _tables(o.values.astype("<i4") for o in (one, two)), 4, 0


def _tables(tables: Iterable[npt.NDArray[Any]]) -> bytes:
    """Return tables as they lie in memory; gaps put equal entries into different banks."""
    return b"".join(table.tobytes() + bytes(GAP) for table in tables)


def _of_16_bits(layer: Layer, one: Addend, two: Addend) -> Scheme | None:
    """Return a scheme of outputs of 16 bits: one shift is left of a step, and a clip."""
    step, y = layer.of(ops.Add).requants[0], layer.output
    if len(layer.of(ops.Add).requants) > 1 or y.bits != 16 or not _shifts(step):
        return None
    # What is not clipped lies within the type.
    ends = (-(1 << 15), (1 << 15) - 1) if y.signed else (0, (1 << 16) - 1)
    clip = ends if (step.lo, step.hi) == (None, None) else (step.lo, step.hi)
    if not _is_clip(clip) or (clip[0] == 0) == y.signed:
        return None
    parts = _parts(one, two, step.mul[0], step.add[0])
    if parts is None:
        return None
    base = Scheme(TABLES, SHIFTED, entries=4, tables=parts)
    return _with(base, SHIFTED, step.add[0], step.shift, clip[1] or 0)


def _parts(one: Addend, two: Addend, mul: int, add: int) -> bytes | None:
    """Return the tables of operands that are multiplied; None where 32 bits do not hold them."""
    parts = [np.clip(o.values, o.lo, o.hi) * mul for o in (one, two)]
    bounds = [int(parts[0].min() + parts[1].min()), int(parts[0].max() + parts[1].max())]
    each = [int(end) for part in parts for end in (part.min(), part.max())]
    if not fits(INT32, *bounds, *(bound + add for bound in bounds), *each):
        return None
    return _tables(part.astype("<i4") for part in parts)


def _multiplied(layer: Layer, one: Addend, two: Addend) -> Scheme | None:
    """Return a scheme whose tables have been multiplied: one shift is left."""
    steps = layer.op.requants
    last = steps[-1]
    ends = one.lo + two.lo, one.hi + two.hi
    stairs = requantisation.staircase(steps, np.array([ends[0]]), np.array([ends[1]]))
    found = None if stairs is None else requantisation.narrow_32(stairs)
    if found is None or not _is_clip((last.lo, last.hi)):
        return None
    mul, add = int(found.mul[0]), int(found.add[0])
    base = _products(one, two, mul)
    if base is not None and fits(INT32, *(add + mul * end for end in ends)):
        offset = add + mul * (one.add + two.add)
        return _with(base, SHIFTED, offset, found.shift, last.hi or 0)
    tables = _parts(one, two, mul, 0)
    if tables is None:
        return None
    base = Scheme(TABLES, SHIFTED, entries=4, tables=tables)
    return _with(base, SHIFTED, add, found.shift, last.hi or 0)


@functools.lru_cache(maxsize=64)
def _known(layer: Layer) -> Scheme | None:
    return _scheme(layer)


@dataclass(frozen=True)
class AddBytesKernel(ClusterKernel):
    """Element-wise sum of two tensors of bytes, each requantised, and so is the sum."""

    name = "dory_gap8_add_bytes"
    summary = "residual sum of bytes"
    features = ClusterKernel.features | {Feature.HALVES}

    def accepts(self, layer: Layer) -> Rejection | None:
        """8-bit operands; what follows the sum is a shift, a table or nothing."""
        kind = layer.op
        if not isinstance(kind, ops.Add):
            return Rejection("it adds two tensors only")
        steps = [r for r in (*kind.operand_requants, *kind.requants) if r is not None]
        checks = (
            reject_channelwise(steps),
            reject_type(layer.inputs[0], "first operand", ("u8", "i8")),
            reject_type(layer.inputs[1], "second operand", ("u8", "i8")),
            reject_type(layer.output, "output", _OUTPUTS),
            reject_requants(layer, kind.requants),
            reject_steps(kind.operand_requants),
        )
        rejection = next((c for c in checks if c is not None), None)
        if rejection is None and _known(layer) is None:
            if layer.output.halves:
                return Rejection("only a plain sum of unsigned bytes is stored in two halves")
            return Rejection("what follows its sum is neither a shift nor a table of 2 KiB")
        return rejection

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The tables, the same for every tile."""
        return ceil_div(len(self._scheme(layer).tables), 8) * 8

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """The tables."""
        tables = self._scheme(layer).tables
        return WeightBlock(tables + bytes(-len(tables) % 8), {"weights": 0}) if tables else None

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Elements of one core, four at a time."""
        fours = ceil_div(ceil_div(tile.h * tile.w * tile.c_out, 4), self.cores)
        return cal.ADD_BYTES_CALL + fours * 4 * self._scheme(layer).cycles_tenths // 10

    def label(self, layer: Layer) -> str:
        """Types and scheme."""
        scheme = self._scheme(layer)
        types = "_".join(t.type_name for t in (*layer.inputs, layer.output))
        if scheme.form == HALF:
            return f"{self.name}_{types}"
        tables = f"tables{8 * scheme.entries}"
        form = {DOT: "dot", PRODUCTS: "products", TABLES: tables}[scheme.form]
        finish = {SHIFTED: "shift", LOOKUP: "lookup", STORE: "store"}[scheme.finish]
        if scheme.finish == LOOKUP and not (scheme.add or scheme.shift):
            finish = "lookup_as_is"
        return f"{self.name}_{types}_{form}_{finish}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call for all elements of the tile."""
        scheme = self._scheme(layer)
        arguments: list[tuple[str, Argument]] = [
            *tile_arguments("x", "x2", "y"),
            ("elements", size("y_h") * size("y_w") * size("y_c")),
        ]
        if scheme.tables:
            arguments.append(("tables", Operand("weights")))
        if scheme.form in (DOT, PRODUCTS):
            arguments += [("mul", scheme.mul[0]), ("mul2", scheme.mul[1])]
        if scheme.form != HALF:
            arguments.append(("add", scheme.add))
        if scheme.finish != STORE:
            arguments.append(("shift", scheme.shift))
        if scheme.finish == SHIFTED:
            arguments.append(("hi", scheme.hi))
        return call_text(self.symbol(layer), "add_bytes", arguments)

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        scheme = self._scheme(layer)
        x, x2, y = (t.type_name for t in (*layer.inputs, layer.output))
        moved = scheme.finish == SHIFTED or bool(scheme.add or scheme.shift)
        macros = (
            ("DORY_X_T", c_type(x)),
            ("DORY_X2_T", c_type(x2)),
            ("DORY_Y_T", c_type(y)),
            ("DORY_Y_BYTES", str(layer.output.bits // 8)),
            ("DORY_X_SIGNED", str(int(x[0] == "i"))),
            ("DORY_X2_SIGNED", str(int(x2[0] == "i"))),
            ("DORY_Y_SIGNED", str(int(y[0] == "i"))),
            ("DORY_ADD_FORM", scheme.form),
            ("DORY_ADD_FINISH", scheme.finish),
            ("DORY_ADD_BYTES", str(int(scheme.entries == 1))),
            ("DORY_ADD_MOVED", str(int(moved))),
            ("DORY_CORES", str(self.cores)),
        )
        purpose = f"Residual sum of bytes, {x} and {x2} to {y}."
        return Instance("add_bytes", self.label(layer), purpose, macros)

    @staticmethod
    def _scheme(layer: Layer) -> Scheme:
        scheme = _known(layer)
        if scheme is None:
            raise TypeError("the layer was rejected")
        return scheme
