"""The bundled example in TensorFlow Lite form: its golden, and the way to an application."""

import subprocess
import sys
from pathlib import Path

import numpy as np
from dory_tflite.importer import import_model
from dory_tflite.network import file_values
from dory_tflite.reader import read_model

from dory_core.testing import run_reference

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "shapes"


def test_every_tensor_equals_tensorflow_lite_micro() -> None:
    model = read_model(EXAMPLE / "net.tflite")
    imported = import_model(model)
    tensors = model.subgraphs[0].tensors
    assert [op.kind for op in imported.graph.ops] == [
        *("Conv", "Conv", "Conv", "Conv", "Add", "AvgPool", "Linear", "Softmax"),
    ]
    with np.load(EXAMPLE / "golden.npz") as golden:
        for run, kind in ((0, 0), (1, 2)):
            picture = golden[f"in{run}__t0"].astype(np.int64)[0].transpose(2, 0, 1)
            values = run_reference(imported.graph, {"t0": picture})
            keys = [key for key in golden.files if key.startswith(f"run{run}__")]
            for key in keys:
                index = int(key.split("__t")[1])
                bound = imported.tensors[index]
                found = file_values(tensors[index], bound, values[bound.name])
                assert np.array_equal(found, golden[key]), key
            assert values[imported.graph.outputs[0]].argmax() == kind


def test_it_compiles_from_its_name_alone_and_runs_exact(tmp_path: Path) -> None:
    def dory(*arguments: object) -> str:
        program = "from dory_core.cli.main import main; main()"
        command = [sys.executable, "-c", program, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    app = tmp_path / "app"
    options = ("--target", "gap8", "--golden", EXAMPLE / "golden.npz", "-o", app)
    assert "golden: all 8 layers are exact" in dory(*options, EXAMPLE / "net.tflite")
    assert "exact to tflm" in dory("run", app)
