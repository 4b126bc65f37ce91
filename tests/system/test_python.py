"""dory from Python: arrays go in and come out, results are tables and pictures."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dory_core.tools as dory
from dory_core.api import ToolMissing, UsageError
from dory_core.cli import progress
from dory_core.driver.application import read_graph
from dory_core.ir import reference
from dory_core.ir.reals import dequantise, quantise

EXAMPLE = Path(__file__).parents[2] / "examples" / "tones"
NETWORK, GOLDEN = EXAMPLE / "net.tflite", EXAMPLE / "golden.npz"
SHAPE = (48, 24, 1)
OUTPUT = "layer_09"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> dory.CompiledNetwork:
    app = tmp_path_factory.mktemp("python") / "app"
    return dory.compile(
        NETWORK, target="gap8", output=app, golden=GOLDEN, l1="32k", settings={"cores": 8}
    )


@pytest.fixture(scope="module")
def batch() -> np.ndarray[Any, np.dtype[np.int8]]:
    return np.random.default_rng(0).integers(-128, 128, (3, *SHAPE)).astype(np.int8)


def expected(network: dory.CompiledNetwork, values: np.ndarray[Any, Any]) -> Any:
    """Return the tensors that the reference executor computes of an input (H, W, C)."""
    assert network.path is not None
    graph = read_graph(network.path)
    return graph, reference.run(graph, {graph.inputs[0]: values.transpose(2, 0, 1)})


def test_sizes_and_settings_are_numbers_or_texts(network: dory.CompiledNetwork) -> None:
    assert network.plan["memory"]["L1"]["budget"] == 32 << 10
    assert network.plan["options"]["cores"] == 8
    assert network.golden is not None
    with pytest.raises(UsageError, match="'32q' is no size"):
        dory.compile(NETWORK, target="gap8", l1="32q")


def test_a_batch_gives_outputs_as_arrays(network: dory.CompiledNetwork, batch: Any) -> None:
    ran = network.run(inputs=batch, all_layers=True)
    assert ran.exact
    assert [run.input for run in ran.result.runs] == [f"inputs[0][{n}]" for n in range(3)]
    assert ran.outputs[OUTPUT].shape == (3, 1, 1, 4)
    assert ran.outputs[OUTPUT].dtype == np.int8
    for number, sample in enumerate(batch):
        graph, tensors = expected(network, sample)
        values = tensors[graph.outputs[0]]
        assert np.array_equal(ran.outputs[OUTPUT][number].transpose(2, 0, 1), values)
        reals = dequantise(graph.tensors[graph.outputs[0]], values)
        assert np.array_equal(ran.reals[OUTPUT][number].transpose(2, 0, 1), reals)
    assert sorted(ran.values) == list(range(10))
    assert ran.values[9].shape == (3, 1, 1, 4)
    assert [*network.run(inputs=batch).values] == [9], "only the outputs without all_layers"


def test_arrays_lists_and_mappings_are_the_same_inputs(
    network: dory.CompiledNetwork, batch: Any, tmp_path: Path
) -> None:
    np.save(tmp_path / "batch.npy", batch)
    given = (batch, [*batch], {"t0": batch}, [batch[0], batch[1:]], tmp_path / "batch.npy")
    found = [network.run(inputs=one).outputs[OUTPUT] for one in given]
    assert all(np.array_equal(found[0], one) for one in found[1:])
    planes = network.run(inputs=batch.transpose(0, 3, 1, 2), input_layout="chw")
    assert np.array_equal(planes.outputs[OUTPUT], found[0])


def test_floats_are_real_numbers(network: dory.CompiledNetwork, tmp_path: Path) -> None:
    reals = np.random.default_rng(1).uniform(0, 16, SHAPE).astype(np.float32)
    graph, _ = expected(network, np.zeros(SHAPE, np.int8))
    integers = quantise(graph.tensors["t0"], reals)
    np.save(tmp_path / "x.npy", reals)
    found = [
        network.run(inputs=reals),
        network.run(inputs=tmp_path / "x.npy", input_reals=True),
        network.run(inputs=integers),
    ]
    assert "real numbers as H x W x C, quantised" in found[0].result.notes[0]
    assert all(np.array_equal(one.outputs[OUTPUT], found[0].outputs[OUTPUT]) for one in found)
    with pytest.raises(UsageError, match="not an integer"):
        network.run(inputs=tmp_path / "x.npy")


def test_what_is_no_number_is_said(network: dory.CompiledNetwork) -> None:
    reals = np.zeros(SHAPE, np.float32)
    reals[3, 4] = np.nan
    ran = network.run(inputs=reals)
    assert "1 of them no numbers (NaN), which become 0" in ran.result.notes[0]


def test_a_large_batch_is_told_in_few_lines(
    network: dory.CompiledNetwork, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = network.run(inputs=np.zeros((25, *SHAPE), np.int8))
    ran.report()
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("run ") for line in lines) == 20
    assert "5 more runs: every layer exact (-v lists them)" in lines
    assert "15 more answers: --dump DIR writes them" in lines
    assert lines[-1].startswith("exact to tflm")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"other": np.zeros(SHAPE, np.int8), "x": np.zeros(3)}, "no array 't0', there are other"),
        (np.zeros((2, 24, 48), np.int8), "which is|has the shape 24 x 48"),
        (np.full(SHAPE, 200), r"holds values in \[200, 200\], the network expects \[-128, 127\]"),
    ],
)
def test_wrong_arrays_are_refused(network: dory.CompiledNetwork, given: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        network.run(inputs=given)


def test_accuracy_of_labelled_samples(network: dory.CompiledNetwork, tmp_path: Path) -> None:
    samples = np.random.default_rng(2).uniform(0, 16, (70, *SHAPE)).astype(np.float32)
    classes = network.run(inputs=samples).reals[OUTPUT].reshape(70, 4).argmax(axis=1)
    labels = classes.copy()
    labels[:7] = (labels[:7] + 1) % 4
    np.savez(tmp_path / "test.npz", anything=samples, labels=labels)
    told: list[tuple[str, int, int]] = []
    found = network.evaluate(samples, labels, progress=lambda *step: told.append(step))
    assert (found.accuracy, found.exact) == (0.9, True)
    assert np.array_equal(found.classes, classes)
    assert found.confusion.sum() == 70 and np.trace(found.confusion) == 63
    assert ("evaluate", 64, 70) in told
    assert network.path is not None
    assert dory.evaluate(network.path, tmp_path / "test.npz").accuracy == 0.9
    with pytest.raises(UsageError, match="no array 'labels'"):
        network.evaluate(samples)
    with pytest.raises(UsageError, match="69 labels and 70 samples"):
        network.evaluate(samples, labels[1:])
    with pytest.raises(UsageError, match="label 2 is 4, the network has the classes 0 to 3"):
        network.evaluate(samples[:3], [0, 1, 4])


def test_results_are_one_line_and_tables(network: dory.CompiledNetwork, batch: Any) -> None:
    pytest.importorskip("pandas", reason="the extra `notebook` is not installed")
    ran, checked = network.run(inputs=batch), dory.check(NETWORK, "gap8")
    least = dory.least_ram(NETWORK, "gap8")
    compared = dory.compare(NETWORK, "gap8", vary={"l1": ["16k", 32 << 10]})
    for result in (network, ran, checked, least, compared):
        assert "\n" not in repr(result) and len(repr(result)) < 160
        assert "<pre" in result._repr_html_()
    assert network.to_pandas().cycles.sum() <= network.cycles
    assert list(ran.to_pandas().exact) == [True] * 30
    assert checked.to_pandas().kernel.notna().all()
    assert len(least.to_pandas()) == len(least.to_json()["points"])
    assert list(compared.to_pandas().l1) == ["16384", "32768"]
    assert {row["target"] for row in compared.layers} == {"gap8"}


def test_without_pandas_the_rows_are_named(
    network: dory.CompiledNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ToolMissing, match="pandas") as refused:
        network.to_pandas()
    assert "`layers`" in refused.value.hint


def test_pictures_are_svg(network: dory.CompiledNetwork, tmp_path: Path) -> None:
    pictures = network.pictures()
    assert {"cycles", "timeline", "memory-l2", "memory-l1", "roofline"} <= {*pictures}
    for picture in pictures.values():
        assert picture._repr_svg_().startswith("<svg") and "\n" not in repr(picture)
    pictures["timeline"].save(tmp_path / "timeline.svg")
    assert (tmp_path / "timeline.svg").read_text() == pictures["timeline"].svg


def test_a_missing_function_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dory.quantize.__module__.startswith("dory_qdq")
    monkeypatch.setattr(type(dory.load_plugins()), "functions", lambda self: {})
    with pytest.raises(AttributeError, match="it comes with the package dory-report"):
        _ = dory.compare
    assert not hasattr(dory, "nothing")


def test_a_notebook_shows_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm", reason="the extra `notebook` is not installed")
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    lines: list[str] = []
    monkeypatch.setattr(sys, "stderr", type("Lines", (), {"write": lines.append, "flush": str})())
    with progress.shown_progress(None) as told:
        assert told is not None
        told("plan", 3, 12)
    assert any("plan" in line and "3/12" in line for line in lines)
    with progress.shown_progress(False) as told:
        assert told is None
