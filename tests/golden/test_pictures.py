"""Pictures of the documentation are those of the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "draw_pipeline.py"


def test_picture_of_the_stages_is_that_of_the_list() -> None:
    outcome = subprocess.run([sys.executable, str(SCRIPT), "--check"], check=False)
    assert outcome.returncode == 0, "run `python docs/draw_pipeline.py`"
