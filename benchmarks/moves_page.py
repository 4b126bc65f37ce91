"""What moves of the planner are worth: figures that are kept in a file, and printed as a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dory_core.planning.moves import MOVES

#: A move pays where a plan without it takes this fraction more cycles.
PAYS = 0.005


@dataclass(frozen=True)
class Figures:
    """A plan in figures. kept: the moves that made it. seconds: of CPU, for the plan."""

    cycles: int
    l2: int
    seconds: float
    kept: frozenset[str] = frozenset()


@dataclass
class Found:
    """What was measured: with all moves, without each one, and with other thresholds."""

    base: dict[str, Figures]
    without: dict[str, dict[str, Figures | None]]
    thresholds: dict[tuple[str, str], dict[str, Figures | None]]


def empty() -> Found:
    """Return the record in which nothing was measured."""
    return Found({}, {move.name: {} for move in MOVES}, {})


def kept(path: Path | None) -> Found:
    """Return what a file holds that :func:`keep` has written; nothing where there is none."""
    if path is None or not path.exists():
        return empty()
    data = json.loads(path.read_text())

    def figures(one: dict[str, Any] | None) -> Figures | None:
        return None if one is None else Figures(**{**one, "kept": frozenset(one["kept"])})

    def rows(many: dict[str, Any]) -> dict[str, Figures | None]:
        return {name: figures(one) for name, one in many.items()}

    return Found(
        {name: one for name, one in rows(data["base"]).items() if one is not None},
        {move: rows(many) for move, many in data["without"].items()},
        {(title, value): rows(many) for title, value, many in data["thresholds"]},
    )


def keep(found: Found, path: Path) -> None:
    """Write all figures to a file."""
    data = asdict(found)
    data["thresholds"] = [(*key, rows) for key, rows in data["thresholds"].items()]
    path.write_text(json.dumps(data, default=sorted))


def change(base: Figures, other: Figures | None) -> float | None:
    """Return by which fraction a plan has more cycles; None where there is no plan."""
    return None if other is None else other.cycles / base.cycles - 1


def percent(value: float | None) -> str:
    """Return a fraction as text."""
    return "no plan" if value is None else f"{100 * value:+.2f} %"


def _worst(rows: Mapping[str, Figures | None], base: Mapping[str, Figures]) -> list[str]:
    def key(name: str) -> float:
        found = change(base[name], rows[name])
        return 1e9 if found is None else found

    return sorted(rows, key=lambda name: (-key(name), name))


def move_row(name: str, found: Found) -> str:
    """Return the row of a move."""
    rows, base = found.without[name], found.base
    worst = _worst(rows, base)
    changes = [change(base[one], rows[one]) for one in rows]
    pays = sum(one is None or one >= PAYS for one in changes)
    best = min((one for one in changes if one is not None), default=0.0)
    smaller = max((f.l2 / base[n].l2 - 1 for n, f in rows.items() if f is not None), default=0.0)
    ratio = sum(base[n].seconds for n, f in rows.items() if f is not None) / max(
        sum(f.seconds for f in rows.values() if f is not None), 1e-9
    )
    top = f"{percent(change(base[worst[0]], rows[worst[0]]))} ({worst[0]})" if worst else "-"
    cells = (name, len(rows), pays, top, percent(best), percent(smaller), f"{ratio:.2f}")
    return "| " + " | ".join(map(str, cells)) + " |"


def threshold_row(
    title: str, value: str, rows: Mapping[str, Figures | None], base: Mapping[str, Figures]
) -> str:
    """Return the row of another value of a threshold."""
    changes = [change(base[n], f) for n, f in rows.items()]
    lost = sum(one is None for one in changes)
    total = sum(f.cycles for f in rows.values() if f is not None)
    before = sum(base[n].cycles for n, f in rows.items() if f is not None)
    there = [one for one in changes if one is not None]
    worst = f"{lost} without a plan" if lost else percent(max(there))
    cells = (title, value, len(rows), percent(total / before - 1), worst, percent(min(there)))
    return "| " + " | ".join(map(str, cells)) + " |"


_THRESHOLDS = (
    "## Thresholds",
    "",
    "Cycles with other values, over plans of some networks within the default budgets and within"
    " 75 % of L2 in which the move is kept, over all for thresholds of no move: the sum, the worst"
    " plan and the best one.",
    "",
    "| threshold | value | plans | sum | worst | best |",
    "| --- | --- | ---: | ---: | ---: | ---: |",
)


def document(found: Found) -> str:
    """Return the page."""
    base = found.base
    lines = [
        "# What the moves of the planner are worth",
        "",
        "Made by `python benchmarks/bench_moves.py`. The planner tries its moves in the order of"
        " one table and keeps what the timeline of the network shows to be faster"
        " ([architecture](architecture.md#planning)). Here each move is switched off with"
        " `--set moves=-NAME`, for the networks of the last table on GAP8 and STM32H7, within the"
        " default budgets, within 75 % and 50 % of the L2 that the default plan uses, and within a"
        f" third of L1: {len(base)} plans.",
        "",
        f"Kept: plans in which the move is kept. Pays: of these, plans that take at least"
        f" {100 * PAYS:.1f} % more cycles without it, or do not exist. Most: the most cycles that"
        " it saves. Least: the fewest; below zero, a later move gains more without it. L2: the most"
        " bytes that a plan needs more without it. Time: CPU time of planning with the move by that"
        " without it, where it is kept.",
        "",
        "| move | kept | pays | most | least | L2 | time |",
        "| --- | ---: | ---: | --- | ---: | ---: | ---: |",
        *(move_row(move.name, found) for move in MOVES),
        "",
        "## Moves",
        "",
        *(f"- `{move.name}`: {move.summary}" for move in MOVES),
        "",
    ]
    varied = [
        threshold_row(*one, rows, base)
        for one, plans in found.thresholds.items()
        if (rows := {name: plan for name, plan in plans.items() if name in base})
    ]
    if varied:
        lines += [*_THRESHOLDS, *varied, ""]
    names = [move.name for move in MOVES]
    lines += [
        "## Plans",
        "",
        "Cycles without each move that is kept.",
        "",
        "| network | cycles | L2 | s | " + " | ".join(names) + " |",
        "| --- | ---: | ---: | ---: | " + " | ".join("---:" for _ in names) + " |",
    ]
    for name, figures in base.items():
        cells = [name, str(figures.cycles), str(figures.l2), f"{figures.seconds:.2f}"]
        for move in names:
            rows = found.without[move]
            cells.append(percent(change(figures, rows[name])) if name in rows else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
