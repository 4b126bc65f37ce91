"""Cores of the cluster share tiles evenly: all steps, as many cycles for each of them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import dory_gap8
import pytest
from dory_gap8.backend import SlideKernel, WindowKernel
from dory_gap8.backend.held import HeldKernel
from test_block import SAME, conv

from dory_core.api import geometry, ops
from dory_core.testing.compilers import require_gcc
from dory_core.testing.kernels import HostLibrary, whole_case

HERE = Path(__file__).parent / "c"
KERNELS = Path(dory_gap8.__file__).parent / "kernels"


def test_shares_cover_all_steps_and_take_as_many_cycles(tmp_path: Path) -> None:
    program = tmp_path / "shares"
    include = (f"-I{HERE / 'one_core'}", f"-I{KERNELS}")
    flags = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-fsanitize=undefined")
    command = [*require_gcc(), *flags, *include, str(HERE / "even_shares.c"), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    found = subprocess.run([program], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "20000 cases\n"), found.stdout + found.stderr


def test_estimates_of_eight_cores_are_an_eighth_where_units_do_not_divide() -> None:
    """Seven strips on a core where 6.25 would do took 12 % more, nine groups for 6.75 a third."""
    speech = ops.Window(kernel=(10, 4), strides=(2, 2), pads=(4, 1, 5, 1))
    for kind, layer, most in (
        (HeldKernel, conv(1, 64, (49, 10), speech), 1.08),
        (WindowKernel, conv(64, 24, (6, 6), ops.Window(kernel=(1, 1))), 1.25),
        (WindowKernel, conv(64, 64, (6, 10), SAME), 1.15),
    ):
        one, eight = (kind(cores).cycles(layer, geometry.extent(layer)) for cores in (1, 8))
        assert one / 8 < eight < most * one / 8


# DORY_GAP8_UNEVEN, and the cores of the cluster.
UNEVEN = 8 * 1000


@pytest.mark.parametrize("cores", [8, 3])
def test_uneven_shares_of_rows_of_padding_equal_the_reference(cores: int) -> None:
    """Rows of whole fours, others, rows with stride, channels that make no four, a single row."""
    kernel, cases = SlideKernel(cores), []
    for c_out, image, window in (
        (32, (16, 16), SAME),
        (30, (9, 18), SAME),
        (64, (11, 33), replace(SAME, strides=(2, 2))),
        (32, (1, 40), SAME),
    ):
        layer = conv(32, c_out, image, window)
        row = int(dict(kernel.instance(layer).macros)["DORY_ROW_CYCLES"])
        saved = sum(window.pads[::2]) * row * -(-c_out // 4) * (layer.output.width // 4)
        assert saved >= UNEVEN
        cases.append(whole_case(kernel, layer))
    HostLibrary(cases).check()


@pytest.mark.parametrize("cores", [8, 3])
def test_uneven_shares_of_first_layers_equal_the_reference(cores: int) -> None:
    """Rows of strips that are copied, strips of different lengths, a single row of strips."""
    kernel, two = HeldKernel(cores), replace(SAME, strides=(2, 2))
    cases = []
    for image, window in (((96, 96), two), ((95, 96), two), ((40, 64), SAME), ((3, 160), SAME)):
        layer = conv(3, 8, image, window)
        values = {path.rpartition(".")[2]: value for path, value in kernel.call(layer).leaves}
        copy = values["copy_cycles"]
        assert copy * layer.output.width >= UNEVEN / 8
        cases.append(whole_case(kernel, layer))
    HostLibrary(cases).check()
