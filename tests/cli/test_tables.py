"""What the tables of the terminal say."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dory_core.cli.common import console
from dory_core.cli.tables.fitted import FittedTable
from dory_core.cli.tables.front import print_front
from dory_core.cli.tables.plan import cycles_text, print_plan
from dory_core.cli.tables.run import print_run
from dory_core.cli.tables.units import count_text
from dory_core.ir import Window
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from tests.cli.command_line import dory
from tests.toy.array import array_chip
from tests.toy.chip import NAME, three_levels


@pytest.mark.parametrize(
    ("value", "text"),
    [(987, "987"), (12_345, "12.3k"), (999_499, "999k"), (999_500, "1.00M"), (4_560_000, "4.56M")],
)
def test_counts_have_three_digits(value: int, text: str) -> None:
    assert count_text(value) == text


@pytest.fixture(scope="module")
def streamed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The plan of a network whose constants come from L3 while it runs."""
    b = GraphBuilder((16, 8, 8))
    for _ in range(3):
        b.conv(64, Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    folder = tmp_path_factory.mktemp("streamed") / "app"
    plugins = three_levels().plugins()
    return build_app(b.graph(), NAME, folder, plugins=plugins, budgets={2: 16_000}).to_json()


def rows(plan: dict[str, Any]) -> list[dict[str, str]]:
    """Return the rows of the printed table of layers, by the titles of its columns."""
    out = StringIO()
    print_plan(plan, Console(file=out, width=200))
    _, heads, _, *lines = out.getvalue().splitlines()
    ends = {title: heads.index(title) + len(title) for title in ("cycles", "wait L3", "convert")
            if title in heads}  # fmt: skip
    table = lines[: next(n for n, line in enumerate(lines) if line.startswith("memory"))]
    return [
        {"": line.split()[0]} | {t: line[:end].split()[-1] for t, end in ends.items()}
        for line in table
    ]


def test_the_table_adds_up_to_the_cycles_of_the_network(streamed: dict[str, Any]) -> None:
    layers, totals = streamed["layers"], streamed["totals"]
    waits = [layer["estimate"]["l3_stall_cycles"] for layer in layers]
    assert sum(waits) > 1000
    *shown, total = rows(streamed)
    assert [row["wait L3"] for row in shown[: len(waits)]] == [
        count_text(wait) if wait else "-" for wait in waits
    ]
    own = sum(layer["estimate"]["cycles"] for layer in layers)
    assert (total["cycles"], total["wait L3"]) == (
        count_text(own),
        count_text(totals["cycles"] - own),
    )
    beside = f"{count_text(own)} in layers, {count_text(totals['cycles'] - own)} waiting for L3"
    assert cycles_text(streamed) == f"cycles: {beside}"


def test_waiting_behind_the_last_layer_has_a_row(streamed: dict[str, Any]) -> None:
    totals = streamed["totals"] | {"cycles": streamed["totals"]["cycles"] + 50_000}
    end, _ = rows(streamed | {"totals": totals})[-2:]
    estimates = [layer["estimate"] for layer in streamed["layers"]]
    shown = sum(estimate["cycles"] + estimate["l3_stall_cycles"] for estimate in estimates)
    assert (end[""], end["wait L3"]) == ("end", count_text(totals["cycles"] - shown))


def test_conversions_are_a_column_where_there_are_some(tmp_path: Path) -> None:
    b = GraphBuilder((16, 8, 8))
    b.conv(16, Window(kernel=(1, 1)))
    plan = build_app(b.graph(), NAME, tmp_path / "app", plugins=array_chip().plugins()).to_json()
    layer, *_, total = rows(plan)
    before = plan["layers"][0]["estimate"]["conversion_cycles"]
    assert layer["convert"] == count_text(before)
    assert total["convert"] == count_text(plan["totals"]["conversion_cycles"])
    assert plan["totals"]["conversion_cycles"] > before > 0, "one is behind the last layer"
    assert "wait L3" not in layer


def test_run_names_whose_arithmetic_it_has_and_the_tensor_of_the_file() -> None:
    first = {"c": 1, "h": 2, "w": 3, "expected": 4, "got": 5}
    layer = {"index": 7, "name": "conv", "tensor": "a/b", "exact": False, "first": first}
    layer |= {"mismatches": 1, "cycles": None, "instructions": None, "macs": 0}
    good = {"index": 0, "name": "x", "tensor": "", "exact": True, "first": None, "mismatches": 0}
    document: dict[str, Any] = {"runner": "host", "dma": "early", "reference": "somebody"}
    out = StringIO()
    console = Console(file=out, width=200)
    print_run(document | {"exact": True, "runs": [{"input": "0", "layers": [good]}]}, console)
    print_run(document | {"exact": False, "runs": [{"input": "0", "layers": [layer]}]}, console)
    assert "exact to somebody: every element" in out.getvalue()
    assert "NOT EXACT: layer 07 conv (tensor a/b) (c 1, h 2, w 3) expected 4" in out.getvalue()


def printed(table: FittedTable, width: int) -> list[str]:
    out = StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_tables_are_no_wider_than_the_terminal(
    streamed: dict[str, Any],
    width: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A layer is one line; what has no room is named, and the important columns stay."""
    monkeypatch.setenv("COLUMNS", str(width))
    print_plan(streamed, console())
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= width and line == line.rstrip() for line in lines)
    _, heads, rule, *rest = lines
    assert set(rule) == {"─"}
    for title in ("layer", "kernel", "L1", "cycles", "MAC/cy"):
        assert title in heads
    for number in range(len(streamed["layers"])):
        assert sum(line.startswith(f"{number:02d} ") for line in rest) == 1
    left_out = [line for line in lines if line.startswith("(a wider terminal")]
    assert bool(left_out) == ("bound" not in heads) == (width < 120)


def test_columns_go_by_priority_then_names_lose_their_middle() -> None:
    table = FittedTable(("name", "much", "less"), right=("much", "less"), drop=("less", "much"))
    table.add_row("a_very_long_name_of_a_layer", "12345678", "1")
    table.add_line("a sentence below the row that is longer than the table is wide")
    assert printed(table, 80)[2] == "a_very_long_name_of_a_layer  12345678     1"
    assert printed(table, 38)[2] == "a_very_long_name_of_a_layer  12345678"
    narrow = printed(table, 20)
    assert narrow[2] == "a_very_lo..._a_layer"
    assert "(a wider terminal also shows: less, much)" in " ".join(narrow[-3:])
    assert all(len(line) <= 20 for line in narrow)


def test_sentences_are_wrapped_in_their_column() -> None:
    table = FittedTable(("option", "meaning"), wrap="meaning")
    table.add_row("cores", "how many cores of the cluster run kernels at once")
    assert printed(table, 36)[2:] == [
        "cores   how many cores of the",
        "        cluster run kernels at once",
    ]


def test_what_is_piped_has_no_blanks_at_the_ends_of_lines() -> None:
    for arguments in (("targets",), ("frontends",), ("plugins",), ("cache",)):
        shown = dory(*arguments).stdout
        assert shown and all(line == line.rstrip() for line in shown.splitlines())


@pytest.mark.parametrize("code", [0, 4321])
def test_a_front_has_a_column_of_code_where_code_lies_in_l2(code: int) -> None:
    point = {
        "l2_bytes": 1000,
        "code_bytes": code,
        "l1_bytes": 10,
        "cycles": 7,
        "fits": True,
        "first": 0,
        "last": 0,
        "rows": 0,
        "layer": "Conv 'a'",
        "live_bytes": 900,
        "block": "a",
        "block_bytes": 800,
    }
    document = {"network": "net", "target": "toy", "fits": True, "l2_budget": 2000}
    out = Console(file=StringIO(), width=200)
    print_front({**document, "points": [point], "changes": []}, out)
    assert isinstance(out.file, StringIO)
    text = out.file.getvalue()
    assert ("code B" in text and "4321" in text) == bool(code)
    assert f"the least is 1000 B{' with 4321 B of code' if code else ''}\n" in text
