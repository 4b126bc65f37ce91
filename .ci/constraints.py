"""Writes constraints.txt: today's version of all that the targets of the Makefile install.

    python .ci/constraints.py REQUIREMENT ... --python 3.11 --python 3.12 ...

They are resolved by each of these Pythons; a version that some of them alone take gets an
environment marker. Nothing is installed. `make constraints` runs it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

HEAD = """\
# Versions that the tests pass with, of all that `make` installs; the ranges that plugins need are
# in each pyproject.toml. Renewed by `make constraints`, then `make clean test-all test-pythons`.
"""


def resolved(python: str, requirements: list[str]) -> tuple[str, dict[str, str]]:
    """Return a Python such as "3.11" and the version of each package that its pip takes."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [f"python{python}", "-m", "pip", "install", "--quiet", "--dry-run"]
        command += ["--ignore-installed", "--report", str(report), *requirements]
        environment = os.environ | {"PYENV_VERSION": python}  # pyenv wants to be told which one
        subprocess.run(command, check=True, env=environment)
        document = json.loads(report.read_text())
    versions = {
        one["metadata"]["name"].lower().replace("_", "-"): one["metadata"]["version"]
        for one in document["install"]
        if "dir_info" not in one["download_info"]
    }
    return python, versions


def lines(by_python: dict[str, dict[str, str]]) -> list[str]:
    """Return a line per package, or one per version and Python where they differ."""
    found = []
    for name in sorted({name for versions in by_python.values() for name in versions}):
        taken = {python: v[name] for python, v in by_python.items() if name in v}
        if len(set(taken.values())) == 1:
            found.append(f"{name}=={next(iter(taken.values()))}")
        else:
            found += [f'{name}=={v} ; python_version == "{p}"' for p, v in taken.items()]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("requirements", nargs="+")
    parser.add_argument("--python", action="append", required=True)
    given = parser.parse_args()
    by_python = dict(resolved(python, given.requirements) for python in given.python)
    Path("constraints.txt").write_text(HEAD + "\n".join(lines(by_python)) + "\n")


if __name__ == "__main__":
    main()
