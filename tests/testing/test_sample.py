"""The marker ``sample``: which instances of a test are quick."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = """\
import pytest

@pytest.mark.sample(3)
@pytest.mark.parametrize("a", range(7))
def test_many(a): pass

@pytest.mark.sample(5)
@pytest.mark.parametrize("a", range(2))
def test_few(a): pass

def test_one(): pass
"""


def passed(folder: Path, *arguments: str) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return int(done.stdout.splitlines()[-1].split()[0])


def test_one_in_n_instances_is_quick(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  slow: a\n  sample(n): b\n")
    (tmp_path / "test_some.py").write_text(TESTS)
    assert passed(tmp_path) == 7 + 2 + 1
    assert passed(tmp_path, "-m", "not slow") == 3 + 1 + 1
    assert passed(tmp_path, "-m", "not slow", "test_some.py::test_many[1]") == 1
