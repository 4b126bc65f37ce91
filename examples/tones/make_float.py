"""Make the float network of the tutorial: it hears the same tones as net.tflite.

    python examples/tones/make_float.py DIR       writes float.onnx, calibration.npz and test.npz

The convolutions have random weights, batch normalisations scale what they give, and the last layer
is fitted by least squares: no training framework is needed. The file is as torch.onnx.export writes
it: NCHW, float32, an open batch, batch normalisations behind the convolutions.

calibration.npz holds 64 spectrograms, test.npz 500 others, both with their classes (`labels`).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from spectrograms import BANDS, CLASSES, STEPS, Floats, draw, same_pads, windows

FITTED, CALIBRATION, TESTED = 1000, 64, 500


@dataclass
class FloatNetwork:
    """Builds the file and, beside it, the activations (N, H, W, C) of all spectrograms."""

    x: Floats
    rng: np.random.Generator
    value: str = "spectrogram"
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def constant(self, content: npt.NDArray[np.floating]) -> str:
        """Add a float32 constant and return its name."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(content.astype(np.float32), name))
        return name

    def node(self, op: str, *operands: str, **attributes: object) -> None:
        """Append a node to the current value."""
        output = f"{op.lower()}_{len(self.nodes)}"
        inputs = [self.value, *operands]
        self.nodes.append(helper.make_node(op, inputs, [output], output, **attributes))
        self.value = output

    def conv(self, channels: int, size: tuple[int, int], stride: int = 1) -> None:
        """Append a convolution, a batch normalisation and a ReLU; channels 0: a depthwise one."""
        depthwise = channels == 0
        count, inputs = (self.x.shape[3], 1) if depthwise else (channels, self.x.shape[3])
        weights = self.rng.normal(0, 1, (count, inputs, *size))
        weights -= weights.mean(axis=(1, 2, 3), keepdims=True) * (size != (1, 1))
        pads = [
            same_pads(extent, kernel, stride)
            for extent, kernel in zip(self.x.shape[1:3], size, strict=True)
        ]
        pattern = "nhwcij,cxij->nhwc" if depthwise else "nhwcij,ocij->nhwo"
        acc = np.einsum(pattern, windows(self.x, size, stride), weights, optimize=True)
        mean, variance = acc.mean(axis=(0, 1, 2)), acc.var(axis=(0, 1, 2))
        self.node(
            "Conv",
            self.constant(weights),
            kernel_shape=size,
            strides=[stride, stride],
            pads=[pads[0][0], pads[1][0], pads[0][1], pads[1][1]],
            group=count if depthwise else 1,
        )
        shift = np.full(count, 0.5)
        self.node(
            "BatchNormalization",
            *(self.constant(v) for v in (np.ones(count), shift, mean, variance)),
        )
        self.node("Relu")
        self.x = np.maximum((acc - mean) / np.sqrt(variance + 1e-5) + shift, 0)

    def classify(self, kind: npt.NDArray[np.intp]) -> None:
        """Append the mean of every channel and the layer that fits the classes."""
        features = self.x.mean(axis=(1, 2))
        self.node("GlobalAveragePool")
        self.node("Flatten", axis=1)
        centred = features - features.mean(axis=0)
        targets = 16.0 * (np.eye(len(CLASSES))[kind] - 1 / len(CLASSES))
        ridge = centred.T @ centred + 0.02 * np.eye(centred.shape[1])
        weights = np.linalg.solve(ridge, centred.T @ targets).T
        bias = targets.mean(axis=0) - weights @ features.mean(axis=0)
        self.node("Gemm", self.constant(weights), self.constant(bias), transB=1)

    def model(self) -> onnx.ModelProto:
        """Return the model; its batch is open."""
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "tones",
            [value("spectrogram", TensorProto.FLOAT, ["batch", 1, STEPS, BANDS])],
            [value(self.value, TensorProto.FLOAT, ["batch", len(CLASSES)])],
            self.constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write_samples(path: Path, rng: np.random.Generator, count: int) -> None:
    """Write spectrograms as the network reads them, and their classes."""
    images, kind = draw(rng, count)
    samples = images.transpose(0, 3, 1, 2).astype(np.float32)
    np.savez_compressed(path, spectrogram=samples, labels=kind)


def main() -> None:
    """Write the network and the samples into the folder that is given."""
    parser = argparse.ArgumentParser(description="Make the float network of the tutorial.")
    parser.add_argument("folder", metavar="DIR", type=Path, help="where the three files go")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(2026)
    images, kind = draw(rng, FITTED)
    network = FloatNetwork(images, rng)
    network.conv(16, (7, 7), stride=2)
    for channels in (24, 32, 64):
        network.conv(0, (3, 3), stride=2 if channels == 32 else 1)
        network.conv(channels, (1, 1))
    network.classify(kind)
    onnx.save(network.model(), str(folder / "float.onnx"))
    write_samples(folder / "calibration.npz", rng, CALIBRATION)
    write_samples(folder / "test.npz", rng, TESTED)
    print(f"written: float.onnx, calibration.npz and test.npz in {folder}")


if __name__ == "__main__":
    main()
