"""Layers that run one function: which do, what it is called with, and that wrong rows are seen."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from dory_core.driver.application import read_plan
from dory_core.driver.pipeline import IMPORTED, run
from dory_core.driver.setup import setup_for
from dory_core.errors import VerificationFailed
from dory_core.ir import Graph, requant
from dory_core.plan import Plan
from dory_core.plugins.manager import Plugins
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from tests.planning.networks import win
from tests.toy.chip import NAME, ToyChip, three_levels

SAME = win(3, pads=1)
SUM = requant(1, 0, 2, 0, 255)


def chain(layers: int, channels: int = 8, size: int = 10) -> Graph:
    """Return equal convolutions in a row."""
    b = GraphBuilder((channels, size, size), name="chain")
    for _ in range(layers):
        b.conv(channels, SAME)
    return b.graph()


def residuals(blocks: int) -> Graph:
    """Return residual blocks in a row."""
    b = GraphBuilder((8, 10, 10), name="residuals")
    source = b.conv(8, SAME)
    for _ in range(blocks):
        b.conv(16, win(1), source=source)
        b.conv(16, SAME, groups=16)
        source = b.add(source, b.conv(8, win(1)), operands=(None, None), requants=(SUM,))
    return b.graph()


def functions(plan: Plan) -> dict[int, tuple[int, ...]]:
    return {f.steps[0]: f.steps for f in plan.program.functions if f.is_shared}


def built(graph: Graph, directory: Path, chip: ToyChip, **budgets: int) -> tuple[Plan, Plugins]:
    plugins = chip.plugins()
    levels = {int(name[1]): size for name, size in budgets.items()}
    return build_app(graph, NAME, directory, budgets=levels, plugins=plugins), plugins


NETWORKS = {
    "in one tile": (chain(6), ToyChip(), {}),
    "in tiles": (chain(6), ToyChip(), {"l1": 2600}),
    "kept in L1": (residuals(3), three_levels(), {}),
    "streamed in parts": (chain(6, 16, 12), three_levels(), {"l1": 4000, "l2": 7000}),
    "streamed residuals": (residuals(4), three_levels(), {"l2": 3600}),
    "one core": (residuals(3), ToyChip(cores=1), {}),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NETWORKS)
def test_equal_layers_share_and_are_exact(name: str, tmp_path: Path) -> None:
    graph, chip, budgets = NETWORKS[name]
    plan, plugins = built(graph, tmp_path / "app", chip, **budgets)
    shared = functions(plan)
    assert shared
    files = {path.stem for path in (tmp_path / "app/src").glob("dory_layer*.c")}
    assert len(files) == len(plan.program.functions) < len(plan.steps)
    assert {f"dory_layers_{first:02d}" for first in shared} <= files
    assert_exact(tmp_path / "app", plugins=plugins)
    codes = [layer["code"] for layer in read_plan(tmp_path / "app")["layers"]]
    for number, (function, row) in plan.program.by_step.items():
        first = plan.steps[function.steps[0]].index
        assert codes[number] == {"layer": first, "row": row, "rows": len(function.steps)}


#: Cycles of a tile with which no layer is faster in several.
_SLOW_TILES = 10_000
AHEAD = {
    "in one tile": (chain(6), {}, ToyChip(step_cycles=_SLOW_TILES)),
    "in tiles": (chain(6, 2, 20), {"l1": 1300}, ToyChip()),
    "on one core": (chain(6), {}, ToyChip(cores=1, step_cycles=_SLOW_TILES)),
}


@pytest.mark.parametrize("name", AHEAD)
def test_shared_functions_load_for_the_next_layer(name: str, tmp_path: Path) -> None:
    """Each calls the function for its own constants while those of the next one arrive."""
    graph, budgets, chip = AHEAD[name]
    plan, plugins = built(graph, tmp_path / "app", chip, **budgets)
    shared = [plan.steps[n] for steps in functions(plan).values() for n in steps]
    both = [step for step in shared if step.ahead is not None and step.loaded_ahead]
    assert len(both) >= 3
    assert all((step.parts[-1].schedule.count > 1) == (name == "in tiles") for step in both)
    assert_exact(tmp_path / "app", plugins=plugins, dma=("early", "late", "random"), repeat=2)


def test_the_loop_of_a_shared_function_reads_no_row(tmp_path: Path) -> None:
    plan, _ = built(chain(6), tmp_path / "app", ToyChip(), l1=2600)
    [first] = functions(plan)
    text = (tmp_path / f"app/src/dory_layers_{first:02d}.c").read_text()
    computing = text[text.index("  for (") :].splitlines()
    assert "own->" in text
    assert not any("own->" in line for line in computing)


def test_a_layer_that_is_used_once_has_a_function_without_rows(tmp_path: Path) -> None:
    b = GraphBuilder((8, 10, 10))
    b.conv(8, SAME)
    b.conv(16, SAME)
    plan, _ = built(b.graph(), tmp_path / "app", ToyChip())
    assert not functions(plan)
    text = (tmp_path / "app/src/dory_layer_01.c").read_text()
    assert "row" not in re.sub(r"/\*.*?\*/|DORY_\w+", "", text, flags=re.S)


def test_other_sizes_or_kernels_are_not_shared() -> None:
    b = GraphBuilder((8, 10, 10))
    b.conv(8, SAME)  # nobody has loaded its constants
    b.conv(8, win(3, pads=1))
    b.conv(8, SAME)
    b.conv(8, SAME)  # loads fewer constants for the next layer
    b.conv(8, win(1))
    b.max_pool(win(2, stride=2))
    b.conv(8, SAME)
    plan = run(b.graph(), setup_for(ToyChip().plugins(), NAME), after=IMPORTED)
    assert functions(plan) == {1: (1, 2)}


WRONG = {
    "row": ("src/network.c", r"(dory_layers_01\(l1, l2, )2, &ahead\)", r"\g<1>1, &ahead)"),
    "weights": ("src/dory_layers_01.c", r"dory_weights_03\b", "dory_weights_02"),
    "address": (
        "src/dory_layers_01.c",
        r"\{dory_weights_04, (\d+), \d+",
        r"{dory_weights_04, \1, \1",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_row_is_blamed_on_its_layer(what: str, tmp_path: Path) -> None:
    plan, plugins = built(chain(6), tmp_path / "app", ToyChip())
    assert functions(plan) == {1: (1, 2, 3, 4)}  # the first and the last load less
    file, pattern, new = WRONG[what]
    source = tmp_path / "app" / file
    text, made = re.subn(pattern, new, source.read_text())
    assert made == 1
    shutil.rmtree(tmp_path / "app/build", ignore_errors=True)
    source.write_text(text)
    with pytest.raises((AssertionError, VerificationFailed)) as found:
        assert_exact(tmp_path / "app", plugins=plugins, dma=("early",))
    assert re.search(r"(?i)layer 0?[234]", str(found.value)), str(found.value)
