"""The frontend through the command line."""

from pathlib import Path

import numpy as np
import pytest
from dory_nemo.testing import NemoBuilder
from dory_onnx.testing import write_golden
from dory_onnx.testing.passed import assert_passed_input_is_a_copy

from tests.cli.command_line import dory

PLUGINS = "nemo,quantlab"


def test_the_frontend_is_found_from_the_file(tmp_path: Path) -> None:
    path = NemoBuilder((3, 6, 6)).conv(8, 1).save(tmp_path / "net.onnx")
    outcome = dory("check", path, DORY_PLUGINS=PLUGINS)
    assert outcome.status == 0, outcome.stderr


@pytest.mark.parametrize("keep", [0, 1, 100])
def test_a_truncated_file_is_no_valid_model(keep: int, tmp_path: Path) -> None:
    path = NemoBuilder((3, 6, 6)).conv(8, 1).save(tmp_path / "net.onnx")
    path.write_bytes(path.read_bytes()[:keep])
    outcome = dory("check", path, DORY_PLUGINS=PLUGINS)
    assert outcome.status == 3, outcome.stderr
    said = outcome.stdout + outcome.stderr
    assert "net.onnx" in said and "Traceback" not in said


@pytest.mark.parametrize("name", ["net.onnx", "net.tflite", "net"])
def test_a_network_of_another_form_needs_a_name(name: str, tmp_path: Path) -> None:
    builder = NemoBuilder((3, 6, 6)).conv(8, 1)
    scale, zero = builder.constant(0.5), builder.constant(0, np.uint8)
    builder.node("QuantizeLinear", builder.value, scale, zero)
    outcome = dory("check", builder.save(tmp_path / name), DORY_PLUGINS=PLUGINS)
    assert outcome.status == 3
    assert "no frontend recognises this file" in outcome.stderr
    assert "--frontend NAME, one of: nemo, quantlab" in outcome.stderr


@pytest.mark.parametrize("alone", [False, True])
def test_an_output_that_is_the_input_is_a_copy(alone: bool, tmp_path: Path) -> None:
    assert_passed_input_is_a_copy(NemoBuilder((3, 6, 6)), "nemo", alone, tmp_path)


def test_goldens_of_the_quantiser_need_no_copies_of_inputs(tmp_path: Path) -> None:
    builder = NemoBuilder((3, 6, 6))
    passed = builder.node("Identity", builder.input)
    builder.at(builder.input).conv(8, 3).output().output(passed)
    golden = write_golden(builder, tmp_path / "golden.npz", 0)
    path = builder.save(tmp_path / "net.onnx")
    outcome = dory("check", path, "--golden", golden, DORY_PLUGINS=PLUGINS)
    assert outcome.status == 0, outcome.stderr
    assert "golden: 1 of 2 layers are exact" in outcome.stdout + outcome.stderr
