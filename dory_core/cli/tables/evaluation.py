"""The text form of ``dory evaluate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from dory_core.cli.tables.plan import new_table
from dory_core.quoting import visible

if TYPE_CHECKING:
    from dory_core.cli.evaluation import EvaluatedNetwork

_MOST_CLASSES = 20


def print_evaluation(found: EvaluatedNetwork, out: Console) -> None:
    """Print how many samples of each class are right, and in the last line the accuracy."""
    result, counts = found.result, found.confusion
    if len(counts) <= _MOST_CLASSES:
        numbers = ("samples", "right", "share")
        table = new_table("class", *numbers, "most often taken for", right=numbers)
        for label, row in enumerate(counts):
            total, right = int(row.sum()), int(row[label])
            others = row.copy()
            others[label] = 0
            taken = int(others.argmax()) if others.any() else None
            missed = "" if taken is None else f"{taken} ({others[taken]} times)"
            share = f"{right / total:.1%}" if total else "-"
            table.add_row(str(label), str(total), str(right), share, missed)
        out.print(table)
    if result.first_difference is not None:
        sample, layer = result.first_difference
        said = f"NOT EXACT: sample {sample}: layer {layer.index:02d} {visible(layer.name)} differs"
        out.print(Text(said), style="red")
    whose = f" to {visible(result.reference)}" if result.reference else ""
    exact = f"exact{whose}" if found.exact else "NOT EXACT"
    out.print(
        Text(
            f"accuracy {found.accuracy:.1%}: {result.right} of {len(result.labels)} samples are"
            f" right ({result.runner}, {exact})"
        )
    )
