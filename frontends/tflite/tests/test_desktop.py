"""`dory check --compare-desktop`: LiteRT's interpreters beside TensorFlow Lite Micro."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dory_tflite.desktop import INTERPRETERS, load_desktop, with_outputs
from dory_tflite.golden import computed_tensors
from dory_tflite.reader import model_of, read_model

from dory_core.api import ToolMissing
from dory_core.testing import compare_desktop
from tests.nets import TfliteNet, tflite_names, tflite_net, tflite_params

XNNPACK, BUILT_IN, REFERENCE = INTERPRETERS
NETWORKS = (
    "mlperf_ad01_int8",
    "mlperf_kws_ref_model",
    "mlperf_pretrainedResnet_quant",
    "mlonmcu_rnnoise_int8",
    "openmv_force_int_quant",
    "tflm_micro_speech",
    "esphome_okay_nabu",
)
PROVEN = "its formula gives every element here"


@pytest.fixture(autouse=True)
def litert(request: pytest.FixtureRequest) -> None:
    if "without" not in request.node.name:
        pytest.importorskip("ai_edge_litert", reason="the extra desktop is not installed")


def meta(net: TfliteNet) -> dict[str, dict[str, int]]:
    """Return what was counted when the collection was made, by another program."""
    text = (net.folder / "meta.json").read_text(encoding="utf-8")
    return dict(json.loads(text)["executors_vs_golden"])


@pytest.mark.parametrize("name", NETWORKS)
def test_sums_are_explained_by_the_formula_of_the_interpreter(name: str) -> None:
    report = compare_desktop(load_desktop(tflite_net(name).path))
    assert [one.name for one in report.interpreters] == list(INTERPRETERS)
    words = {XNNPACK: "float32, ties to even", BUILT_IN: "ties up", REFERENCE: "double"}
    for one in report.interpreters:
        assert not one.refused
        for layer in one.layers:
            assert bool(layer.reason) == bool(layer.own.differ)
            if layer.reason and layer.name.startswith(("CONV", "DEPTHWISE", "FULLY")):
                assert words[one.name] in layer.reason and PROVEN in layer.reason
            assert layer.own.largest <= 1


@pytest.mark.parametrize("name", ["mlperf_ad01_int8", "mlperf_pretrainedResnet_quant"])
def test_counts_are_those_of_the_collection(name: str) -> None:
    """Reference kernels compute the same on every machine."""
    net = tflite_net(name)
    desktop, elements, tensors = load_desktop(net.path), 0, 0
    with np.load(net.golden) as golden:
        runs = len({key.split("__")[0] for key in golden if key.startswith("in")})
        for run in range(runs):
            (given,) = desktop.graph.inputs
            kind = desktop.graph.tensors[given]
            shape = (kind.height, kind.width, kind.channels)
            values = golden[f"in{run}__{given}"].astype(np.int64).reshape(shape)
            found = next(
                one
                for one in desktop.run({given: values.transpose(2, 0, 1)})
                if one.interpreter == REFERENCE
            )
            for op in desktop.graph.ops:
                wanted = golden[f"run{run}__{op.tensor}"].reshape(-1)
                got = found.tensors[op.output].transpose(1, 2, 0).reshape(-1)
                elements += int(np.count_nonzero(wanted != got))
                tensors += not np.array_equal(wanted, got)
    counted = meta(net)["ref"]
    assert elements == counted["elements_differ"] and tensors == counted["tensors_differ"]


def test_file_with_all_outputs_is_the_same_network() -> None:
    path = tflite_net("mlperf_ad01_int8").path
    model, data = read_model(path), path.read_bytes()
    indices = computed_tensors(model.subgraphs[0])
    changed = model_of(with_outputs(data, indices), path).subgraphs[0]
    assert changed.outputs == indices
    assert changed.operators == model.subgraphs[0].operators


def dory(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = "from dory_core.cli.main import main; main()"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_command_prints_a_table_or_a_document() -> None:
    path = tflite_net("mlperf_ad01_int8").path
    done = dory("check", path, "--compare-desktop", "--json")
    assert done.returncode == 0, done.stderr
    default = json.loads(done.stdout)["desktop"]["interpreters"][0]
    assert default["name"] == XNNPACK and default["first"] == 1
    assert default["outputs"]["differ"] > 0
    text = dory("check", path, "--compare-desktop").stdout
    assert "FULLY_CONNECTED_01" in text and "compare a board with that" in text


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    example = Path(__file__).resolve().parents[3] / "examples" / "tones" / "net.tflite"
    with pytest.raises(ToolMissing) as refused:
        load_desktop(example)
    assert "pip install ai-edge-litert" in refused.value.hint


@pytest.mark.slow
@pytest.mark.parametrize("name", tflite_params())
def test_every_difference_of_the_collection_has_a_reason(name: str) -> None:
    assert name in tflite_names()
    for one in compare_desktop(load_desktop(tflite_net(name).path)).interpreters:
        assert not one.refused
        for layer in one.layers:
            assert "not known" not in layer.reason
