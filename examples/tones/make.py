"""Make the example network: it hears whether a tone rises, falls, stays or is not there.

The input is a spectrogram of 48 steps of time and 24 bands, as an audio front end computes it. The
network is a small keyword spotter: a convolution, three pairs of a depthwise and a pointwise one, a
mean, a fully connected layer and a softmax. The convolutions have random weights, the quantisation
is calibrated on drawn spectrograms, and the last layer is fitted by least squares: no training
framework is needed. The file is an int8 .tflite as the TensorFlow Lite converter makes it.

    python examples/tones/make.py        writes net.tflite and golden.npz beside this file

golden.npz holds inferences of one spectrogram per class and every tensor, computed by TensorFlow
Lite Micro (``pip install tflite-micro``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from dory_tflite.golden import Interpreter
from dory_tflite.reader import read_model
from dory_tflite.testing import TfliteBuilder
from spectrograms import CLASSES, Floats, draw, windows

SPECTROGRAMS = 1200
INPUT_SCALE, INPUT_ZERO = 1 / 16, -128
SOFTMAX_SCALE, SOFTMAX_ZERO = 1 / 256, -128


@dataclass
class Network:
    """Builds the file and, beside it, the activations of all spectrograms as real numbers."""

    x: Floats
    rng: np.random.Generator
    builder: TfliteBuilder = field(default_factory=TfliteBuilder)
    tensor: int = -1
    scale: float = INPUT_SCALE

    def __post_init__(self) -> None:
        self.tensor = self.builder.input((1, *self.x.shape[1:]), INPUT_SCALE, INPUT_ZERO)

    def _operands(self, weights: Floats, bias: Floats, axis: int) -> list[int]:
        """Add quantised weights, one scale per entry of ``axis``, and the bias."""
        other = tuple(a for a in range(weights.ndim) if a != axis)
        scales = np.abs(weights).max(axis=other, keepdims=True) / 127
        values = np.rint(weights / scales).astype(np.int8)
        steps = scales.ravel().tolist()
        products = [self.scale * step for step in steps]
        added = np.rint(bias / products).astype(np.int32)
        return [
            self.builder.constant(values, steps, axis=axis),
            self.builder.constant(added, products),
        ]

    def conv(self, channels: int, size: tuple[int, int], stride: int = 1) -> None:
        """Append a convolution with a ReLU; channels 0 makes it a depthwise one."""
        count, inputs = channels or self.x.shape[3], self.x.shape[3]
        weights = self.rng.normal(0, 1, (count, *size, 1 if channels == 0 else inputs))
        weights -= weights.mean(axis=(1, 2, 3), keepdims=True) * (size != (1, 1))
        seen = windows(self.x, size, stride)
        pattern = "nhwcij,cijx->nhwc" if channels == 0 else "nhwcij,oijc->nhwo"
        acc = np.einsum(pattern, seen, weights, optimize=True)
        weights /= acc.std(axis=(0, 1, 2))[:, None, None, None]
        bias = 0.5 - (acc / acc.std(axis=(0, 1, 2))).mean(axis=(0, 1, 2))
        acc = np.einsum(pattern, seen, weights, optimize=True) + bias
        self.x = np.maximum(acc, 0)
        options = {"StrideH": stride, "StrideW": stride, "FusedActivationFunction": "RELU"}
        if channels == 0:
            operands = self._operands(weights.transpose(3, 1, 2, 0), bias, 3)
            self._operator("DEPTHWISE_CONV_2D", operands, DepthMultiplier=1, **options)
        else:
            self._operator("CONV_2D", self._operands(weights, bias, 0), **options)

    def _operator(self, code: str, operands: list[int], **options: object) -> None:
        """Append an operator with a ReLU, whose values start at zero point -128."""
        scale = float(np.quantile(self.x, 0.9999)) / 255
        output = self.builder.tensor((1, *self.x.shape[1:]), scale, -128)
        self.builder.operator(code, [self.tensor, *operands], [output], **options)
        self.tensor, self.scale = output, scale

    def mean(self) -> None:
        """Append the average of every channel."""
        height, width = self.x.shape[1:3]
        self.x = self.x.mean(axis=(1, 2), keepdims=True)
        output = self.builder.tensor((1, *self.x.shape[1:]), self.scale, -128)
        self.builder.operator(
            "AVERAGE_POOL_2D",
            [self.tensor],
            [output],
            Padding="VALID",
            StrideH=height,
            StrideW=width,
            FilterHeight=height,
            FilterWidth=width,
        )
        self.tensor = output

    def classify(self, kind: npt.NDArray[np.intp]) -> None:
        """Append the fully connected layer that fits the classes, and a softmax."""
        features = self.x.reshape(len(self.x), -1)
        centred = features - features.mean(axis=0)
        targets = 16.0 * (np.eye(len(CLASSES))[kind] - 1 / len(CLASSES))
        ridge = centred.T @ centred + 0.02 * np.eye(centred.shape[1])
        weights = np.linalg.solve(ridge, centred.T @ targets).T
        bias = targets.mean(axis=0) - weights @ features.mean(axis=0)
        scores = features @ weights.T + bias
        scale = float(np.abs(scores).max()) / 127
        step = float(np.abs(weights).max()) / 127
        logits = self.builder.tensor((1, len(CLASSES)), scale, 0)
        operands = [
            self.builder.constant(np.rint(weights / step).astype(np.int8), [step]),
            self.builder.constant(
                np.rint(bias / (self.scale * step)).astype(np.int32), [self.scale * step]
            ),
        ]
        self.builder.operator("FULLY_CONNECTED", [self.tensor, *operands], [logits])
        self.tensor = self.builder.tensor((1, len(CLASSES)), SOFTMAX_SCALE, SOFTMAX_ZERO)
        self.builder.operator("SOFTMAX", [logits], [self.tensor], Beta=1.0)


def quantised(x: Floats) -> npt.NDArray[np.int8]:
    """Return spectrograms as the network reads them."""
    return np.clip(np.rint(x / INPUT_SCALE) + INPUT_ZERO, -128, 127).astype(np.int8)


def main() -> None:
    """Write net.tflite and golden.npz; say how many new spectrograms are classified right."""
    rng = np.random.default_rng(2026)
    images, kind = draw(rng, SPECTROGRAMS)
    net = Network(images, rng)
    net.conv(16, (7, 7), stride=2)
    for channels in (24, 32, 64):
        net.conv(0, (3, 3), stride=2 if channels == 32 else 1)
        net.conv(channels, (1, 1))
    net.mean()
    net.classify(kind)
    here = Path(__file__).resolve().parent
    file = here / "net.tflite"
    file.write_bytes(net.builder.build([net.tensor]))

    model = read_model(file)
    interpreter = Interpreter(file.read_bytes(), model)
    source = net.builder.inputs[0]
    fresh, expected = draw(rng, SPECTROGRAMS)
    arrays: dict[str, npt.NDArray[np.int8]] = {}
    right = 0
    for number, (image, answer) in enumerate(zip(quantised(fresh), expected, strict=True)):
        tensors = interpreter.run({source: image[None]})
        right += int(np.argmax(tensors[net.tensor]) == answer)
        if number < len(CLASSES):
            arrays[f"in{number}__t{source}"] = image[None]
            arrays |= {f"run{number}__t{index}": value for index, value in tensors.items()}
    print(f"{100 * right / SPECTROGRAMS:.1f} % of {SPECTROGRAMS} new spectrograms are right")
    np.savez_compressed(here / "golden.npz", **arrays)


if __name__ == "__main__":
    main()
