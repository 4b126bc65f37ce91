"""``python -m tests.system.converters DIRECTORY``: writes the files of all architectures.

`python benchmarks/bench_networks.py DIRECTORY --output PAGE` shows what becomes of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.system.converters import keras_networks, torch_networks
from tests.system.converters.conversion import write_qdq, write_tflite


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in keras_networks.NETWORKS.items():
        write_tflite(make(), folder / f"keras_{name}.tflite")
    for name, make in torch_networks.NETWORKS.items():
        write_qdq(*make(), folder / f"torch_{name}.onnx")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
