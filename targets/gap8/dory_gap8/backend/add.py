"""Residual sums."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dory_core.api import (
    Argument,
    FunctionCall,
    Layer,
    Number,
    Rejection,
    Requant,
    Struct,
    ceil_div,
    ops,
    reject_type,
    size,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.instance import (
    INPUT_TYPES,
    OUTPUT_TYPES,
    ClusterKernel,
    Instance,
    c_type,
    call_text,
    element_macros,
    reject_channelwise,
    tile_arguments,
)
from dory_gap8.backend.requant import Epilogue, epilogue, reject_requants
from dory_gap8.backend.steps import NO_STEP, Step, arithmetic, operand_step, reject_steps

if TYPE_CHECKING:
    from dory_core.api import Tile


def _reject_two_addends(requants: Iterable[Requant | None]) -> Rejection | None:
    if any(r is not None and r.add_negative is not None for r in requants):
        return Rejection("the requantisation of an operand has two addends")
    return None


@dataclass(frozen=True)
class AddKernel(ClusterKernel):
    """Element-wise sum of two tensors with a requantisation for each operand and for the sum."""

    name = "dory_gap8_add"
    summary = "residual sum"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Parameters of all requantisations are the same for all channels."""
        kind = layer.op
        if not isinstance(kind, ops.Add):
            return Rejection("it adds two tensors only")
        steps = [r for r in (*kind.operand_requants, *kind.requants) if r is not None]
        checks = (
            reject_channelwise(steps),
            reject_type(layer.inputs[0], "first operand", INPUT_TYPES),
            reject_type(layer.inputs[1], "second operand", INPUT_TYPES),
            reject_type(layer.output, "output", OUTPUT_TYPES),
            reject_requants(layer, kind.requants),
            reject_steps(kind.operand_requants),
            _reject_two_addends(kind.operand_requants),
        )
        return next((c for c in checks if c is not None), None)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Elements of one core."""
        chosen, operands = self._steps(layer)
        element = cal.ADD_ELEMENT + chosen.step_cycles
        element += sum(s.cycles(chosen.bits) for s in operands if s)
        element += cal.ELEMENT_FIELD * sum(x.bits < 8 for x in layer.inputs)
        element += cal.PACK_OUTPUT if layer.output.bits < 8 else 0
        if self._is_dense(layer):
            return cal.CALL + ceil_div(tile.h * tile.w * tile.c_out, self.cores) * element
        pixels = ceil_div(tile.h * tile.w, self.cores)
        return cal.CALL + pixels * (cal.ADD_PIXEL + tile.c_out * element)

    def label(self, layer: Layer) -> str:
        """Types, operands that are requantised, requantisation of the sum."""
        chosen, operands = self._steps(layer)
        types = "_".join(t.type_name for t in (*layer.inputs, layer.output))
        parts = "".join(
            "_as_is" if s is None else "_" + "_".join(("scaled", *s.tokens)) for s in operands
        )
        suffix = (chosen.suffix or "_sum") + ("_wide" if chosen.bits == 64 else "")
        return f"dory_gap8_add_{types}{parts}{suffix}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call for all elements of the tile."""
        chosen, operands = self._steps(layer)
        arguments: list[tuple[str, Argument]] = [
            *tile_arguments("x", "x2", "y"),
            ("pixels", size("y_h") * size("y_w")),
            ("channels", size("y_c")),
        ]
        if any(operands):
            as_it_is = Struct({"shift": 0})
            steps = (as_it_is if s is None else s.struct() for s in operands)
            arguments += [(f"operand[{n}]", step) for n, step in enumerate(steps)]
        if chosen.steps:
            arguments.append(("requant", chosen.struct(arrays=False)))
        return call_text(self.symbol(layer), "add", arguments)

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        chosen, operands = self._steps(layer)
        x, x2, y = (t.type_name for t in (*layer.inputs, layer.output))
        macros = [
            *element_macros("X", x),
            *element_macros("X2", x2),
            ("DORY_Y_BITS", y[1:]),
            ("DORY_Y_T", c_type(y)),
            *chosen.macros,
        ]
        for n, step in enumerate(operands, 1):
            clip = step is not None and step.clip is not None
            macros.append((f"DORY_OPERAND{n}", NO_STEP if step is None else step.form))
            macros.append((f"DORY_OPERAND_CLIP{n}", str(int(clip))))
        purpose = f"Residual sum of {x} and {x2} to {y}, {chosen.bits}-bit arithmetic."
        return Instance("add", self.label(layer), purpose, tuple(macros))

    @staticmethod
    def _is_dense(layer: Layer) -> bool:
        """Return True when elements lie without gaps at the end of a pixel, in every tile."""
        whole_bytes = all(t.bits >= 8 for t in (*layer.inputs, layer.output))
        return whole_bytes or layer.output.channels % 4 == 0

    @staticmethod
    def _steps(layer: Layer) -> tuple[Epilogue, tuple[Step | None, Step | None]]:
        """Return the epilogue and the operands' steps, all in one arithmetic."""
        kind = layer.of(ops.Add)
        bits = arithmetic(layer, (*kind.operand_requants, *kind.requants))
        first, second = (
            operand_step(r, x, bits)
            for r, x in zip(kind.operand_requants, layer.inputs, strict=True)
        )
        return epilogue(layer, bits), (first, second)
