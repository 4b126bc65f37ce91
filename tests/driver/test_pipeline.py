"""The list of stages: pure, dumped in order, and the same for all commands."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dory_core.api import DmaHal, OutputFile, hookimpl
from dory_core.driver.check import check_network
from dory_core.driver.compiler import CompileOptions, compile_network, plan_only
from dory_core.driver.pipeline import (
    BOUND,
    IMPORTED,
    PASSES,
    STAGES,
    TILED,
    passes_of,
    run,
    text_of,
)
from dory_core.driver.setup import Setup, setup_for
from dory_core.errors import DoryError, NotSupported
from dory_core.ir import Graph, Window
from dory_core.passes import Pass, run_passes
from dory_core.planning.moves import MOVES
from dory_core.plugins.manager import Plugins
from dory_core.testing.graphs import GraphBuilder
from tests.toy.array import array_chip
from tests.toy.chip import NAME, ToyChip, three_levels
from tests.toy.network import write_network

#: A line about what a move proposed.
PROPOSED = r"[a-z0-9-]+: \d+ cycles, \d+ B of L2 -> (does not fit|\d+ cycles, \d+ B; (not )?kept)"

CHIPS = {"two levels": ToyChip(), "three levels": three_levels(), "engines": array_chip()}


def small() -> Graph:
    """Return a residual network whose branches are in an order that needs much memory."""
    builder = GraphBuilder((8, 12, 12), seed=3)
    left = builder.conv(16, Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    right = builder.conv(16, Window(kernel=(1, 1)), source="input")
    builder.add(left, right)
    return builder.graph()


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return three_levels().plugins()


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> CompileOptions:
    """What compiles the toy network for the toy chip."""
    network, _ = write_network(tmp_path_factory.mktemp("network"))
    return CompileOptions(network=network, target=NAME, frontend="plain", plan_only=True)


def test_the_list_leads_from_a_source_to_a_plan() -> None:
    assert [stage.name for stage in STAGES] == ["imported", "passes", "bound", "tiled", "plan"]
    assert [stage.gives for stage in STAGES] == [
        "Graph",
        "Graph",
        "BoundGraph",
        "TiledGraph",
        "Plan",
    ]


@pytest.mark.parametrize("chip", CHIPS)
def test_every_stage_gives_equal_results_for_equal_inputs(
    options: CompileOptions, chip: str
) -> None:
    setup = setup_for(CHIPS[chip].plugins(), NAME, frontend="plain")
    value = options.source
    after = ""
    for stage in STAGES:
        results = [run(value, setup, after=after, until=stage.name) for _ in range(2)]
        texts = [text_of(result) for result in results]
        assert texts[0] == texts[1], stage.name
        assert type(results[0]).__name__ == stage.gives
        value, after = results[0], stage.name
        assert text_of(value) == texts[0], f"{stage.name} changed its result"


def test_stages_one_by_one_and_all_at_once_agree(options: CompileOptions, plugins: Plugins) -> None:
    setup = setup_for(plugins, NAME, frontend="plain")
    value = run(options.source, setup, until=TILED)
    before = text_of(value)
    assert run(value, setup, after=TILED).to_json() == run(options.source, setup).to_json()
    assert text_of(value) == before, "planning leaves the tiled network as it was"


def test_compile_check_and_plan_only_agree(options: CompileOptions, plugins: Plugins) -> None:
    plan = compile_network(options, plugins).plan.to_json()
    check = check_network(options, plugins).to_json()
    assert [layer["kernel"] for layer in check["layers"]] == [
        layer["kernel"] for layer in plan["layers"]
    ]
    assert {level["name"]: level["used"] for level in check["levels"]} == {
        name: level["used"] for name, level in plan["memory"].items()
    }
    assert plan_only(options, plugins).to_json() == plan


def test_every_stage_and_every_pass_is_dumped_in_order(
    options: CompileOptions, plugins: Plugins, tmp_path: Path
) -> None:
    result = compile_network(replace(options, dump_stages=tmp_path / "new" / "dump"), plugins)
    names = sorted(path.name for path in (tmp_path / "new" / "dump").iterdir())
    stems = ["imported", *result.passes, "bound", "tiled", "moves"]
    assert names == [
        *(f"{n:02d}_{stem}.txt" for n, stem in enumerate(stems)),
        f"{len(stems):02d}_plan.json",
    ]
    files = {name: (tmp_path / "new" / "dump" / name).read_text() for name in names}
    assert json.loads(files[names[-1]]) == json.loads(json.dumps(result.plan.to_json()))
    bound, tiled, moves = (files[name] for name in names[-4:-1])
    for step in result.plan.steps:
        assert f"{step.layer.output.name} = {step.layer.op.kind}" in bound
        assert f"{step.kernel.name}: " in tiled
    assert "input as HWC" in bound
    for line in moves.splitlines():
        assert re.fullmatch(PROPOSED, line), line
        assert line.split(":")[0] in {move.name for move in MOVES}


def test_one_layer_alone_is_dumped(
    options: CompileOptions, plugins: Plugins, tmp_path: Path
) -> None:
    compile_network(replace(options, layer=2, dump_stages=tmp_path), plugins)
    assert any(path.name.endswith("_layer_02.txt") for path in tmp_path.iterdir())


def test_bound_layers_name_every_candidate_once(options: CompileOptions, plugins: Plugins) -> None:
    setup = setup_for(plugins, NAME)
    bound = run(options.source, replace(setup, frontend="plain"), until=BOUND)
    for one in bound.layers:
        said = [b.kernel.name for b in one.kernels] + [r.kernel for r in one.rejections]
        assert sorted(said) == sorted(name for name, _ in one.order)
        assert one.kernels and all(r.reason for r in one.rejections)
        assert all(len(b.traits.inputs) == len(one.layer.inputs) for b in one.kernels)


def test_tilings_are_the_best_one_and_those_with_whole_tensors(plugins: Plugins) -> None:
    found = set[str]()
    for l1 in range(4000, 20_000, 2000):
        setup = setup_for(plugins, NAME, None, {1: l1})
        tiled = run(small(), setup, after=IMPORTED, until=TILED)
        for layer in tiled.layers:
            best, *others = layer.tilings
            assert all(one.l1_bytes <= l1 for one in layer.tilings)
            for other in others:
                channels, rows, columns, inputs = other.schedule.counts
                in_one = other.schedule.count == 1
                found.add("one" if in_one else "channels" if rows == 1 else "rows")
                assert best.schedule.count > 1 and (columns, inputs) == (1, 1)
                assert channels == 1 or rows == 1
                assert rows == 1 or layer.in_one_tile is None
                assert channels == 1 or best.schedule.counts[1:] != (1, 1, 1)
                assert best.kernel is other.kernel and best.traits == other.traits
                assert not in_one or layer.in_one_tile is other
    assert found == {"one", "channels", "rows"}


# -- passes -------------------------------------------------------------------------------------


def with_passes(*passes: Pass) -> Setup:
    class Extra:
        @hookimpl(target=NAME)
        def dory_passes(self) -> list[Pass]:
            return list(passes)

    return setup_for(Plugins.from_objects(toy=three_levels(), extra=Extra()), NAME)


def test_passes_of_the_target_stand_between_channels_and_storage() -> None:
    setup = with_passes(Pass("mine", "does nothing", lambda graph: graph))
    names = ["scales", "channels", "mine", "sums", "vectors", "storage", "halves", "pools", "order"]
    names.append("bytes")
    assert [step.name for step in passes_of(setup)] == names
    seen: list[str] = []
    run(
        small(),
        replace(setup, watch=lambda name, _: seen.append(name)),
        after=IMPORTED,
        until=BOUND,
    )
    assert seen == [*names, "bound"]


def test_two_passes_of_one_name_are_refused() -> None:
    setup = with_passes(Pass("order", "another one", lambda graph: graph))
    with pytest.raises(DoryError, match="two passes named 'order'"):
        passes_of(setup)


def test_an_error_of_a_pass_names_it() -> None:
    def refuse(graph: Graph) -> Graph:
        raise NotSupported("Conv 'c': too odd", "make it even")

    setup = with_passes(Pass("picky", "refuses", refuse))
    with pytest.raises(NotSupported, match="pass 'picky': Conv 'c': too odd") as caught:
        run(small(), setup, after=IMPORTED, until=PASSES)
    assert caught.value.hint == "make it even"


def test_a_pass_that_joins_layers_may_lose_inner_ones_and_add_none() -> None:
    def lose(graph: Graph) -> Graph:
        return replace(graph, ops=graph.ops[1:], ranges=graph.ranges[1:])

    def rename(graph: Graph) -> Graph:
        return replace(graph, ops=(replace(graph.ops[0], index=7), *graph.ops[1:]))

    graph, joining = small(), Pass("joining", "loses a layer", lose, joins=True)
    assert run_passes([joining], graph).ops == graph.ops[1:]
    with pytest.raises(DoryError, match="pass 'joining' changed which layers"):
        run_passes([replace(joining, run=rename)], graph)


def test_a_pass_that_loses_a_layer_is_found() -> None:
    def lose(graph: Graph) -> Graph:
        return replace(graph, ops=graph.ops[:-1], ranges=graph.ranges[:-1])

    setup = with_passes(Pass("careless", "loses a layer", lose))
    with pytest.raises(DoryError, match="pass 'careless' changed which layers"):
        run(small(), setup, after=IMPORTED, until=PASSES)


class Board:
    """Beside the toy chip, whose HAL is empty: files of a driver and of a main program."""

    @hookimpl(target=NAME, first=True)
    def dory_dma_hal(self) -> DmaHal:
        return DmaHal((OutputFile("board/hal.c", ""),))


class Main:
    @hookimpl(target=NAME)
    def dory_application(self) -> list[OutputFile]:
        return [OutputFile("board/main.c", "")]


class Chatter:
    @hookimpl
    def dory_application(self) -> list[OutputFile]:
        return []


NO_HAL, NO_MAIN = "no HAL (dory_dma_hal returns no files)", "no main program (dory_application)"


@pytest.mark.parametrize(
    ("others", "missing"),
    [
        ((), f"target toy has {NO_HAL} and {NO_MAIN}: simulation alone"),
        ((Chatter,), f"target toy has {NO_HAL} and {NO_MAIN}: simulation alone"),
        ((Main,), f"target toy has {NO_HAL}: simulation alone"),
        ((Board,), f"target toy has {NO_MAIN}: simulation alone"),
        ((Board, Main), ""),
    ],
)
def test_only_a_target_with_hal_and_main_program_is_deployable(
    others: tuple[type, ...], missing: str
) -> None:
    more = {one.__name__: one() for one in others}
    plugins = Plugins.from_objects(toy=ToyChip(), **more)
    plan = run(small(), setup_for(plugins, NAME), after=IMPORTED)
    assert (plan.deployable, plan.obstacle) == (not missing, missing)
    document = plan.to_json()
    assert (document["deployable"], document["reason"]) == (not missing, missing)
    larger = run(small(), setup_for(plugins, NAME, budgets={1: 1 << 20}), after=IMPORTED)
    assert not larger.deployable
    assert larger.obstacle.startswith("the L1 budget of 1048576 B exceeds")
    assert larger.obstacle.endswith(missing)
