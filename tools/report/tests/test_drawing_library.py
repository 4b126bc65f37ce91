"""A drawing library that aborts costs the page, not the application."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from dory_report import drawing

from dory_core.api import ToolMissing


def test_an_abort_of_the_library_is_a_missing_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DORY_CACHE", str(tmp_path))
    monkeypatch.setattr(
        drawing.subprocess,
        "run",
        lambda *_, **__: subprocess.CompletedProcess([], -6, b"", b"fatal\nno memory\n"),
    )
    drawing._bundle.cache_clear()
    with pytest.raises(ToolMissing, match="ended with status -6: no memory"):
        drawing.javascript()
    monkeypatch.undo()
    monkeypatch.setenv("DORY_CACHE", str(tmp_path))
    assert "vegaEmbed" in drawing.javascript()
