"""What the quantiser is told for each target."""

from __future__ import annotations

from dataclasses import dataclass

UINT8, INT8 = "uint8", "int8"


@dataclass(frozen=True, slots=True)
class Choices:
    """How activations and weights are quantised; weights are int8 and symmetric.

    Attributes:
        activations: Type, uint8 or int8.
        per_channel: A scale for each output channel of the weights.
        symmetric: Activations have the middle of their type as zero point.
        reason: For the report.
    """

    activations: str = UINT8
    per_channel: bool = True
    symmetric: bool = False
    reason: str = "unsigned activations start at 0 behind a ReLU, so that padding is 0"


_FACTORS = "one scale for each tensor (--per-tensor) is up to a tenth faster and less accurate"

#: By target; another target has those of "". Symmetric activations would have zero point 128 after
#: a ReLU: no fast kernel of these targets pads with that.
_BY_TARGET = {
    "": Choices(),
    "gap8": Choices(reason=_FACTORS),
    "stm32h7": Choices(reason=_FACTORS),
    "diana": Choices(reason="a scale for each channel costs nothing on the cores of Diana"),
}


def choices_for(target: str | None) -> Choices:
    """Return the choices for a target; None for any target."""
    return _BY_TARGET.get(target or "", _BY_TARGET[""])


def known_targets() -> tuple[str, ...]:
    """Return the targets that have choices of their own."""
    return tuple(name for name in _BY_TARGET if name)
