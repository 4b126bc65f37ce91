"""The style of generated C: one tile without a loop, named offsets, as clang-format has it."""

from __future__ import annotations

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from dory_core.plan import Plan
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from tests.planning.networks import CASES, win
from tests.toy.chip import NAME, ToyChip, three_levels


def network() -> GraphBuilder:
    net = GraphBuilder((8, 16, 16), seed=2)
    first = net.conv(16, win(3, pads=1))
    second = net.conv(16, win(3, pads=1), source=first)
    net.add(second, first)
    net.max_pool(win(2, stride=2))
    net.linear(10)
    return net


def application(directory: Path, cores: int, budgets: dict[int, int], step_cycles: int = 0) -> Plan:
    toy = ToyChip(cores=cores, any_core=cores > 1, step_cycles=step_cycles)
    return build_app(network().graph(), NAME, directory, budgets=budgets, plugins=toy.plugins())


def sources(app: Path) -> list[Path]:
    return sorted((app / "src").glob("*.[ch]"))


@pytest.mark.sample(3)
@pytest.mark.parametrize("cores", [1, 4])
@pytest.mark.parametrize("l1", [3000, 60_000])
def test_clang_format_changes_nothing(cores: int, l1: int, tmp_path: Path) -> None:
    if find_spec("clang_format") is None:
        pytest.skip("the clang-format wheel is not installed")
    application(tmp_path / "app", cores, {1: l1})
    check_format(tmp_path / "app")


def test_clang_format_changes_nothing_in_a_streamed_network(tmp_path: Path) -> None:
    if find_spec("clang_format") is None:
        pytest.skip("the clang-format wheel is not installed")
    case = next(case for case in CASES if case.name == "residual")
    build_app(
        case.build(), NAME, tmp_path / "app", budgets={2: 20_000}, plugins=three_levels().plugins()
    )
    check_format(tmp_path / "app")


@pytest.mark.sample(2)
@pytest.mark.parametrize("cores", ["4", "1"])
def test_clang_format_changes_nothing_where_rows_pass(cores: str, tmp_path: Path) -> None:
    if find_spec("clang_format") is None:
        pytest.skip("the clang-format wheel is not installed")
    plugins, net = three_levels().plugins(), GraphBuilder((6, 21, 13), seed=3)
    first = net.conv(8, win(3, pads=1))
    net.add(net.conv(8, win(3, pads=1), source=first), first)
    net.conv(4, win(3, stride=2, pads=1))
    settings = {"cores": cores, "input_rows": "on", "output_rows": "on"}
    for number, l2 in enumerate((6000, 100_000)):
        app = tmp_path / f"app{number}"
        build_app(net.graph(), NAME, app, budgets={2: l2}, settings=settings, plugins=plugins)
        check_format(app)


def check_format(app: Path) -> None:
    import clang_format

    tool = Path(clang_format.__file__).parent / "data" / "bin" / "clang-format"
    command = [str(tool), "--dry-run", "-Werror", *map(str, sources(app))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]


def test_a_layer_in_one_tile_is_straight_line_code(tmp_path: Path) -> None:
    plan = application(tmp_path / "app", 4, {1: 60_000}, step_cycles=10_000)
    for step in plan.steps:
        assert step.tile_count == 1
        text = (tmp_path / "app" / "src" / f"dory_layer_{step.index:02d}.c").read_text()
        body = text[text.index("void dory_layer_") :]
        assert not re.search(r"\bfor\b|\bwhile\b|dory_index_t|_ticket\[", body), body
        assert not re.search(r"\(void\)", body), body
        assert re.search(r"^DORY_OFFSETS\(L1_X = \d+, ", text, re.MULTILINE)
        assert f"{step.kernel.symbol}(" in body


def test_code_for_one_core_has_no_barriers_and_speaks_of_no_cluster(tmp_path: Path) -> None:
    application(tmp_path / "app", 1, {1: 3000})
    for file in sources(tmp_path / "app"):
        if file.suffix == ".c":
            assert not re.search(r"dory_barrier|dory_core_id|cluster|core == 0", file.read_text())


def test_several_cores_meet_at_barriers_and_core_0_moves_the_data(tmp_path: Path) -> None:
    application(tmp_path / "app", 4, {1: 3000})
    text = (tmp_path / "app" / "src" / "dory_layer_00.c").read_text()
    assert "Every core of the cluster calls it; core 0 moves the data." in text
    assert text.count("dory_barrier();") == 3
    assert "if (core == 0) {" in text


def test_a_size_that_a_tile_needs_often_has_a_name(tmp_path: Path) -> None:
    """The kernel's rows and columns, and those of the copy that stores them."""
    net = GraphBuilder((8, 47, 47), seed=2)
    net.conv(16, win(1))
    toy = ToyChip()
    build_app(net.graph(), NAME, tmp_path / "app", budgets={1: 2000}, plugins=toy.plugins())
    (text,) = [file.read_text() for file in (tmp_path / "app/src").glob("*layer_*.c")]
    loop = text[text.index("for (uint32_t") :]
    found = re.findall(r"const uint32_t (y_\w+) = (.* == .* \? \d+ : \d+);", loop)
    assert found, text
    for name, size in found:
        assert loop.count(size) == 1 and len(re.findall(rf"\b{name}\b", loop)) > 3
