"""Wheels: what a user installs, in an environment that knows nothing of this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NET, GOLDEN = ROOT / "examples/tones/net.tflite", ROOT / "examples/tones/golden.npz"
VENDOR, SLATE = ROOT / "examples/vendor_target", ROOT / "examples/vendor_frontend"


@dataclass(frozen=True)
class Environment:
    """A virtual environment. folder: where commands run."""

    folder: Path

    def run(self, *command: str) -> str:
        """Run a program of it and return what it prints."""
        program = self.folder / "env" / "bin" / command[0]
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "DORY", "VIRT"))}
        done = subprocess.run(
            [str(program), *command[1:]], cwd=self.folder, env=keep, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def wheels(directory: Path, *projects: Path) -> list[Path]:
    """Build wheels, of all packages without ``projects``."""
    names = [str(project) for project in projects]
    subprocess.run(
        [sys.executable, str(ROOT / ".ci/wheels.py"), str(directory), *names], check=True
    )
    return sorted(directory.glob("*.whl"))


def test_every_package_has_the_files_of_a_wheel() -> None:
    projects = [path.parent for path in ROOT.glob("*/*/pyproject.toml")]
    assert ROOT / "targets/cortex_m55" in projects
    for project in (ROOT, *projects):
        assert (project / "README.md").is_file() and (project / "LICENSE").is_file(), project


def installed(folder: Path, files: list[Path]) -> Environment:
    """Return an empty environment with these wheels; what they need is taken from this one."""
    venv.create(folder / "env", with_pip=False)
    site = Path(sysconfig.get_paths(vars={"base": str(folder / "env")})["purelib"])
    # The packages of this environment, but for those of this repository.
    needed = folder / "needed"
    needed.mkdir()
    for path in Path(sysconfig.get_paths()["purelib"]).iterdir():
        ours = path.name.lower().startswith(("dory", "__editable__", "_dory"))
        if not ours and path.suffix != ".pth":
            (needed / path.name).symlink_to(path)
    site.mkdir(parents=True, exist_ok=True)
    (site / "needed.pth").write_text(f"{needed}\n")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    command += ["--python", str(folder / "env/bin/python"), "install", "--quiet"]
    subprocess.run([*command, "--no-index", "--no-deps", *map(str, files)], check=True)
    return Environment(folder)


def licences(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        texts = (archive.read(n).decode() for n in archive.namelist() if n.endswith("/LICENSE"))
        return [text for text in texts if "Apache License" in text]


def main_job(environment: Environment, target: str) -> None:
    """Compile the example for a chip, and run it: every layer is as expected."""
    environment.run("dory", str(NET), "--target", target, "--golden", str(GOLDEN), "-o", target)
    printed = environment.run("dory", "run", target)
    assert "exact" in printed, printed


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("wheels")
    files = wheels(folder / "dist", ROOT, ROOT / "frontends/tflite", VENDOR, SLATE)
    assert len(files) == 4
    assert all(licences(wheel) for wheel in files)
    return installed(folder, files)


def test_the_core_a_format_and_a_vendors_target_work_from_their_wheels(vendor: Environment) -> None:
    where = vendor.run("python", "-c", "import dory_core, dory_kite; print(dory_core.__file__)")
    assert str(vendor.folder) in where
    assert "kite" in vendor.run("dory", "targets")
    main_job(vendor, "kite")


@pytest.mark.slow
def test_a_vendors_tests_run_on_the_kit_of_the_wheel(vendor: Environment) -> None:
    chosen = "seed0 or driver or hierarchy or by_name or (network_is_exact and residual)"
    printed = vendor.run("python", "-m", "pytest", "-q", str(VENDOR), "-k", chosen)
    assert "kernels that ran" in printed
    assert "dory_kite_conv3x3: " in printed


def test_a_vendors_frontend_passes_the_kit_of_the_wheel(vendor: Environment) -> None:
    printed = vendor.run("python", "-m", "pytest", "-q", str(SLATE))
    assert " passed" in printed


@pytest.mark.slow
def test_a_vendors_tests_pass(vendor: Environment) -> None:
    vendor.run("python", "-m", "pytest", "-q", "-x", str(VENDOR))


@pytest.mark.slow
def test_all_packages_work_from_their_wheels(tmp_path: Path) -> None:
    files = wheels(tmp_path / "dist")
    projects = [*ROOT.glob("*/*/pyproject.toml"), ROOT / "pyproject.toml"]
    assert len(files) == len(projects)
    assert all(licences(wheel) for wheel in files)
    environment = installed(tmp_path, files)
    rows = environment.run("dory", "plugins")
    assert "failed" not in rows
    for target in ("gap8", "stm32h7", "cortex_m55", "diana", "kite"):
        main_job(environment, target)
