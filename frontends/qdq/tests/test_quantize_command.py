"""``dory quantize`` as a user runs it: what is written, what is said, and nothing on errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from dory_onnx.testing import OnnxBuilder

from tests.cli.command_line import Outcome, dory

pytest.importorskip("onnxruntime", reason="the extra quantize is not installed")

SHAPE = (3, 8, 8)


def network(folder: Path, *, last: str = "", middle: str = "", dims: Any = None) -> Path:
    """Write a network of two convolutions; last, middle: operators to add there."""
    random = np.random.default_rng(0)
    builder = OnnxBuilder(SHAPE, opset=17)
    builder.node("Conv", builder.value, builder.constant(random.standard_normal((8, 3, 3, 3))))
    builder.node(middle or "Relu", builder.value)
    builder.node("Conv", builder.value, builder.constant(random.standard_normal((4, 8, 1, 1))))
    if last:
        builder.node(last, builder.value)
    path = folder / "float.onnx"
    onnx.save(builder.model(dims), str(path))
    return path


def data(folder: Path, count: int = 12, name: str = "image", **arrays: Any) -> Path:
    image = np.random.default_rng(1).standard_normal((count, *SHAPE)).astype(np.float32)
    np.savez(folder / "data.npz", **{name: image}, **arrays)
    return folder / "data.npz"


def quantize(folder: Path, *arguments: str | Path, **options: Any) -> Outcome:
    path = network(folder, **options)
    there = data(folder) if not (folder / "data.npz").exists() else folder / "data.npz"
    return dory("quantize", path, "--calibration", there, *arguments, cwd=folder)


def refused(outcome: Outcome, folder: Path, status: int) -> str:
    """Check that an error is one line and a way out, and that nothing was written."""
    assert outcome.status == status, outcome.stderr
    error, hint = outcome.stderr.strip().splitlines()
    assert error.startswith("dory: error: ") and hint.startswith("dory: hint: ")
    assert outcome.stdout == ""
    assert {path.name for path in folder.iterdir()} <= {"float.onnx", "data.npz"}
    return outcome.stderr


def test_the_file_is_one_that_dory_reads(tmp_path: Path) -> None:
    data(tmp_path, labels=np.zeros(12, int))
    outcome = quantize(tmp_path, "--target", "gap8", dims=("batch", *SHAPE))
    assert outcome.status == 0, outcome.stderr
    assert re.search(r"conv.*Conv\s+\d+\.\d dB", outcome.stdout, re.I)
    assert "accuracy on these 12 samples" in outcome.stdout
    check = dory("check", tmp_path / "float_int8.onnx", "--json")
    assert check.status == 0, check.stderr
    assert check.json["format"]["frontend"] == "qdq"


def test_the_document_has_choices_and_layers(tmp_path: Path) -> None:
    outcome = quantize(tmp_path, "-o", tmp_path / "net.onnx", "--per-tensor", "--json")
    assert outcome.status == 0, outcome.stderr
    document = outcome.json
    assert document["written"] == str(tmp_path / "net.onnx")
    assert (document["choices"]["per_channel"], document["choices"]["reason"]) == (
        False,
        "as asked",
    )
    assert document["samples"] == 12 and document["accuracy"] is None
    assert [layer["op"] for layer in document["layers"]] == ["Relu", "Conv"]
    assert all(layer["snr_db"] > 15 for layer in document["layers"])


def test_a_float_operator_at_the_end_is_said(tmp_path: Path) -> None:
    outcome = quantize(tmp_path, last="LogSoftmax")
    assert outcome.status == 0, outcome.stderr
    assert "in float: LogSoftmax" in outcome.stdout
    assert "onnxruntime's quantiser does not quantise LogSoftmax" in outcome.stdout


def test_a_result_that_dory_cannot_compute_is_not_written(tmp_path: Path) -> None:
    outcome = quantize(tmp_path, middle="Hardmax")
    assert "the quantised network cannot be computed exactly" in refused(outcome, tmp_path, 3)


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (["--method", "magic"], 2, "unknown method 'magic'"),
        (["--activations", "int4"], 2, "unknown type 'int4'"),
        (["--target", "nochip"], 2, "unknown target 'nochip'"),
        (["-o", "float.onnx"], 2, "is the float network"),
    ],
)
def test_wrong_options(arguments: list[str], status: int, reason: str, tmp_path: Path) -> None:
    assert reason in refused(quantize(tmp_path, *arguments), tmp_path, status)


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        ({"name": "x"}, "no array 'image' for the input of that name; arrays: 'x'"),
        ({"count": 3}, "3 samples are too few"),
    ],
)
def test_samples_that_do_not_fit(samples: dict[str, Any], reason: str, tmp_path: Path) -> None:
    data(tmp_path, **samples)
    assert reason in refused(quantize(tmp_path), tmp_path, 2)


def test_open_sizes_are_refused(tmp_path: Path) -> None:
    outcome = quantize(tmp_path, dims=("batch", 3, "height", "width"))
    assert "dynamic shape [1, 3, height, width]" in refused(outcome, tmp_path, 3)


def test_a_quantised_network_is_refused(tmp_path: Path) -> None:
    assert quantize(tmp_path, "-q").status == 0
    made = tmp_path / "float_int8.onnx"
    outcome = dory("quantize", made, "--calibration", tmp_path / "data.npz", cwd=tmp_path)
    assert outcome.status == 3
    assert "it is quantised already" in outcome.stderr
    assert not (tmp_path / "float_int8_int8.onnx").exists()


def test_missing_files(tmp_path: Path) -> None:
    outcome = dory("quantize", "none.onnx", "--calibration", "none.npz", cwd=tmp_path)
    assert "network none.onnx does not exist" in refused(outcome, tmp_path, 2)


@pytest.mark.parametrize(("factor", "warned"), [(1.0, False), (1e3, False), (1e6, True)])
def test_samples_that_nobody_scaled_are_warned_about(
    factor: float, warned: bool, tmp_path: Path
) -> None:
    with np.load(data(tmp_path)) as archive:
        images = archive["image"]
    images = (images / np.abs(images).max() * factor).astype(np.float32)
    np.savez(tmp_path / "data.npz", image=images)
    outcome = quantize(tmp_path, "-o", tmp_path / "net.onnx", "--json")
    assert outcome.status == 0, outcome.stderr
    (given,) = outcome.json["inputs"]
    assert given == {"name": "image", "range": [float(images.min()), float(images.max())]}
    notes = [note for note in outcome.json["notes"] if "samples of 'image' reach from" in note]
    assert bool(notes) == warned
