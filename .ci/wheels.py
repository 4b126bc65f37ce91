"""Build wheels of the packages of this repository.

    python .ci/wheels.py DIRECTORY [PROJECT...]

PROJECT: folders with a pyproject.toml, by default all of them. Each wheel is built from a copy, so
that nothing of an earlier build gets into it, with the setuptools of this environment.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_FOLDERS = ("frontends", "targets", "tools", "examples")
_NAMES = ("pyproject.toml", "README.md", "LICENSE")


def projects() -> list[Path]:
    """Return the folders of all packages, the core first."""
    found = (path.parent for folder in _FOLDERS for path in ROOT.glob(f"{folder}/*/pyproject.toml"))
    return [ROOT, *sorted(found)]


def build(project: Path, directory: Path) -> None:
    """Build the wheel of a project into a directory. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "project"
        copy.mkdir()
        for name in _NAMES:
            shutil.copy(project / name, copy / name)
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        for package in project.glob("dory_*/"):
            if package.suffix != ".egg-info":
                shutil.copytree(package, copy / package.name, ignore=ignored)
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
        command += ["--no-deps", "--no-build-isolation", "--wheel-dir", str(directory), str(copy)]
        subprocess.run(command, check=True)


def main(arguments: list[str]) -> int:
    """Build what the command line says."""
    directory = Path(arguments[0]).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    for project in [Path(name).resolve() for name in arguments[1:]] or projects():
        build(project, directory)
    for wheel in sorted(directory.glob("*.whl")):
        print(wheel.name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
