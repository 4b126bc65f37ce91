"""Residual sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dory_core.api import (
    FunctionCall,
    Layer,
    Number,
    OutputFile,
    Rejection,
    Requant,
    Tensor,
    Tile,
    ops,
    reject_type,
    requantisation,
)
from dory_stm32h7 import calibration as costs
from dory_stm32h7.backend.epilogue import Line, epilogue, reject_epilogue
from dory_stm32h7.backend.instance import (
    OUTPUTS,
    InstanceKernel,
    tile_arguments,
    type_macros,
)
from dory_stm32h7.backend.weighted import output_extra

_OPERANDS = ("u8", "i8", "u16", "i16")


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """What happens to an operand before the sum. form: its macro; line: None as it is."""

    form: str
    line: Line | None = None

    @property
    def token(self) -> str:
        """The part of an instance's name."""
        return self.form.removeprefix("DORY_").lower()


class AddKernel(InstanceKernel):
    """Element-wise sum of two tensors, a requantisation for each operand and for the sum."""

    name = "dory_stm32h7_add"
    template = "add"
    summary = "Residual sum"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Parameters of all requantisations are the same for all channels."""
        kind = layer.op
        if not isinstance(kind, ops.Add):
            return Rejection("it adds two tensors only")
        steps = [r for r in (*kind.operand_requants, *kind.requants) if r is not None]
        if any(len(p) > 1 for r in steps for p in r.parameters):
            return Rejection("its requantisation differs from channel to channel")
        rejection = (
            reject_type(layer.inputs[0], "first operand", _OPERANDS)
            or reject_type(layer.inputs[1], "second operand", _OPERANDS)
            or reject_type(layer.output, "output", OUTPUTS)
            or reject_epilogue(layer)
        )
        if rejection is None and any(o is None for o in _operands(layer)):
            return Rejection("no 32-bit numbers have exactly the values of an operand's step")
        return rejection

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Elements."""
        element = costs.ADD_ELEMENT + output_extra(epilogue(layer))
        forms = [o.form for o in _operands(layer) if o is not None and o.form != "DORY_AS_IS"]
        element += (0, costs.ADD_SCALED, costs.ADD_SCALED_BOTH)[len(forms)]
        element += costs.ADD_CLIPPED * forms.count("DORY_CLIPPED")
        return costs.CALL + tile.h * tile.w * tile.c_out * element

    def symbol(self, layer: Layer) -> str:
        """Types, operands that are requantised, requantisation of the sum."""
        types = "_".join(t.type_name for t in (*layer.inputs, layer.output))
        operands = "".join(f"_{o.token}" for o in _operands(layer) if o is not None)
        return f"{self.name}_{types}{operands}{epilogue(layer).suffix}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call for all elements of the tile."""
        lines = [
            "{.shift = 0}" if o is None or o.line is None else o.line.initialiser()
            for o in _operands(layer)
        ]
        arguments = (
            *tile_arguments("x", "x2", "y"),
            ("elements", "$y_h * $y_w * $y_c"),
            ("operand", "{" + ", ".join(lines) + "}"),
            ("requant", epilogue(layer).initialiser(arrays=False)),
        )
        return self.instance_call(layer, arguments)

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        """The instance and the templates."""
        operands = enumerate(_operands(layer), 1)
        macros = (
            *type_macros("X", layer.inputs[0]),
            *type_macros("X2", layer.inputs[1]),
            *type_macros("Y", layer.output),
            *((f"DORY_OPERAND{n}", o.form) for n, o in operands if o is not None),
            *epilogue(layer).macros,
        )
        return self.instance(layer, macros)


@requantisation.cached_per_layer
def _operands(layer: Layer) -> tuple[Operand | None, ...]:
    """Return both operands; None where no 32-bit arithmetic has its values."""
    kind = layer.add
    return tuple(_operand(r, x) for r, x in zip(kind.operand_requants, layer.inputs, strict=True))


def _operand(step: Requant | None, x: Tensor) -> Operand | None:
    if step is None or step.is_identity:
        return Operand("DORY_AS_IS")
    if step.div == 1 and step.lo is None and step.add_negative is None:
        ends = [step.mul[0] * v + step.add[0] for v in (x.lo, x.hi)]
        if max(*map(abs, (*ends, step.mul[0], step.add[0]))) < 1 << 31:
            mul, add = (np.array(values, dtype=np.int64) for values in (step.mul, step.add))
            return Operand("DORY_SCALED", Line(mul, add, 0, None))
    stairs = requantisation.staircase((step,), np.array([x.lo]), np.array([x.hi]))
    found = None if stairs is None else requantisation.narrow_32(stairs)
    if found is None or stairs is None:
        return None
    clip = stairs.clip
    mul, add = (v.astype(np.int32).astype(np.int64) for v in (found.mul, found.add))
    # Steep lines may overshoot the bounds, flat ones need no clip when their ends are inside.
    ends = [(int(found.mul[0]) * v + int(found.add[0])) >> found.shift for v in (x.lo, x.hi)]
    if clip is None or (clip[0] <= min(ends) and max(ends) <= clip[1]):
        return Operand("DORY_SCALED", Line(mul, add, found.shift, None))
    return Operand("DORY_CLIPPED", Line(mul, add, found.shift, clip))
