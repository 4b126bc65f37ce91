"""How many spectrograms are classified right: by the float network, by the int8 one, by the C code.

    python examples/tones/accuracy.py float.onnx int8.onnx APP test.npz

APP is an application that ``dory`` made of the int8 network. It is built for this machine and runs
on every sample of test.npz; ``dory run`` compares each layer with the reference meanwhile.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def classes_of_onnx(path: Path, samples: Array) -> Array:
    """Return the class of each sample as onnxruntime computes it."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.array([session.run(None, {name: x[None]})[0].argmax() for x in samples])


def classes_of_application(application: Path, samples: Array) -> Array:
    """Return the class of each sample as the generated C computes it."""
    network = json.loads((application / "plan.json").read_text())["network"]
    (source,) = network["inputs"]
    stored = np.clip(np.rint(samples / source["scale"]) + source["zero_point"], 0, 255)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "dory_core.cli.main", "run", str(application)]
        command += ["--quiet", "--dump", str(folder / "out")]
        for number, image in enumerate(stored.astype(np.uint8).transpose(0, 2, 3, 1)):
            np.save(folder / f"{number}.npy", image)
            command += ["--input", str(folder / f"{number}.npy")]
        subprocess.run(command, check=True)
        runs = sorted((folder / "out").glob("run_*"), key=lambda run: int(run.name[4:]))
        last = [max(run.glob("layer_*.npy")) for run in runs]
        return np.array([np.load(file).argmax() for file in last])


def main() -> None:
    """Print the three shares."""
    parser = argparse.ArgumentParser(description="How many spectrograms are classified right?")
    for name in ("float.onnx", "int8.onnx", "APP", "test.npz"):
        parser.add_argument(name, type=Path)
    floats, integers, application, test = vars(parser.parse_args()).values()
    with np.load(test) as archive:
        samples, labels = archive["spectrogram"], archive["labels"]
    found = {
        "float": classes_of_onnx(floats, samples),
        "int8": classes_of_onnx(integers, samples),
        "generated C": classes_of_application(application, samples),
    }
    for name, classes in found.items():
        print(f"{name}: {np.mean(classes == labels):.1%} of {len(labels)} are right")


if __name__ == "__main__":
    main()
