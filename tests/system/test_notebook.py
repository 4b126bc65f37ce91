"""The notebook of the manual runs, and the results in it show themselves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import dory_core.api as dory
from dory_core.api import DoesNotFit, UsageError

ROOT = Path(__file__).parents[2]
NETWORK = ROOT / "examples/tones/net.tflite"


def test_cells_of_the_notebook_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples/tones", tmp_path / "examples/tones")
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path / "docs")
    notebook = json.loads((ROOT / "docs/notebook.ipynb").read_text())
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    assert names["result"].exact
    assert "CONV_2D_00" in names["gap8"]._repr_html_()
    assert "CONV_2D_00" in names["result"]._repr_html_()


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


def test_wrong_use_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no file"):
        dory.compile(tmp_path / "none.tflite", "gap8")
    with pytest.raises(DoesNotFit, match="could not run on the chip"):
        dory.compile(NETWORK, "gap8", l1=1 << 20, output=tmp_path / "app")
    assert not (tmp_path / "app").exists()
