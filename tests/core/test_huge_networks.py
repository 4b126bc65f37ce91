"""Networks beyond every memory are refused at once, before any search for tiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from dory_core.check import check_network
from dory_core.compiler import CompileOptions, compile_network
from dory_core.errors import DoesNotFit
from dory_core.plugins import load_plugins
from dory_core.testing.integer_onnx import IntegerOnnxBuilder
from tests.cli.command_line import dory


def options(builder: IntegerOnnxBuilder, folder: Path, target: str) -> CompileOptions:
    pytest.importorskip(f"dory_{target}", reason=f"the plugin {target} is missing")
    return CompileOptions(builder.save(folder / "net.onnx"), target, "nemo", folder / "app")


HUGE = {
    "image": lambda: IntegerOnnxBuilder((3, 40000, 40000)).conv(8, 3, pads=1),
    "padding": lambda: IntegerOnnxBuilder((3, 8, 8)).conv(4, 1, pads=10**6),
    "line": lambda: IntegerOnnxBuilder((1, 1, 10**9)).conv(1, 3, pads=1),
}


@pytest.mark.parametrize("target", ["gap8", "stm32h7"])
@pytest.mark.parametrize("name", HUGE)
def test_a_tensor_beyond_all_memories_does_not_fit(name: str, target: str, tmp_path: Path) -> None:
    network = options(HUGE[name](), tmp_path, target)
    with pytest.raises(DoesNotFit, match=r"layer 0 Conv '/Conv_.*': its (in|out)put of .* needs"):
        compile_network(network, load_plugins())
    assert not (tmp_path / "app").exists()
    report = check_network(network, load_plugins())
    assert (report.supported, report.fits) == (True, False)
    assert "Conv" in report.reason and report.hint


@pytest.mark.slow
def test_an_image_of_a_megapixel_has_tiles(tmp_path: Path) -> None:
    """Its weighted objective has parts beyond the integers of CP-SAT."""
    network = options(IntegerOnnxBuilder((1, 1024, 1024)).conv(4, 1), tmp_path, "gap8")
    assert check_network(network, load_plugins()).fits


def test_status_is_4(tmp_path: Path) -> None:
    network = options(HUGE["image"](), tmp_path, "gap8")
    outcome = dory("--target", "gap8", "--frontend", "nemo", network.onnx, "-o", tmp_path / "app")
    assert outcome.status == 4, outcome.stderr
    assert "L3 offers 8388608 B" in outcome.stderr and "bug" not in outcome.stderr


def test_too_little_memory_of_this_machine_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dory_core.cli.common import report_error

    assert report_error(MemoryError()) == 4
    assert "more memory than this machine has" in capsys.readouterr().err
