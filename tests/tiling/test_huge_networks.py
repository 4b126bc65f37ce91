"""Networks beyond every memory are refused at once, before any search for tiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from dory_core.driver.check import check_network
from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.errors import DoesNotFit
from dory_core.ir import Graph, Window
from dory_core.testing.graphs import GraphBuilder
from tests.cli.command_line import dory
from tests.toy.array import array_chip
from tests.toy.chip import NAME, ToyChip, three_levels
from tests.toy.network import AROUND, save


def one_conv(shape: tuple[int, int, int], channels: int, window: Window) -> Graph:
    builder = GraphBuilder(shape)
    builder.conv(channels, window)
    return builder.graph()


def options(graph: Graph, folder: Path) -> CompileOptions:
    return CompileOptions(save(graph, folder), NAME, "plain", folder / "app")


CHIPS = {
    "two levels": ToyChip(),
    "three levels": three_levels(),
    "in place": ToyChip(in_place=True),
    "engines": array_chip(),
}


HUGE = {
    "image": lambda: one_conv((3, 40000, 40000), 8, AROUND),
    "padding": lambda: one_conv((3, 8, 8), 4, Window(kernel=(1, 1), pads=(10**6,) * 4)),
    "line": lambda: one_conv((1, 1, 10**9), 1, Window(kernel=(1, 3), pads=(0, 1, 0, 1))),
}


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", HUGE)
def test_a_tensor_beyond_all_memories_does_not_fit(name: str, chip: str, tmp_path: Path) -> None:
    network, plugins = options(HUGE[name](), tmp_path), CHIPS[chip].plugins()
    with pytest.raises(DoesNotFit, match=r"layer 0 Conv 'Conv_.*': its (in|out)put of .* needs"):
        compile_network(network, plugins)
    assert not (tmp_path / "app").exists()
    report = check_network(network, plugins)
    assert (report.supported, report.fits) == (True, False)
    assert "Conv" in report.reason and report.hint


def test_status_is_4(tmp_path: Path) -> None:
    network = options(HUGE["image"](), tmp_path)
    outcome = dory("--target", NAME, "--frontend", "plain", network.network, "-o", tmp_path / "app")
    assert outcome.status == 4, outcome.stderr
    assert "L3 offers 8388608 B" in outcome.stderr and "bug" not in outcome.stderr


def test_too_little_memory_of_this_machine_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dory_core.cli.common import report_error

    assert report_error(MemoryError()) == 4
    assert "more memory than this machine has" in capsys.readouterr().err
