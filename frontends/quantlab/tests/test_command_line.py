"""The frontend through the command line."""

from pathlib import Path

import pytest
from dory_onnx.testing.passed import assert_passed_input_is_a_copy
from dory_quantlab.testing import QuantlabBuilder

from tests.cli.command_line import dory


def test_check_names_layers_and_what_was_assumed(tmp_path: Path) -> None:
    builder = QuantlabBuilder((3, 6, 6)).conv(8, 1, weight_bits=2, hi=15)
    branch = builder.value
    builder.conv(8, 3, pads=1, weight_bits=4, hi=15).add(branch, signed=None)
    path = builder.save(tmp_path / "net.onnx")
    outcome = dory("check", path, "--frontend", "quantlab")
    assert outcome.status == 0, outcome.stderr
    assert "out_signed is missing" in " ".join((outcome.stdout + outcome.stderr).split())


@pytest.mark.parametrize("missing", ["in1_mul", "out_rq"])
def test_add_without_an_attribute_is_exit_3(missing: str, tmp_path: Path) -> None:
    builder = QuantlabBuilder((3, 6, 6)).conv(8, 1)
    branch = builder.value
    builder.conv(8, 1).add(branch, in1=(3, 0, 1), without=(missing,))
    outcome = dory("check", builder.save(tmp_path / "net.onnx"), "--frontend", "quantlab")
    assert outcome.status == 3
    said = outcome.stdout + outcome.stderr
    assert "Add '/Add_" in said and f"attribute {missing} is missing" in said


def test_input_type_is_an_option(tmp_path: Path) -> None:
    path = QuantlabBuilder((3, 6, 6)).conv(8, 1).save(tmp_path / "net.onnx")
    shown = [
        dory("check", path, "--frontend", "quantlab", *options)
        for options in ((), ("--input-bits", "4", "--input-signed"), ("--input-bits", "99"))
    ]
    assert [outcome.status for outcome in shown] == [0, 0, 2]


def test_the_frontend_is_found_from_the_file(tmp_path: Path) -> None:
    path = QuantlabBuilder((3, 6, 6)).conv(8, 1).save(tmp_path / "net.onnx")
    outcome = dory("check", path, DORY_PLUGINS="nemo,quantlab")
    assert outcome.status == 0, outcome.stderr


@pytest.mark.parametrize("alone", [False, True])
def test_an_output_that_is_the_input_is_a_copy(alone: bool, tmp_path: Path) -> None:
    assert_passed_input_is_a_copy(QuantlabBuilder((3, 6, 6)), "quantlab", alone, tmp_path)
