"""Comparison of the counts of a run with the plan."""

from __future__ import annotations

from typing import Any

from dory_core.errors import VerificationFailed
from dory_core.simulate.result import RunResult


def check_counts(result: RunResult, plan: dict[str, Any]) -> None:
    """Compare kernel calls, transfers and bytes of each run with the plan, where counted.

    Args:
        result: The executions.
        plan: The document plan.json.

    Raises:
        VerificationFailed: When the code does not follow the plan, although all values are exact.
    """
    keys = ("calls", "transfers", "transfer_bytes")
    planned = {n["index"]: tuple(n["estimate"][key] for key in keys) for n in plan["layers"]}
    outside = (len(plan["transfers"]), sum(one["bytes"] for one in plan["transfers"]))
    for run in result.runs if result.exact else ():
        if run.counts is None or run.external_counts is None:
            continue
        for index, wanted in planned.items():
            one = run.counts.get(index)
            found = (0, 0, 0) if one is None else (one.calls, one.transfers, one.bytes)
            if found != wanted:
                raise VerificationFailed(
                    f"layer {index}: {_counted(*found)}, the plan says {_counted(*wanted)}",
                    "every value is exact, but the code is not that of the plan: compile it again",
                )
        external = run.external_counts
        if (external.transfers, external.bytes) != outside:
            raise VerificationFailed(
                f"{external.transfers} transfers of {external.bytes} B between L3 and L2, the plan "
                f"says {outside[0]} of {outside[1]} B",
                "every value is exact, but the code is not that of the plan: compile it again",
            )


def _counted(calls: int, transfers: int, size: int) -> str:
    return f"{calls} calls of its kernel, {transfers} transfers of {size} B"
