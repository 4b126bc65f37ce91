"""How the 4x4 block turns its sums into outputs: in its assembly, or in C."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import Layer
from dory_gap8 import calibration as cal
from dory_gap8.backend import requant
from dory_gap8.backend.dense import channel_epilogue, weighted_epilogue
from dory_gap8.backend.requant import Epilogue

# The form whose sums are left to C, and the forms of the assembly.
RAW = "DORY_BLOCK_RAW"
STEP, LIMBS = "DORY_BLOCK_STEP", "DORY_BLOCK_LIMBS"
HIGH, EVEN = "DORY_BLOCK_HIGH", "DORY_BLOCK_EVEN"


@dataclass(frozen=True, slots=True, eq=False)
class Finish:
    """How the block turns its sums into outputs.

    Attributes:
        form: Macro of ``dory_gap8_block_impl.h``; RAW leaves the sums to C.
        reach: True when sums are clamped first.
        shifts: True when each channel has a shift of its own, its last parameter.
        turned: True when there is another addend below zero.
        clip: Macro of the clip.
        parameters: int32, shape (C, n), as they lie in the weight block.
        shift: Bits of the last shift, 0 where each channel has its own.
        low_bits: Bits of the low limb, or by which sums are shifted first; 0 without either.
        hi: Upper bound of the clip.
        token: Part of a name.
        cycles: Tenths of a cycle per output.
    """

    form: str
    reach: bool
    shifts: bool
    turned: bool
    clip: str
    parameters: npt.NDArray[Any]
    shift: int
    low_bits: int
    hi: int
    token: str
    cycles: int

    @property
    def macros(self) -> tuple[tuple[str, str], ...]:
        """The macros of ``dory_gap8_block_impl.h`` for the sums."""
        return (
            ("DORY_BLOCK_FORM", self.form),
            ("DORY_BLOCK_REACH", str(int(self.reach))),
            ("DORY_BLOCK_TURNED", str(int(self.turned))),
            ("DORY_BLOCK_SHIFTS", str(int(self.shifts))),
            ("DORY_BLOCK_CLIP", self.clip),
        )


# Forms of an epilogue that the block has, and what they are called in a name.
_FORMS = {
    requant.NARROW: (STEP, "q32"),
    requant.LIMBS: (LIMBS, "l"),
    requant.HIGH: (HIGH, "h"),
    requant.EVEN: (EVEN, "e"),
}
# Tenths of a cycle beyond one multiplication.
_PRODUCTS = {STEP: 0, LIMBS: cal.BLOCK_LIMBS, HIGH: cal.BLOCK_HIGH, EVEN: cal.BLOCK_EVEN}
# Clips that the block has, and what they are called in a name; the others are left to C.
_CLIPS = {
    "DORY_CLIP_NONE": ("DORY_BLOCK_NO_CLIP", "n"),
    "DORY_CLIP_UNSIGNED": ("DORY_BLOCK_UNSIGNED", "u"),
    "DORY_CLIP_SIGNED": ("DORY_BLOCK_SIGNED", "s"),
}


def finish(layer: Layer, shifts: bool = True) -> Finish:
    """Return how the block turns the sums of ``layer`` into outputs.

    Args:
        layer: The layer.
        shifts: Whether channels may have shifts of their own.
    """
    channels = layer.weighted.weights.shape[0]
    chosen = channel_epilogue(layer) if shifts else weighted_epilogue(layer)
    return finish_of(chosen, layer.output.bits, channels)


@functools.lru_cache(maxsize=128)
def finish_of(epilogue: Epilogue, bits: int, channels: int) -> Finish:
    """Return how the block turns sums into outputs of some bits, of some channels."""
    if not epilogue.in_words or bits != 8 or epilogue.clip_form not in _CLIPS:
        none = np.zeros((channels, 0), dtype=np.int64)
        raw = 10 * epilogue.cycles + cal.BLOCK_RAW
        clip = "DORY_BLOCK_NO_CLIP"
        return Finish(RAW, False, False, False, clip, none, 0, 0, 0, "raw", raw)
    macro, token = _CLIPS[epilogue.clip_form]
    form, kind = _FORMS[epilogue.form]
    own = "o" if epilogue.shifts else ""
    return Finish(
        form,
        epilogue.reach,
        epilogue.shifts,
        epilogue.turned,
        macro,
        np.broadcast_to(epilogue.records, (channels, epilogue.records.shape[1])),
        epilogue.shift,
        epilogue.low_bits,
        0 if epilogue.clip is None else epilogue.clip[1],
        ("t" if epilogue.turned else "") + ("c" if epilogue.reach else "") + own + kind + token,
        output_tenths(form, bool(epilogue.reach), epilogue.turned, epilogue.shifts),
    )


def output_tenths(form: str, reach: bool, turned: bool, shifts: bool = False) -> int:
    """Return tenths of a cycle from a sum to its output in the assembly of the block."""
    output = cal.BLOCK_OUTPUT + _PRODUCTS[form] + cal.BLOCK_SHIFTS * shifts
    return output + cal.BLOCK_CLAMP * reach + cal.BLOCK_TURNED * turned
