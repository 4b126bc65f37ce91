"""Inputs and goldens that are no such thing: a reason, a hint, status 2, and nothing written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from dory_core.ir.parse import parse_graph
from tests.cli.command_line import dory


def _write(golden: Path, folder: Path, case: str) -> Path:
    """Write an input or golden with one defect and return its path."""
    arrays = dict(np.load(golden))
    image = arrays["input"]
    if case == "text that is binary":
        path = folder / "input.txt"
        path.write_bytes(bytes(range(256)))
        return path
    path = folder / "file.npy"
    if case == "objects":
        np.save(path, np.array([{}], dtype=object), allow_pickle=True)
        return path
    inputs = {
        "too short": image[:-1],
        "too large": image + 256,
        "negative": image - 256,
        "fractions": image + 0.5,
        "huge": np.full(image.size, 1e30),
        "not a number": np.full(image.size, np.nan),
        "complex": image.astype(complex),
    }
    np.save(path, inputs[case])
    return path


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("too short", "tensor 'input' of the network has"),
        ("too large", "the network expects [0, 255]"),
        ("negative", "the network expects [0, 255]"),
        ("fractions", "not an integer"),
        ("huge", "value 0 is 1e+30, not an integer"),
        ("not a number", "value 0 is nan"),
        ("complex", "complex128"),
        ("objects", "Python objects are not read"),
        ("text that is binary", "not a readable text file"),
    ],
)
def test_bad_input(
    pipeline: tuple[str, ...],
    net: Path,
    golden: Path,
    application: Path,
    tmp_path: Path,
    case: str,
    reason: str,
) -> None:
    path = _write(golden, tmp_path, case)
    compiled = dory(*pipeline, net, "--input", path, "-o", tmp_path / "app")
    ran = dory("run", application, "--input", path)
    for outcome in (compiled, ran):
        assert (outcome.status, outcome.stdout) == (2, ""), outcome.stderr
        assert reason in outcome.stderr
        assert "hint:" in outcome.stderr
        assert "Warning" not in outcome.stderr
    assert not (tmp_path / "app").exists()


def test_golden_that_is_one_array(
    pipeline: tuple[str, ...], net: Path, golden: Path, application: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "one.npy", np.load(golden)["input"])
    compiled = dory(*pipeline, net, "--golden", tmp_path / "one.npy", "-o", tmp_path / "app")
    ran = dory("run", application, "--golden", tmp_path / "one.npy")
    for outcome in (compiled, ran):
        assert outcome.status == 2, outcome.stderr
        assert "holds one array" in outcome.stderr


def test_golden_and_input_together_would_ignore_one(
    pipeline: tuple[str, ...], net: Path, golden: Path
) -> None:
    outcome = dory(*pipeline, net, "--golden", golden, "--input", net, "--plan-only")
    assert outcome.status == 2
    assert "--input would be ignored" in outcome.stderr


def test_several_vectors_are_named_and_dumped_apart(
    golden: Path, application: Path, tmp_path: Path
) -> None:
    image = np.load(golden)["input"]
    np.save(tmp_path / "a.npy", image)
    np.savetxt(tmp_path / "b.txt", image[::-1], fmt="%d")
    options = ["--input", tmp_path / "a.npy", "--input", tmp_path / "b.txt", "--golden", golden]
    outcome = dory("run", application, *options, "--dump", tmp_path / "dump", "--json")
    assert outcome.status == 0, outcome.stderr
    names = [Path(run["input"]).name for run in outcome.json["runs"]]
    assert names == ["golden.npz", "a.npy", "b.txt"]
    first = [np.load(tmp_path / "dump" / f"run_{n:02d}" / "layer_00.npy") for n in range(3)]
    assert np.array_equal(first[0], first[1])
    assert not np.array_equal(first[0], first[2])


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "content", ["{}", "null", "[]", "x", '{"generator": "dory", "version": 1}']
)
def test_damaged_plan(tmp_path: Path, content: str) -> None:
    (tmp_path / "plan.json").write_text(content)
    outcome = dory("run", tmp_path, DORY_PLUGINS="")
    assert outcome.status == 2, outcome.stderr
    assert "plan.json" in outcome.stderr or "no application" in outcome.stderr


@pytest.mark.sample(3)
@pytest.mark.parametrize("key", ["layers", "memory", "network", "totals", "target", "options"])
def test_plan_with_a_part_of_another_type(application: Path, tmp_path: Path, key: str) -> None:
    copy = Path(shutil.copytree(application, tmp_path / "copy"))
    plan = json.loads((copy / "plan.json").read_text())
    (copy / "plan.json").write_text(json.dumps(plan | {key: 5}))
    outcome = dory("run", copy)
    assert outcome.status == 2, outcome.stderr
    assert "plan.json is damaged" in outcome.stderr


@pytest.mark.parametrize("name", ["weights/dory_weights_00.c", "vectors/layer_01.bin", "plan.json"])
def test_missing_file_of_an_application(application: Path, tmp_path: Path, name: str) -> None:
    copy = Path(shutil.copytree(application, tmp_path / "copy"))
    (copy / name).unlink()
    outcome = dory("run", copy)
    assert outcome.status == 2, outcome.stderr
    assert name in outcome.stderr


@pytest.mark.sample(2)
@pytest.mark.parametrize("sanitize", ["", ",", "address,", "nonsense"])
def test_unknown_or_empty_sanitizer_is_not_ignored(application: Path, sanitize: str) -> None:
    outcome = dory("run", application, "--sanitize", sanitize)
    assert outcome.status == 2
    assert "unknown sanitizer" in outcome.stderr


@pytest.mark.parametrize("size", ["4G", "99999999999999999999", "4194304k"])
def test_budget_beyond_what_c_can_count(pipeline: tuple[str, ...], net: Path, size: str) -> None:
    outcome = dory(*pipeline, net, "--plan-only", "--l1", size)
    assert outcome.status == 2, outcome.stderr


def test_seed_beyond_64_bits(application: Path) -> None:
    assert dory("run", application, "--dma", "random", "--seed", str(2**64 - 1)).status == 0
    assert dory("run", application, "--dma", "random", "--seed", str(2**64)).status == 2


def test_run_refuses_another_layout_and_tells_what_it_did(
    network: tuple[Path, Path], application: Path, tmp_path: Path
) -> None:
    graph = parse_graph(network[0].read_text(encoding="utf-8"))
    tensor = graph.tensors[graph.inputs[0]]
    image = np.load(network[1])["input"].reshape(tensor.height, tensor.width, tensor.channels)
    np.save(tmp_path / "chw.npy", image.transpose(2, 0, 1))
    np.save(tmp_path / "hwc.npy", image)
    refused = dory("run", application, "--input", tmp_path / "chw.npy")
    assert refused.status == 2 and "--input-layout chw" in refused.stderr
    converted = dory("run", application, "--input", tmp_path / "chw.npy", "--input-layout", "chw")
    plain = dory("run", application, "--input", tmp_path / "hwc.npy", "--json")
    assert "hwc.npy: output '" in plain.json["answers"][0]
    assert (converted.status, plain.status) == (0, 0), converted.stderr
    assert "C x H x W, rearranged to H x W x C" in converted.stdout.splitlines()[0]
    assert plain.json["notes"][0].endswith("as H x W x C")
