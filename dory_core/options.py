"""Options of a target: ``--set key=value`` checked against what the target declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dory_core.errors import UsageError
from dory_core.hardware import OperatingPoint, Option, Target

#: Setting that chooses the operating point; every target that declares points has it.
OPERATING_POINT = "operating_point"
#: Options by which a target lets its clocks be chosen, in MHz: of the cores, of outer transfers.
F_CLUSTER = "f_cluster"
F_IO = "f_io"
_TRUTH = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}


def all_options(target: Target) -> tuple[Option, ...]:
    """Return the target's options and, when it declares points, the one that chooses among them."""
    options = target.options
    if target.operating_points and all(option.name != OPERATING_POINT for option in options):
        names = tuple(point.name for point in target.operating_points)
        options += (Option(OPERATING_POINT, str, names[0], "clock and energy", names),)
    return options


def resolve_options(
    target: Target, settings: Mapping[str, str]
) -> tuple[dict[str, Any], OperatingPoint | None]:
    """Return every option of ``target`` with its value, and the operating point.

    The operating point is chosen with the setting ``operating_point``; the first is the default.
    Options ``f_cluster`` and ``f_io`` of a target replace its clocks unless they are 0.
    Raises UsageError for an unknown key, a value of the wrong type or a clock below 0.
    """
    points = target.operating_points
    known = {option.name: option for option in all_options(target)}
    for key in settings:
        if key not in known:
            names_ = ", ".join(known) or "it has none"
            raise UsageError(
                f"target {target.name} has no option {key!r}",
                f"options of {target.name}: {names_} (`dory targets` explains them)",
            )
    values = {
        name: _value(target, option, settings[name]) if name in settings else option.default
        for name, option in known.items()
    }
    chosen = next((p for p in points if p.name == values.get(OPERATING_POINT)), None)
    point = chosen or (points[0] if points else None)
    return values, point and _with_clocks(point, values)


def _with_clocks(point: OperatingPoint, values: Mapping[str, Any]) -> OperatingPoint:
    """Return the point with the clocks that the options name; its energy per cycle stays."""
    megahertz = {name: int(values.get(name) or 0) for name in (F_CLUSTER, F_IO)}
    for name, clock in megahertz.items():
        if clock < 0:
            raise UsageError(
                f"{name} {clock} is not possible at {point.name}",
                f"--set {name}=MHZ takes a number above 0, or 0 for the clock of the point",
            )
    cluster, io = (clock * 1e6 for clock in megahertz.values())
    if not cluster and not io:
        return point
    return replace(point, cluster_hz=cluster or point.cluster_hz, io_hz=io or point.io_hz)


def _value(target: Target, option: Option, text: str) -> int | str | bool:
    value: int | str | bool
    wanted = {int: "an integer", bool: "on or off"}.get(option.type, "text")
    try:
        if option.type is bool:
            value = _TRUTH[text.lower()]
        elif option.type is int:
            value = int(text, 0)
        else:
            value = text
    except (KeyError, ValueError):
        raise UsageError(
            f"option {option.name} of target {target.name} takes {wanted}, not {text!r}",
            option.help,
        ) from None
    if option.choices and str(value) not in option.choices:
        raise UsageError(
            f"option {option.name} of target {target.name} cannot be {text!r}",
            f"choose one of: {', '.join(option.choices)}",
        )
    return value
