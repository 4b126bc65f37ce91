"""What the portable kernels share: costs, constants, calls."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, get_args

import numpy.typing as npt

from dory_core.expr import Number, ceil_div, maximum
from dory_core.hardware.memories import STORAGE_BITS
from dory_core.hardware.target import OutputFile
from dory_core.ir import (
    Layer,
    Op,
    Requant,
    Tensor,
    Window,
)
from dory_core.ir.features import FEATURES, Feature
from dory_core.ir.geometry import (
    Tile,
    extent,
    input_granule,
    is_channelwise,
    output_granule,
)
from dory_core.ir.packing import pack_rows
from dory_core.kernels import constants
from dory_core.kernels.call import (
    Argument,
    FunctionCall,
    Items,
    Local,
    Operand,
    Struct,
    Symbol,
    named,
)
from dory_core.kernels.kernel import (
    Constraint,
    Kernel,
    Rejection,
    Traits,
    WeightBlock,
)

SOURCES = Path(__file__).parent / "c"
_COMMON = ("dory_portable.h", "dory_portable_elements.h", "dory_portable_float.h")
_WEIGHT_BITS = (2, 4, 8, 16)
#: Header of most kinds; the others have one of their own.
KINDS_HEADER = "dory_portable_kinds.h"
_AXES = ("row", "column", "channel")
#: Declaration of where the tiles of input and output begin.
PLACES = Local(
    "const dory_portable_places_t",
    "places",
    Items(tuple(Items((*named(*(f"{t}_{n}" for n in _AXES)).values(),)) for t in "xy")),
)


@dataclass(frozen=True, slots=True)
class PortableCosts:
    """Cycles of a core in the loops of the portable kernels, for estimates.

    The defaults were counted from the loops for a core without SIMD or 64-bit registers.

    Attributes:
        call: Of each call.
        output: Of each element.
        step: In addition of each requantisation by a shift.
        division: In addition of each requantisation by a division.
        tap: Of each tap of a window.
        mac: In addition of each product of bytes.
        generic_mac: In addition of each product of other precisions, or of sums beyond 32 bits.
        element: In addition of each element without a product.
    """

    call: int = 100
    output: int = 40
    step: int = 60
    division: int = 250
    tap: int = 20
    mac: int = 8
    generic_mac: int = 24
    element: int = 16


COUNTED = PortableCosts()


@dataclass(frozen=True, slots=True)
class Portable(Kernel):
    """What the portable kernels share.

    Attributes:
        cores: Number of cores that share a tile.
        in_place: As of :class:`Traits`.
        engine: As of :class:`Kernel`.
        costs: Cycles of the target's core.
    """

    cores: int = 1
    in_place: bool = False
    engine: str = ""
    costs: PortableCosts = COUNTED
    features = FEATURES - {Feature.HALVES}
    kind: ClassVar[type[Op] | UnionType]
    parts: ClassVar[tuple[str, ...]] = ()

    def accepts(self, layer: Layer) -> Rejection | None:
        """Reject other kinds, and storage or constants beyond the C code."""
        if not isinstance(layer.op, self.kind):
            kinds = get_args(self.kind) or (self.kind,)
            names = " and ".join(kind.__name__ for kind in kinds)
            other = f"it computes {names}, not {layer.op.kind}"
            return Rejection(other, other_kind=True)
        for tensor in (*layer.inputs, layer.output):
            if tensor.bits not in STORAGE_BITS:
                return Rejection(
                    f"{tensor.name} has {tensor.bits} bits in storage, portable kernels know "
                    f"{', '.join(str(b) for b in STORAGE_BITS)}"
                )
        reason = constants.unsuitable_step(self._steps(layer)) or self._unsuitable(layer)
        return None if reason is None else Rejection(reason)

    def _unsuitable(self, layer: Layer) -> str | None:
        return None

    def _steps(self, layer: Layer) -> tuple[Requant, ...]:
        """Return every requantisation in the order of the parameter table."""
        return layer.op.requants

    def traits(self, layer: Layer) -> Traits:
        """Return True when it works in place."""
        return Traits(in_place=self.in_place)

    def constraints(self, layer: Layer, tile: Tile) -> tuple[Constraint, ...]:
        """Keep groups whole, and tiles of sub-byte channels on byte borders."""
        full = extent(layer)
        axes = [
            ("output", tile.c_out, full.c_out, output_granule(layer)),
            ("input", tile.c_in, full.c_in, 1 if is_channelwise(layer) else input_granule(layer)),
        ]
        return tuple(
            Constraint(
                maximum(size % granule == 0, size == total),
                f"{name} channels come in whole groups and bytes: multiples of {granule}",
            )
            for name, size, total, granule in axes
            if granule > 1
        )

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of tables, biases and weights."""
        return constants.padded(constants.table_bytes(self._steps(layer), tile.c_out))

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """Encode the requantisation tables as part ``mul``."""
        steps = self._steps(layer)
        return constants.block([("mul", constants.table(steps, c_out))]) if steps else None

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return cycles of the core with the largest share of the outputs."""
        per_unit = per_byte(layer.output)
        units = tile.h * tile.w * ceil_div(tile.c_out, per_unit)
        steps = self._steps(layer)
        costs = self.costs
        output = costs.output + sum(
            costs.step if s.shift is not None or s.float32 else costs.division for s in steps
        )
        each = output + self._sum_cycles(layer, tile)
        return costs.call + ceil_div(units, self.cores) * per_unit * each

    @abstractmethod
    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return cycles of the accumulator of one output."""

    def symbol(self, layer: Layer) -> str:
        """Return the C function, which is also the kernel's name."""
        return self.name

    def headers(self, layer: Layer) -> tuple[str, ...]:
        """Return the header of all portable kernels."""
        return _COMMON[:1]

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        """Return the headers and the one C file of the kind."""
        return _sources(f"{self.symbol(layer)}.c", *self.parts)

    def _call(
        self,
        layer: Layer,
        type_: str,
        fields: Mapping[str, Argument],
        arguments: Mapping[str, Argument],
        before: Iterable[Local] = (),
    ) -> FunctionCall:
        """Return the call with constants of the layer and sizes of the tile before it.

        Args:
            layer: The layer.
            type_: Type of the constants in C.
            fields: Their members.
            arguments: Those after the layer and the tile.
            before: Further variables of the call.
        """
        steps = constants.step_values(self._steps(layer))
        table = (Local("static const dory_portable_step_t", "steps[]", Items(steps)),)
        sizes = (*(f"{t}_{n}" for t in "xy" for n in "hwc"), "pad_top", "pad_left")
        variables = (
            *(table if steps else ()),
            *before,
            Local(f"static const {type_}", "layer", Struct(fields)),
            Local("const dory_portable_tile_t", "tile", Struct(named(*sizes))),
        )
        first = {"layer": Symbol("&layer"), "tile": Symbol("&tile")}
        return FunctionCall(self.symbol(layer), {**first, **arguments}, variables)

    def _table(self, layer: Layer) -> Argument:
        return Operand("mul") if self._steps(layer) else None


class Accumulating(Portable):
    """Conv and Linear: weights, bias and partial sums over tiles of input channels."""

    __slots__ = ()

    def _unsuitable(self, layer: Layer) -> str | None:
        weights = layer.weighted.weights.values
        lo, hi = int(weights.min()), int(weights.max())
        bits = min(layer.weighted.weight_bits, _WEIGHT_BITS[-1])
        half = 1 << bits - 1
        if lo < -half or hi >= (half if lo < 0 else 2 * half):
            return f"weights in [{lo}, {hi}] do not fit {bits} bits"
        return None

    def traits(self, layer: Layer) -> Traits:
        """Partial sums of 32 bits; inputs of grouped convolutions follow the outputs."""
        wide = Feature.WIDE_SUMS in layer.features
        return Traits(accumulates=not (wide or is_channelwise(layer)), in_place=self.in_place)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of tables, biases and weights; every row of weights starts on a byte."""
        kind = layer.weighted
        size = constants.table_bytes(self._steps(layer), tile.c_out)
        if kind.bias is not None:
            size = size + 4 * tile.c_out
        rows, length = self._weight_rows(layer, tile)
        row_bytes = ceil_div(length * weight_type(layer)[0], 8)
        return constants.padded(size + tile.c_out * rows * row_bytes)

    @abstractmethod
    def _weight_rows(self, layer: Layer, tile: Tile) -> tuple[int, Number]:
        """Return the rows of weights of one output channel, and the weights of a row."""

    def _fan_in(self, layer: Layer, tile: Tile) -> Number:
        """Return the weights of one output channel."""
        rows, length = self._weight_rows(layer, tile)
        return rows * length

    @abstractmethod
    def _rows(self, layer: Layer, c_out: slice, c_in: slice) -> npt.NDArray[Any]:
        """Return the weights of a range of channels, one row along the last axis."""

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """Encode the parts ``mul`` (all tables), ``bias`` (int32) and ``weights``."""
        bias = layer.bias
        parts = [("mul", constants.table(self._steps(layer), c_out))]
        if bias is not None:
            parts.append(("bias", bias.values[slice(*c_out)].astype("<i4").tobytes()))
        rows = self._rows(layer, slice(*c_out), slice(*c_in))
        parts.append(("weights", pack_rows(rows, *weight_type(layer)).tobytes()))
        return constants.block(parts)

    def _mac_cycles(self, layer: Layer) -> int:
        x, ranges = layer.inputs[0], layer.ranges
        has_long_sums = max(-ranges.acc_lo - 1, ranges.acc_hi) >= 1 << 31
        if weight_type(layer) != (8, True) or has_long_sums:
            return self.costs.generic_mac
        if x.bits == 16 and x.signed:
            return self.costs.mac + self.costs.mac // 2  # loads that need no alignment
        return self.costs.mac if x.bits == 8 else self.costs.generic_mac

    def _accumulating_call(
        self, layer: Layer, type_: str, fields: Mapping[str, Argument]
    ) -> FunctionCall:
        x, y = layer.inputs[0], layer.output
        sums: dict[str, Argument] = {"psum": None, "first": 1, "last": 1}
        if self.traits(layer).accumulates:
            sums = named(*sums)
        return self._call(
            layer,
            type_,
            {
                "x": c_type(x),
                "y": c_type(y),
                "w": type_items(*weight_type(layer)),
                **fields,
                "steps": steps_of(0, len(self._steps(layer))),
            },
            {
                **named("x", "weights"),
                "bias": Operand("bias") if layer.bias is not None else None,
                "steps": self._table(layer),
                **sums,
                "y": Operand("y"),
            },
        )


class PortableKind(Portable):
    """What the kernels of ``dory_portable_kinds.h`` share."""

    __slots__ = ()
    parts: ClassVar[tuple[str, ...]] = (KINDS_HEADER,)

    def headers(self, layer: Layer) -> tuple[str, ...]:
        """Return the header of the kernel."""
        return (KINDS_HEADER,)

    def _table_block(self, layer: Layer, c_out: tuple[int, int], data: bytes) -> WeightBlock:
        steps = self._steps(layer)
        parts = [("mul", constants.table(steps, c_out))] if steps else []
        return constants.block([*parts, ("weights", data)])

    def _with_table(self, layer: Layer, tile: Tile, size: Number) -> Number:
        return constants.padded(constants.table_bytes(self._steps(layer), tile.c_out) + size)

    def _io(self, layer: Layer) -> dict[str, Argument]:
        return {"x": c_type(layer.inputs[0]), "y": c_type(layer.output)}

    def _io_and_steps(self, layer: Layer, **more: Argument) -> dict[str, Argument]:
        return {**self._io(layer), **more, "steps": steps_of(0, len(layer.op.requants))}


@cache
def _sources(*names: str) -> tuple[OutputFile, ...]:
    files = (
        OutputFile.from_package(SOURCES / file, f"kernels/{file}") for file in (*_COMMON, *names)
    )
    return tuple(_shared(file) if file.path.endswith(".c") else file for file in files)


def _shared(file: OutputFile) -> OutputFile:
    """Return a kernel that networks of one program may each bring; one of them is linked."""
    weak = (
        f"/* Networks of one program may each bring it. */\n#pragma weak {Path(file.path).stem}\n"
    )
    return OutputFile(file.path, f"{weak}{file.content!s}")


def weight_type(layer: Layer) -> tuple[int, bool]:
    """Return (bits, signed) of the stored weights; unsigned when only that holds them all."""
    kind = layer.weighted
    bits = next(width for width in _WEIGHT_BITS if width >= min(kind.weight_bits, _WEIGHT_BITS[-1]))
    return bits, kind.weights.bounds[1] < 1 << bits - 1


def per_byte(tensor: Tensor) -> int:
    """Return the elements that share a byte."""
    return 8 // tensor.bits if tensor.bits < 8 else 1


def type_items(bits: int, signed: bool) -> Items:
    """Return a ``dory_portable_type_t``."""
    return Items((bits, int(signed)))


def c_type(tensor: Tensor) -> Items:
    """Return the ``dory_portable_type_t`` of a tensor."""
    return type_items(tensor.bits, tensor.signed)


def c_window(window: Window) -> Items:
    """Return a ``dory_portable_window_t``."""
    return Items((*window.kernel, *window.strides, *window.dilations))


def steps_of(start: int, count: int) -> Items:
    """Return ``count`` steps of the table from ``start`` on."""
    if count == 0:
        return Items((None, 0))
    return Items((Symbol(f"steps + {start}" if start else "steps"), count))


def packed(values: npt.NDArray[Any], bits: int, signed: bool) -> bytes:
    """Return values one after the other, as elements of ``bits`` bits."""
    return pack_rows(values.reshape(1, -1), bits, signed).tobytes()
