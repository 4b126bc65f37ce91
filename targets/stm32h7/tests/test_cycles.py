"""Model cycles of each layer of real images, against benchmarks/m7_cycles.json."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest
from dory_stm32h7.emulator import cycles
from dory_stm32h7.emulator.pipeline import cycles as block_cycles
from dory_stm32h7.toolchain import GCC, find_toolchain
from image import require_emulator, session

from dory_core.api import ops
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.tools import load_plugins

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks"
RISE, FALL = 1.03, 0.75
HINT = "; where that is right: python benchmarks/bench_m7_cycles.py --table"
NETWORKS = ("tones", "line_follower", "nemo_small_cnn", "mlperf_kws_ref_model")


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    require_emulator()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        return importlib.import_module("bench_m7_cycles")


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", NETWORKS)
def test_cycles_of_no_layer_rise(name: str, bench: ModuleType) -> None:
    """A large fall fails as well: behind an old table a later rise would not be seen."""
    known = json.loads(bench.TABLE.read_text())
    if shutil.which(GCC) is None or GCC not in find_toolchain().compiler.name:
        pytest.skip(f"{GCC} is not installed")
    if bench.compiler() != known["compiler"]:
        pytest.skip(f"the table is that of {known['compiler']}, not of {bench.compiler()}")
    try:
        rows = bench.figures_of(name, load_plugins())
    except FileNotFoundError:
        pytest.skip(f"{name} is not here")
    before = known["networks"][name]
    assert [f"{row.index} {row.name}" for row in rows] == list(before), HINT
    for row, (layer, old) in zip(rows, before.items(), strict=True):
        assert row.cycles <= RISE * old, f"{layer}: {old} cycles, now {row.cycles:.0f}{HINT}"
    now = sum(row.cycles for row in rows)
    assert now >= FALL * sum(before.values()), f"{now:.0f} cycles are far below the table{HINT}"


def test_disassemblers_give_the_same_cycles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_emulator()
    tools = cycles._DISASSEMBLERS
    if not all(shutil.which(name) for name in tools):
        pytest.skip(f"needs {' and '.join(tools)}")
    builder = GraphBuilder((8, 6, 6), name="small")
    builder.conv(8, ops.Window(kernel=(3, 3)))
    build_app(builder.graph(), "stm32h7", tmp_path / "app")
    program = session(tmp_path / "app").program
    codes = []
    for tool in tools:
        monkeypatch.setattr(cycles, "_DISASSEMBLERS", (tool,))
        codes.append(cycles.listing(program))
    common = sorted(codes[0].keys() & codes[1].keys())
    assert len(common) > 500
    sums = [sum(block_cycles([code[a]]) for a in common) for code in codes]
    assert sums[0] == pytest.approx(sums[1], rel=0.01)


def test_estimates_of_weights_in_portable_c_are_those_of_the_pipeline(
    bench: ModuleType, tmp_path: Path
) -> None:
    """Within 20 % of the model."""
    if not cycles.has_disassembler() or GCC not in find_toolchain().compiler.name:
        pytest.skip(f"needs {GCC} and a disassembler")
    same = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
    builder = GraphBuilder((8, 9, 9), name="portable")
    builder.conv(16, same)
    builder.conv(16, same, groups=16)
    builder.conv(40, ops.Window(kernel=(1, 1)))
    builder.conv(48, ops.Window(kernel=(9, 9)), output=(-100, 100))
    builder.linear(64, output=(0, 255))
    build_app(builder.graph(), "stm32h7", tmp_path / "app", settings={"kernels": "portable"})
    rows = cycles.measure(bench.session_of(tmp_path / "app"))
    assert {row.kernel for row in rows} == {"dory_portable_conv", "dory_portable_linear"}
    for row in rows:
        assert row.cycles / 1.2 < row.estimate < 1.2 * row.cycles, row


def test_without_a_disassembler_the_error_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert not cycles.has_disassembler()
    with pytest.raises(cycles.ToolMissing, match="llvm-objdump, arm-none-eabi-objdump"):
        cycles.listing(Path("app.elf"))
