"""The options of the target, read and checked in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dory_core.api import UsageError

if TYPE_CHECKING:
    from dory_core.api import TargetContext

ENGINES = ("digital", "analog", "host")
REQUANT = ("exact", "approximate")
#: Accumulators per step of the converters; a property of a chip's analog front end.
ADC_SCALE = 16


def engines_of(ctx: TargetContext) -> tuple[str, ...]:
    """Return the engines that may compute layers."""
    text = str(ctx.options.get("engines", ",".join(ENGINES)))
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))


def adc_scale(ctx: TargetContext) -> int:
    """Return the accumulators per step of the analog array's converters."""
    return int(ctx.options.get("adc_scale", ADC_SCALE))


def is_approximate(ctx: TargetContext) -> bool:
    """Return True when layers may get an approximate requantisation."""
    return bool(ctx.options.get("requant", REQUANT[0]) != REQUANT[0])


def check_options(ctx: TargetContext) -> None:
    """Raise UsageError for engines that there are not, or a scale that is none."""
    unknown = [name for name in engines_of(ctx) if name not in ENGINES]
    if unknown:
        raise UsageError(
            f"the target has no engine {unknown[0]!r}",
            f"--set engines= takes a list of {', '.join(ENGINES)}",
        )
    if adc_scale(ctx) < 1:
        raise UsageError(f"adc_scale {adc_scale(ctx)} is not possible", "--set adc_scale=1 or more")
