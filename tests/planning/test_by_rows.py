"""Inputs that come by rows and outputs that go by rows: neither is ever whole in L2."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dory_core.checks.contents import verify_contents
from dory_core.driver.application import run_application
from dory_core.errors import DoesNotFit, DoryError, NotSupported, VerificationFailed
from dory_core.ir import Graph, requant
from dory_core.plan import Plan
from dory_core.plan.network_operations import MoveRows, NetworkOperation, PutRows, RunPart, TakeRows
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.sanitizers import require_sanitizer
from tests.planning.networks import win
from tests.planning.test_chains import bottlenecks, rows_nobody_reads, temporal, wide_values
from tests.toy.chip import NAME, three_levels

PLUGINS = three_levels().plugins()
INPUT, OUTPUT = {"input_rows": "yes"}, {"output_rows": "yes"}
BOTH = {**INPUT, **OUTPUT}
CLIPPED = (requant(1, 0, 256, 0, 255),)


def image() -> Graph:
    """Return a network from an image to an image."""
    b = GraphBuilder((3, 21, 13), seed=51, name="image")
    b.conv(8, win(3, 1, 1))
    b.conv(8, win(3, 1, 1), groups=8)
    b.conv(4, win(1))
    return b.graph()


def one_layer() -> Graph:
    """Return a network in which one layer alone reads and writes rows."""
    b = GraphBuilder((5, 16, 6), seed=52, name="one_layer")
    b.conv(8, win(3, 2, 1))
    return b.graph()


def rows_left_out() -> Graph:
    """Return a network that reads one row in three, and not the last ones."""
    b = GraphBuilder((4, 20, 6), seed=53, name="rows_left_out")
    b.conv(8, win(1, 3))
    b.conv(4, win(3, 1, 1))
    return b.graph()


def skip_connection() -> Graph:
    """Return a network whose input is added to what is computed of it."""
    b = GraphBuilder((6, 18, 10), seed=54, name="skip_connection")
    y = b.conv(6, win(3, 1, 1))
    b.add("input", y, requants=CLIPPED)
    b.conv(4, win(3, 2, 1))
    return b.graph()


def two_inputs() -> Graph:
    """Return a network with two inputs, of which the second one is needed later."""
    b = GraphBuilder((6, 18, 10), seed=55, name="two_inputs")
    other = b.extra_input()
    y = b.conv(6, win(5, 1, 2))
    y = b.conv(6, win(3, 1, 1), source=y)
    b.add(y, other, requants=CLIPPED)
    b.conv(4, win(3, 1, 1))
    return b.graph()


def two_outputs() -> Graph:
    """Return a network with two outputs, of which a layer reads one."""
    b = GraphBuilder((4, 18, 10), seed=56, name="two_outputs")
    first = b.conv(6, win(3, 1, 1))
    second = b.conv(5, win(3, 2, 1), source=first)
    return b.graph(outputs=(first, second))


def nibbles() -> Graph:
    """Return a network whose elements have four bits."""
    b = GraphBuilder((5, 14, 7), values=(0, 15), seed=57, name="nibbles")
    b.conv(7, win(3, 1, 1), output=(0, 15))
    b.conv(3, win(3, 1, 1), output=(0, 15))
    return b.graph()


CASES: dict[str, tuple[Callable[[], Graph], dict[str, str]]] = {
    "image": (image, BOTH),
    "one_layer": (one_layer, BOTH),
    "rows_left_out": (rows_left_out, INPUT),
    "skip_connection": (skip_connection, BOTH),
    "two_inputs": (two_inputs, INPUT),
    "two_outputs": (two_outputs, OUTPUT),
    "nibbles": (nibbles, BOTH),
    "bottlenecks": (bottlenecks, INPUT),
    "rows_nobody_reads": (rows_nobody_reads, BOTH),
    "temporal": (temporal, BOTH),
    "wide_values": (wide_values, BOTH),
}


def least(build: Callable[[], Graph], settings: dict[str, str]) -> int:
    """Return the bytes of L2 that the refusal of too few of them names."""
    with pytest.raises(DoesNotFit) as caught:
        plan_of(build(), settings, 64)
    assert caught.value.needed_bytes is not None
    return caught.value.needed_bytes


def plan_of(graph: Graph, settings: dict[str, str], l2: int = 200_000) -> Plan:
    from dory_core.driver.pipeline import IMPORTED, run
    from dory_core.driver.setup import setup_for

    setup = setup_for(PLUGINS, NAME, settings, budgets={2: l2})
    plan: Plan = run(graph, setup, after=IMPORTED)
    return plan


@pytest.mark.sample(24)
@pytest.mark.parametrize("cores", [4, 1])
@pytest.mark.parametrize("tight", [True, False], ids=["tight", "roomy"])
@pytest.mark.parametrize("name", CASES)
def test_networks_by_rows_are_exact(name: str, tight: bool, cores: int, tmp_path: Path) -> None:
    build, rows = CASES[name]
    settings = {**rows, "cores": str(cores)}
    l2 = least(build, settings) + 128 if tight else 200_000
    plan = build_app(
        build(), NAME, tmp_path / "app", plugins=PLUGINS, budgets={2: l2}, settings=settings,
        seeds=(1, 2),
    )  # fmt: skip
    passing = [
        place
        for option, places in ((INPUT, plan.inputs), (OUTPUT, plan.outputs))
        if option.items() <= rows.items()
        for place in places
    ]
    assert passing and all(place.passing for place in passing)
    blocks = {b.id.text: b for level in plan.levels if level.name == "L2" for b in level.blocks}
    for place in passing:
        assert place.tensor.name not in blocks
        assert 2 * blocks[f"{place.tensor.name}.rows"].size <= place.size_bytes or tight
    assert_exact(tmp_path / "app", plugins=PLUGINS, repeat=1)


@pytest.mark.sanitizer
@pytest.mark.sample(4)
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
@pytest.mark.parametrize("build", [two_inputs, image], ids=["two_inputs", "image"])
def test_sanitizers_find_nothing(
    build: Callable[[], Graph], sanitizer: str, tmp_path: Path
) -> None:
    require_sanitizer(sanitizer)
    build_app(build(), NAME, tmp_path / "app", plugins=PLUGINS, settings=BOTH)
    assert_exact(tmp_path / "app", plugins=PLUGINS, dma=("late",), sanitize=sanitizer)


def test_input_by_rows_takes_less_memory_and_the_plan_says_so() -> None:
    whole, rows = plan_of(image(), {}), plan_of(image(), BOTH, least(image, BOTH) + 64)
    tensor = rows.inputs[0].tensor
    assert rows.levels[1].used < whole.levels[1].used - tensor.size_bytes // 2
    document = rows.to_json()["network"]
    assert document["inputs"][0]["passing"]
    assert document["inputs"][0]["rows"] == {"count": 21, "bytes": 3 * 13}
    assert document["outputs"][0]["rows"] == {"count": 21, "bytes": 4 * 13}
    assert whole.to_json()["network"]["inputs"][0]["rows"] is None


def test_every_row_comes_once_and_in_order() -> None:
    plan = plan_of(two_inputs(), INPUT, least(two_inputs, INPUT) + 64)
    for number, place in enumerate(plan.inputs):
        takes = [one for one in taken(plan) if one.input == number]
        assert [one.first for one in takes] == [sum(t.rows for t in takes[:n])
                                                for n in range(len(takes))]  # fmt: skip
        assert sum(one.rows for one in takes) == place.rows
    # Rows of the second input come when the sum needs them, not when the network begins.
    order = [one for one in plan.program.operations if isinstance(one, (TakeRows, RunPart))]
    first = next(n for n, one in enumerate(order) if isinstance(one, TakeRows) and one.input == 1)
    assert sum(isinstance(one, RunPart) for one in order[:first]) >= 2


def taken(plan: Plan) -> list[TakeRows]:
    return [one for one in plan.program.operations if isinstance(one, TakeRows)]


# -- what is not possible ------------------------------------------------------------------------


def reads_all() -> Graph:
    b = GraphBuilder((3, 5, 5), name="reads_all")
    b.linear(4)
    return b.graph()


def read_late() -> Graph:
    """Return a network that reads its input again behind layers that read all rows of it."""
    b = GraphBuilder((6, 8, 8), name="read_late")
    y = b.conv(6, win(1))
    b.avg_pool(win(8), source=y)
    b.linear(6 * 64)
    y = b.reshape((6, 8, 8))
    b.add("input", y, requants=CLIPPED)
    return b.graph()


def an_input_that_leaves() -> Graph:
    b = GraphBuilder((3, 8, 8), name="an_input_that_leaves")
    b.conv(3, win(3, 1, 1))
    return b.graph(outputs=("input", b.last))


def whole_inside() -> Graph:
    """Return a network between whose layers that read the input lies an output of the network."""
    b = GraphBuilder((6, 8, 8), name="whole_inside")
    y = b.conv(6, win(3, 1, 1))
    z = b.conv(6, win(3, 1, 1), source=y)
    last = b.add("input", z, requants=CLIPPED)
    return b.graph(outputs=(y, last))


REFUSED = {
    "reads_all": (reads_all, INPUT, "layer 0 Linear 'Gemm_0' reads input 'input'"),
    "classes": (reads_all, OUTPUT, "layer 0 Linear 'Gemm_0' makes output"),
    "late": (read_late, INPUT, "stands between layers that read input 'input'"),
    "whole": (whole_inside, INPUT, "reads input 'input', and its output is needed as a whole"),
    "leaves": (an_input_that_leaves, INPUT, "input 'input' is an output, or state, as well"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_layer_and_the_way_out(name: str) -> None:
    build, settings, message = REFUSED[name]
    with pytest.raises(NotSupported) as caught:
        plan_of(build(), settings)
    assert message in caught.value.message
    option = next(iter(settings)).replace("_", "-")
    assert caught.value.hint == f"compile it without --{option}"


# -- wrong plans are found -----------------------------------------------------------------------


Edit = Callable[[list[NetworkOperation]], Iterator[NetworkOperation]]


def wrong(plan: Plan, change: Edit) -> None:
    operations = tuple(change(list(plan.program.operations)))
    assert operations != plan.program.operations
    verify_contents(replace(plan.program, operations=operations), plan.steps)


def changed(number: int, **more: int) -> Edit:
    """Return an edit that adds numbers to fields of one TakeRows."""

    def edit(operations: list[NetworkOperation]) -> Iterator[NetworkOperation]:
        seen = 0
        for one in operations:
            if isinstance(one, TakeRows):
                seen += 1
                if seen == number + 1:
                    one = replace(one, **{k: getattr(one, k) + v for k, v in more.items()})
            yield one

    return edit


def too_late(operations: list[NetworkOperation]) -> Iterator[NetworkOperation]:
    """Let rows come behind the part that reads them."""
    late: list[NetworkOperation] = []
    takes = 0
    for one in operations:
        takes += isinstance(one, TakeRows)
        if isinstance(one, TakeRows) and takes == 3:
            late.append(one)
            continue
        yield one
        if isinstance(one, RunPart):
            yield from late
            late = []


def no_move(operations: list[NetworkOperation]) -> Iterator[NetworkOperation]:
    """Leave the first move of rows out."""
    left_out = False
    for one in operations:
        if isinstance(one, MoveRows) and not left_out:
            left_out = True
            continue
        yield one


def last_output_kept(operations: list[NetworkOperation]) -> Iterator[NetworkOperation]:
    """Leave the last rows of the output out."""
    last = max(n for n, one in enumerate(operations) if isinstance(one, PutRows))
    yield from operations[:last] + operations[last + 1 :]


WRONG: dict[str, tuple[Edit, str]] = {
    "one row short": (changed(0, rows=-1), "is left out, or passes twice|does not lie"),
    "first row off by one": (changed(2, first=1), "is left out, or passes twice"),
    "another place": (changed(2, offset=1), "does not lie|finds other rows"),
    "too late": (too_late, "does not lie|finds other rows"),
    "no move": (no_move, "does not lie|finds other rows"),
    "output kept": (last_output_kept, "does not get all rows"),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_check_finds(name: str) -> None:
    plan = plan_of(image(), BOTH, least(image, BOTH) + 64)
    verify_contents(plan.program, plan.steps)
    edit, message = WRONG[name]
    with pytest.raises(DoryError, match=message):
        wrong(plan, edit)


ROW = r"DORY_TAKE_ROWS\((\d+), (\d+), (\d+), (\d+), (\d+)\)"


def edited(text: str, number: int, field: int, by: int) -> str:
    """Return the program with another number in one of its DORY_TAKE_ROWS."""
    found = list(re.finditer(ROW, text))[number]
    start, end = found.span(field)
    return text[:start] + str(int(text[start:end]) + by) + text[end:]


def taken_late(text: str) -> str:
    """Return the program with rows that come behind the part that reads them."""
    found = list(re.finditer(ROW + r",\s*", text))[2]
    run = text.index("DORY_RUN,", found.end()) + len("DORY_RUN,")
    return text[: found.start()] + text[found.end() : run] + f" {found[0]}" + text[run:]


FAULTS: dict[str, Callable[[str], str]] = {
    "one row short": lambda text: edited(text, 0, 5, -1),
    "first row off by one": lambda text: edited(text, 2, 4, 1),
    "another place": lambda text: edited(text, 2, 3, 1),
    "too late": taken_late,
    "ignores that rows do not come": lambda text: text.replace(
        "dory_stream_status(&stream) != DORY_OK", "0"
    ),
    "needs nobody who has rows": lambda text: text.replace(" || io->next_rows == NULL", ""),
    "needs nobody who takes rows": lambda text: text.replace(" || io->put_rows == NULL", ""),
}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("by_rows") / "app"
    l2 = least(image, BOTH) + 64
    build_app(image(), NAME, path, plugins=PLUGINS, budgets={2: l2}, settings=BOTH)
    assert run_application(path, plugins=PLUGINS).exact
    return path


@pytest.mark.parametrize("name", FAULTS)
def test_the_simulation_finds(name: str, app: Path) -> None:
    source = app / "src/network.c"
    text = source.read_text()
    wrong = FAULTS[name](text)
    assert wrong != text
    source.write_text(wrong)
    try:
        exact = run_application(app, plugins=PLUGINS).exact
    except VerificationFailed as error:
        assert re.search(
            r"rows \d+ to \d+ of|nothing wrote|network_run returns|SIGSEGV|touches memory",
            error.message,
        )
    else:
        assert not exact
    finally:
        source.write_text(text)
