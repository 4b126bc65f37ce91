"""The frontend through the command line."""

from pathlib import Path

import pytest
from dory_deeploy.testing import DeeployBuilder
from dory_onnx.testing.passed import assert_passed_input_is_a_copy

from tests.cli.command_line import dory

PLUGINS = "nemo,quantlab,deeploy"


@pytest.mark.parametrize("domain", ["", "PACTOps"])
def test_the_frontend_is_found_from_the_file(domain: str, tmp_path: Path) -> None:
    path = DeeployBuilder((3, 6, 6), domain=domain).conv(8, 1).save(tmp_path / "net.onnx")
    outcome = dory("check", path, DORY_PLUGINS=PLUGINS)
    assert outcome.status == 0, outcome.stderr


def test_a_refused_operator_is_one_sentence_and_a_way_out(tmp_path: Path) -> None:
    builder = DeeployBuilder((3, 6, 6)).conv(8, 1)
    builder.node("iSiLU", builder.value)
    outcome = dory("check", builder.save(tmp_path / "net.onnx"), DORY_PLUGINS=PLUGINS)
    assert outcome.status == 3
    assert "operator iSiLU on '" in outcome.stdout + outcome.stderr


@pytest.mark.parametrize("alone", [False, True])
def test_an_output_that_is_the_input_is_a_copy(alone: bool, tmp_path: Path) -> None:
    assert_passed_input_is_a_copy(DeeployBuilder((3, 6, 6)), "deeploy", alone, tmp_path)
