"""The model inside the host simulation: a broken rule ends the run with layer, tile and reason."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from diana_machine import HERE, WARNINGS
from dory_diana.runtime import driver_files, model_files

from dory_core.testing import runtime_files
from dory_core.testing.compilers import host_compiler

FAULT = 70


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulation")
    files = [(f.path, f.content) for f in (*driver_files(), *model_files(adc_scale=16))]
    files += [(path, data) for path, data in runtime_files() if "main_host" not in path]
    for name, content in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "hal/host/network.h").write_text("#define DORY_L1_SIZE 131072u\n")
    sources = sorted(str(path) for path in folder.glob("hal/host/*.c"))
    program = folder / "program"
    command = [
        *host_compiler(),
        *WARNINGS,
        "-O1",
        *(f"-I{folder / i}" for i in ("hal/include", "hal/host")),
    ]
    command += [f"-I{folder / 'kernels'}", *sources, str(HERE / "c/diana_in_simulation.c")]
    done = subprocess.run([*command, "-o", str(program), "-lpthread"], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[:4000]
    return program


def test_a_correct_tile_is_computed(program: Path) -> None:
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "16 16\n", "")


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("width", "tile 0: digital_conv_2d: cx = 20 is not a multiple of 16"),
        ("weights", "tile 0: digital_conv_2d: 320 bytes at l2_W do not lie in L2"),
        ("early", "tile reads bytes of L1 that nothing wrote: bytes 0..511"),
        ("host", "core 0 touches byte 5 of L1, which only transfers and devices reach"),
        ("barrier", "transfer reads L1 bytes 4096..4607 that nothing wrote"),
    ],
)
def test_a_broken_rule_is_a_fault_of_the_run(program: Path, broken: str, words: str) -> None:
    done = subprocess.run([str(program), broken], capture_output=True, text=True)
    assert done.returncode == FAULT
    assert done.stderr.startswith("dory-sim: error: layer 3 'block.conv', tile 0: ")
    assert words in done.stderr


def test_the_scale_of_the_converter_is_positive() -> None:
    with pytest.raises(ValueError, match="adc_scale = 0"):
        model_files(adc_scale=0)
