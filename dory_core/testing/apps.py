"""From a Graph to a running application, for every conformance test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dory_core.driver import pipeline
from dory_core.driver.application import read_plan, run_application
from dory_core.driver.compiler import write_network
from dory_core.driver.pipeline import IMPORTED, PASSES
from dory_core.driver.setup import setup_for
from dory_core.ir import Graph
from dory_core.ir.reference import random_inputs, run_sequence
from dory_core.plan import DEFAULT_PREFIX, Plan
from dory_core.plugins.manager import Plugins, load_plugins
from dory_core.simulate.result import Run

DMA_MODES = ("early", "late", "random")


def build_app(
    graph: Graph,
    target: str,
    directory: Path,
    *,
    budgets: Mapping[int, int] | None = None,
    settings: Mapping[str, str] | None = None,
    plugins: Plugins | None = None,
    seeds: tuple[int, ...] = (0,),
    objective: str = "heuristic",
    prefix: str = DEFAULT_PREFIX,
) -> Plan:
    """Plan ``graph`` for ``target`` and write the application with one random vector per seed.

    State passes from one vector to the next.

    Raises the errors of planning: NotSupported, DoesNotFit.
    """
    plugins = plugins or load_plugins()
    setup = setup_for(
        plugins,
        target,
        settings,
        budgets,
        frontend="testing",
        objective=objective,
        prefix=prefix,
    )
    graph = pipeline.run(graph, setup, after=IMPORTED, until=PASSES)
    plan: Plan = pipeline.run(graph, setup, after=PASSES)
    vectors = tuple(run_sequence(graph, (random_inputs(graph, seed) for seed in seeds)))
    write_network(directory, graph, plan, vectors, plugins, setup.ctx)
    return plan


def assert_exact(
    directory: Path,
    *,
    dma: tuple[str, ...] = DMA_MODES,
    repeat: int = 2,
    sanitize: str | None = None,
    seed: int = 1,
    plugins: Plugins | None = None,
) -> None:
    """Run an application on the host in every DMA mode and assert that every element is exact.

    The assertion names the mode, the layer and its first wrong element. Raises VerificationFailed
    when the simulation stopped the program.
    """
    plugins = plugins or load_plugins()
    for mode in dma:
        result = run_application(
            directory,
            plugins=plugins,
            dma=mode,
            seed=seed,
            repeat=repeat,
            sanitize=sanitize,
            runner="host",
        )
        wrong = result.first_difference
        assert wrong is None, f"dma {mode}: layer {wrong[1].index} {wrong[1].name}: {wrong[1]}"
        assert len(result.runs) % repeat == 0
        assert all(run.layers for run in result.runs)
        plan = read_plan(directory)
        assert_counted(result.runs[0], plan)
        assert_possible(plan)


def assert_counted(run: Run, plan: dict[str, Any]) -> None:
    """Assert that a run called kernels and moved bytes exactly as often as its plan estimates."""
    assert run.counts is not None
    keys = ("calls", "transfers", "transfer_bytes")
    figures = {n["index"]: tuple(n["estimate"][key] for key in keys) for n in plan["layers"]}
    planned = {index: three for index, three in figures.items() if any(three)}  # without views
    counted = {index: (c.calls, c.transfers, c.bytes) for index, c in run.counts.items()}
    assert counted == planned, "kernel calls, transfers and bytes differ from the estimate"
    assert run.external_counts is not None
    external = run.external_counts
    assert external.transfers == len(plan["transfers"])
    assert external.bytes == sum(transfer["bytes"] for transfer in plan["transfers"])


def assert_possible(plan: dict[str, Any]) -> None:
    """Assert that no estimate is faster than the hardware: its peak, and the rate of its links."""
    peak, links = plan["roofline"]["peak_macs_per_cycle"], plan["roofline"]["links"]
    left = 0.0  # bytes that a layer prefetches and that arrive in the next layer
    for layer in plan["layers"]:
        estimate = layer["estimate"]
        if peak:
            assert layer["macs"] <= peak * estimate["compute_cycles"], f"{layer['name']}: peak"
        left = max(0.0, left + estimate["transfer_bytes"] - links["L2-L1"] * estimate["cycles"])
        assert left == 0 or layer["ahead"], f"{layer['name']}: its transfers"
    outside = sum(transfer["bytes"] for transfer in plan["transfers"])
    assert outside <= links.get("L3-L2", 0) * plan["totals"]["cycles"]
