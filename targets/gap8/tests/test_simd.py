"""The two forms of the SIMD header: builtins of the chip's compiler, and portable C."""

from __future__ import annotations

import subprocess
from pathlib import Path

import dory_gap8

from dory_core.testing.compilers import require_gcc

HERE = Path(__file__).parent / "c"
KERNELS = Path(dory_gap8.__file__).parent / "kernels"
FLAGS = ("-Wall", "-Wextra", "-Werror", "-O1", f"-I{HERE}", f"-I{KERNELS}")


def _values(directory: Path, *flags: str) -> list[str]:
    program = directory / f"values{len(flags)}"
    command = [*require_gcc(), *FLAGS, *flags, str(HERE / "simd_values.c"), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.split("\n")


def test_builtins_and_portable_form_give_the_same_values(tmp_path: Path) -> None:
    """The builtins are replaced by their definition in the manual of the instruction set."""
    portable = _values(tmp_path, "-std=c99", "-Wpedantic")
    builtins = _values(tmp_path, "-std=gnu99", "-DDORY_GAP8_XPULPV2=1", "-DSTUB_BUILTINS")
    assert len(portable) > 3 * 2000 + 1200
    assert portable == builtins
