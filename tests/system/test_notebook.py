"""The notebook of the manual runs, and the results in it show themselves."""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dory_core.tools as dory
from dory_core.api import DoesNotFit, UsageError

ROOT = Path(__file__).parents[2]
NETWORK = ROOT / "examples/tones/net.tflite"
_SPEC = importlib.util.spec_from_file_location("notebook", ROOT / "docs" / "notebook.py")
assert _SPEC is not None and _SPEC.loader is not None
NOTEBOOK: Any = importlib.util.module_from_spec(_SPEC)
sys.modules["notebook"] = NOTEBOOK  # dataclasses look their module up
_SPEC.loader.exec_module(NOTEBOOK)
COMMANDS = ("compile", "check", "run", "evaluate")
#: What commands write to files instead.
OWN = {"network", "target", "application", "samples", "labels", "plugins", "all_layers"}


def test_cells_of_the_notebook_run_and_make_a_page(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="the extra `notebook` is not installed")
    names: dict[str, Any] = {}
    with NOTEBOOK.beside_the_example():
        cells = NOTEBOOK.run(names)
    assert names["result"].exact and names["accuracy"].exact
    assert names["accuracy"].accuracy == 1.0
    for name in ("report", "gap8", "result"):
        assert "CONV_2D_00" in names[name]._repr_html_()
    page = NOTEBOOK.page(cells, tmp_path)
    pictures = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert len(pictures) == 3 and all(f"]({name})" in page for name in pictures)
    assert "CONV_2D_00" in page and "{0: (4, 24, 12, 16)" in page


def test_results_print_the_tables_of_the_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    planned = dory.compile(NETWORK, "gap8")
    planned.report()
    assert "dory_gap8_gather" in capsys.readouterr().out
    assert planned.path is None and planned.cycles == planned.plan["totals"]["cycles"]
    with pytest.raises(UsageError, match="only planned"):
        planned.run()


def test_checks_say_what_the_command_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    checked = dory.check(NETWORK, "gap8")
    checked.report()
    assert capsys.readouterr().out.endswith("supported, and fits\n")
    assert "supported, and fits" in checked._repr_html_()
    small = dory.check(NETWORK, "gap8", l1=32)
    assert (small.supported, small.fits) == (True, False)
    assert "32 are available" in small.reason and small.hint
    assert "does not fit" in small._repr_html_()


def test_wrong_use_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        dory.compile(tmp_path / "none.tflite", "gap8")
    with pytest.raises(DoesNotFit, match="could not run on the chip"):
        dory.compile(NETWORK, "gap8", l1=1 << 20, output=tmp_path / "app")
    assert not (tmp_path / "app").exists()


def test_the_command_line_calls_these_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every option of a command is an argument of its function, and has the same meaning."""
    from dory_core.cli import python
    from dory_core.cli.main import app as command_line

    called: dict[str, dict[str, Any]] = {}
    declared = {n: set(inspect.signature(getattr(python, n)).parameters) for n in COMMANDS}
    for name in COMMANDS:
        original = getattr(python, name)

        def spy(*arguments: Any, name: str = name, original: Any = original, **options: Any) -> Any:
            called[name] = options
            return original(*arguments, **options)

        monkeypatch.setattr(python, name, spy)
    app, samples = str(tmp_path / "app"), str(tmp_path / "samples.npz")
    np.savez(samples, x=np.zeros((2, 48, 24, 1), np.int8), labels=[0, 1])
    for arguments in (
        ["check", str(NETWORK), "-t", "gap8", "--l1", "40k", "--json"],
        ["compile", str(NETWORK), "-t", "gap8", "--l2-reserve", "1k", "-o", app, "--json"],
        ["run", app, "--dma", "late", "--json"],
        ["evaluate", app, samples, "--dma", "late", "--json"],
    ):
        with pytest.raises(SystemExit) as ended:
            command_line(arguments)
        assert ended.value.code == 0, arguments
        printed = json.loads(capsys.readouterr().out)
    assert printed["exact"]
    assert called["check"]["l1"] == 40 << 10
    assert called["compile"]["l2_reserve"] == 1 << 10
    assert called["run"]["dma"] == "late"
    for name, options in called.items():
        unset = declared[name] - {*OWN, *options}
        assert not unset, f"`dory {name}` has no option for {unset}"
