"""``dory golden`` and ``dory --list-operators``, as a user runs them."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dory_tflite.operators import OPERATORS
from dory_tflite.operators.islands import FUNCTIONS

from tests.nets import nets_dir, tflite_net


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


def test_an_interpreter_that_ends_its_process_is_a_refusal(tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="the extra golden is not installed")
    path = nets_dir().with_name("nets_converted") / "efficientnet_b0_se.tflite"
    if not path.exists():
        pytest.skip(f"{path} is missing")
    done = dory("golden", path, "-o", tmp_path / "golden.npz")
    assert done.returncode == 3 and "TensorFlow Lite Micro ended without a message" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_all_frontends_list_their_operators() -> None:
    done = dory("--list-operators")
    assert done.returncode == 0 and "DEPTHWISE_CONV_2D" in done.stdout


def test_table_of_operators_is_that_of_the_importer() -> None:
    done = dory("--list-operators", "--frontend", "tflite", "--json")
    rows = json.loads(done.stdout)
    assert [row["operator"] for row in rows] == sorted({*OPERATORS, *FUNCTIONS, "CUSTOM"})
    between = "it stands between a DEQUANTIZE and a QUANTIZE"
    for row in rows:
        if row["operator"] not in OPERATORS:
            is_custom = row["operator"] == "CUSTOM"
            sentence = "it stands behind the last integers" if is_custom else between
            assert row["constraints"] == [sentence]
            continue
        sentences = [one.sentence for one in OPERATORS[row["operator"]].constraints]
        assert row["constraints"] == sentences


def test_damaged_archives_of_inputs_are_wrong_usage(tmp_path: Path) -> None:
    from dory_tflite.golden_request import inputs_of
    from dory_tflite.reader import read_model

    from dory_core.api import UsageError

    model = read_model(Path(__file__).parents[3] / "examples" / "tones" / "net.tflite")
    path = tmp_path / "inputs.npz"
    values = np.random.default_rng(0).integers(-128, 128, (1, 48, 24, 1)).astype(np.int8)
    np.savez_compressed(path, t0=values)
    whole = path.read_bytes()
    for seed in range(40):
        content = bytearray(whole)
        random = np.random.default_rng(seed)
        for at in random.integers(0, len(content), 3):
            content[at] ^= int(random.integers(1, 256))
        path.write_bytes(content)
        with contextlib.suppress(UsageError):
            inputs_of(model.subgraphs[0], path)
