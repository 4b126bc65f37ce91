"""Options of a target: ``--set key=value`` checked against what the target declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from dory_core.errors import UsageError
from dory_core.hardware.target import OperatingPoint, Option, Target

#: Setting that chooses the operating point; every target that declares points has it.
OPERATING_POINT = "operating_point"
#: Option of every target that also computes channels with constant values.
KEEP_CONSTANT_CHANNELS = Option(
    "keep_constant_channels", bool, False, "compute channels that have one value for every input"
)
#: Option of every target: activations of less than a byte.
STORAGE = Option(
    "storage",
    str,
    "fast",
    "activations of less than a byte: in bytes where that is faster and fits, or always packed",
    ("fast", "packed"),
)
#: Every target has it: ``-NAME`` switches off a move of the planner.
MOVES = Option("moves", str, "", "moves of the planner that are switched off: -NAME,-NAME")
#: Every target has them: the caller hands over rows of the network's inputs, and takes those of its
#: outputs, while the network runs.
INPUT_ROWS = Option("input_rows", bool, False, "inputs come by rows, they are never whole in L2")
OUTPUT_ROWS = Option("output_rows", bool, False, "outputs go by rows, they are never whole in L2")
_YES = dict.fromkeys(("on", "true", "yes", "1"), True)
_TRUTH = _YES | dict.fromkeys(("off", "false", "no", "0"), False)


def all_options(target: Target) -> tuple[Option, ...]:
    """Return the target's options and those of the core.

    When the target declares operating points, one of the options chooses the point.
    """
    options = (
        *target.options,
        KEEP_CONSTANT_CHANNELS,
        STORAGE,
        MOVES,
        INPUT_ROWS,
        OUTPUT_ROWS,
    )
    if target.operating_points and all(option.name != OPERATING_POINT for option in options):
        names = tuple(dict.fromkeys(point.name for point in target.operating_points))
        options += (Option(OPERATING_POINT, str, names[0], "clock and energy", names),)
    return options


def resolve_options(
    target: Target, settings: Mapping[str, str]
) -> tuple[dict[str, Any], OperatingPoint | None]:
    """Return every option of ``target`` with its value, and the operating point.

    The setting ``operating_point`` chooses the operating point. The default is the first point that
    exists with the other options. Options with a ``clock`` replace the point's clocks unless they
    are 0.

    Args:
        target: The target that declares options and points.
        settings: Values of options as text, by name.

    Raises:
        UsageError: For an unknown key, a value of the wrong type, a point that the other options
            exclude, or a clock below 0.
    """
    known = {option.name: option for option in all_options(target)}
    for key in settings:
        if key not in known:
            names_ = ", ".join(known) or "it has none"
            raise UsageError(
                f"target {target.name} has no option {key!r}{_meant(key, known)}",
                f"options of {target.name}: {names_} (`dory targets` explains them)",
            )
    values = {
        name: _value(target, option, settings[name]) if name in settings else option.default
        for name, option in known.items()
    }
    point = _point(target, settings, values)
    if point is not None and OPERATING_POINT in values:
        values[OPERATING_POINT] = point.name
    return values, point and _with_clocks(point, target.options, values)


def _meant(text: str, known: Iterable[str]) -> str:
    """Return a question with the known name that is most like ``text``; empty without one."""
    found = get_close_matches(text, known, 1)
    return f"; did you mean {found[0]!r}?" if found else ""


def _point(
    target: Target, settings: Mapping[str, str], values: Mapping[str, Any]
) -> OperatingPoint | None:
    """Return the chosen point, else the default; None for a target without points."""
    points = [point for point in target.operating_points if point.exists(values)]
    chosen = next((p for p in points if p.name == values.get(OPERATING_POINT)), None)
    if chosen is not None or not points:
        return chosen
    if OPERATING_POINT in settings and any(
        point.name == settings[OPERATING_POINT] for point in target.operating_points
    ):
        raise UsageError(
            f"{OPERATING_POINT}={settings[OPERATING_POINT]} does not go with the other options",
            f"there is: {', '.join(point.name for point in points)}",
        )
    return points[0]


def _with_clocks(
    point: OperatingPoint, options: Iterable[Option], values: Mapping[str, Any]
) -> OperatingPoint:
    """Return the point with the clocks that the options set, and with the same energy."""
    clocks = {"core": point.core_hz, "io": point.io_hz}
    for option in options:
        if option.clock:
            megahertz = int(values[option.name])
            if megahertz < 0:
                raise UsageError(
                    f"{option.name} {megahertz} is not possible at {point.name}",
                    f"--set {option.name}=MHZ takes a number above 0, or 0 for the clock of the "
                    "point",
                )
            clocks[option.clock] = megahertz * 1e6 or clocks[option.clock]
    return replace(point, core_hz=clocks["core"], io_hz=clocks["io"])


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
            f"option {option.name} of target {target.name} cannot be {text!r}"
            f"{_meant(text, option.choices)}",
            f"choose one of: {', '.join(option.choices)}",
        )
    return value
