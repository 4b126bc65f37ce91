"""``dory golden`` and ``dory tflite-operators``, as a user runs them."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dory_tflite.operators import OPERATORS

from tests.nets import tflite_net


def dory(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = "from dory_core.cli.main import main; main()"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_golden_of_a_file_equals_that_of_the_collection(tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="the extra golden is not installed")
    net = tflite_net("tflm_hello_world")
    with np.load(net.golden) as archive:
        expected = {key: archive[key] for key in archive.files}
    for run in (0, 1):
        np.save(tmp_path / f"{run}.npy", expected[f"in{run}__t0"])
    path = tmp_path / "golden.npz"
    inputs = [f"--input={tmp_path / name}" for name in ("0.npy", "1.npy")]
    done = dory("golden", net.path, "-o", path, "--json", *inputs)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"] == 2
    with np.load(path) as archive:
        assert set(archive.files) == set(expected)
        for key, values in expected.items():
            assert np.array_equal(archive[key], values)
    np.save(tmp_path / "0.npy", np.zeros(7))
    wrong = dory("golden", net.path, "-o", path, inputs[0])
    assert wrong.returncode == 2 and "no array 't0' of 1 values" in wrong.stderr


def test_table_of_operators_is_that_of_the_importer() -> None:
    done = dory("tflite-operators", "--json")
    rows = json.loads(done.stdout)
    assert [row["operator"] for row in rows] == sorted(OPERATORS)
    for row in rows:
        sentences = [one.sentence for one in OPERATORS[row["operator"]].constraints]
        assert row["constraints"] == sentences
