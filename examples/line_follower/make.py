"""Make the example network: it looks at a line on the floor and says how to steer.

The camera image is 1 x 96 x 128; the two outputs are where the line meets the lower edge of the
picture and how far it leans. Convolutions have random weights, their requantisation is calibrated
on drawn images, and the last layer is fitted to them by least squares: no training framework is
needed. The middle of the network has activations and weights of 4 bits. The file is written in the
form that the QuantLab quantiser exports.

    python examples/line_follower/make.py        writes net.onnx and golden.npz beside this file

golden.npz holds one image and the output of every layer, computed here in integers without dory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper

Ints = npt.NDArray[np.int64]

HEIGHT, WIDTH = 96, 128
IMAGES = 400
OUTPUT_SCALE = 4096  # the outputs are the offsets in pixels times this, about
SHIFT = 16


def draw(rng: np.random.Generator, count: int) -> tuple[Ints, npt.NDArray[np.float64]]:
    """Return images of a dark line on a bright floor and, in pixels, (foot, lean) of each."""
    foot = rng.uniform(-48, 48, count)
    lean = rng.uniform(-40, 40, count)
    rows = np.linspace(1.0, 0.0, HEIGHT)[:, None]
    columns = np.arange(WIDTH)[None, :] - (WIDTH - 1) / 2
    distance = np.abs(columns - (foot[:, None, None] + lean[:, None, None] * rows))
    floor = 190 + rng.normal(0, 6, (count, HEIGHT, WIDTH))
    image = np.where(distance < 7, 40, floor) + rng.normal(0, 4, (count, HEIGHT, WIDTH))
    targets = np.stack([foot, lean], axis=1)
    return np.clip(np.rint(image), 0, 255).astype(np.int64)[:, None], targets


def convolve(x: Ints, weights: Ints, stride: int, groups: int) -> Ints:
    """Return the accumulators of a convolution padded to the same size; x is (N, C, H, W)."""
    size = weights.shape[2]
    pad = size // 2
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride].astype(np.float64)  # exact: sums stay below 2^53
    if groups > 1:
        result = np.einsum("nchwij,cij->nchw", windows, weights[:, 0].astype(np.float64))
    else:
        result = np.einsum("nchwij,ocij->nohw", windows, weights.astype(np.float64), optimize=True)
    return result.astype(np.int64)


@dataclass
class Network:
    """Builds the graph and, beside it, the activations of all images."""

    x: Ints
    rng: np.random.Generator
    tensor: str = "input"
    nodes: list[object] = field(default_factory=list)
    initializers: list[object] = field(default_factory=list)
    layers: list[Ints] = field(default_factory=list)

    def node(self, op: str, inputs: list[str], **attributes: object) -> str:
        """Append a node and return its output."""
        output = f"t{len(self.nodes)}"
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=name, **attributes))
        return output

    def parameter(self, name: str, values: Ints) -> str:
        """Append an initializer and return its name."""
        self.initializers.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def scalar(self, value: int) -> str:
        """Append a Constant node and return its output."""
        tensor = numpy_helper.from_array(np.array([value], dtype=np.float32))
        return self.node("Constant", [], value=tensor)

    def conv(
        self,
        name: str,
        channels: int,
        size: int,
        stride: int = 1,
        groups: int = 1,
        weight_bits: int = 8,
        bits: int = 8,
    ) -> None:
        """Append a convolution with weights of weight_bits and unsigned outputs of ``bits``."""
        limit = 1 << weight_bits - 1
        shape = (channels, self.x.shape[1] // groups, size, size)
        weights = self.rng.integers(-limit // 2, limit // 2, shape, endpoint=True)
        weights -= np.rint(weights.mean(axis=(1, 2, 3), keepdims=True)).astype(np.int64)
        weights = np.clip(weights, -limit, limit - 1)
        acc = convolve(self.x, weights, stride, groups)
        mean, spread = acc.mean(axis=(0, 2, 3)), acc.std(axis=(0, 2, 3)) + 1
        unit = 2.0**SHIFT * (1 << bits - 2)  # a standard deviation is a quarter of the range
        mul = np.maximum(1, np.rint(unit / spread)).astype(np.int64)
        half = 1 << SHIFT - 1
        add = np.rint(unit - mul * mean).astype(np.int64) + half
        hi = (1 << bits) - 1
        self.x = np.clip((mul[:, None, None] * acc + add[:, None, None]) >> SHIFT, 0, hi)
        attributes = {
            "dilations": [1, 1],
            "group": groups,
            "kernel_shape": [size, size],
            "pads": [size // 2] * 4,
            "strides": [stride, stride],
            "weight_bits": weight_bits,
            "bias_bits": 32,
        }
        t = self.node("Conv", [self.tensor, self.parameter(f"{name}.w", weights)], **attributes)
        factors = self.parameter(f"{name}.mul", mul.reshape(-1, 1, 1))
        offsets = self.parameter(f"{name}.add", add.reshape(-1, 1, 1))
        t = self.node("Mul", [t, factors], mult_bits=32)
        t = self.node("Add", [t, offsets], add_bits=32)
        t = self.node("Floor", [self.node("Div", [t, self.scalar(1 << SHIFT)])])
        self.tensor = self.node("Clip", [t], min=0.0, max=float(hi), out_bits=bits)
        self.layers.append(self.x)

    def add(self, tensor: str, values: Ints, bits: int) -> None:
        """Append a residual addition: half of both, rounded down."""
        operands = {
            f"in{n}_{key}": value
            for n in (1, 2)
            for key, value in (("mul", 1), ("add", 0), ("shift", 0), ("rq", 0), ("n_levels", 256))
        }
        result = {"mul": 1, "add": 0, "shift": 1, "rq": 1, "n_levels": 1 << bits, "signed": 0}
        attributes = operands | {f"out_{key}": value for key, value in result.items()}
        self.tensor = self.node("Add", [self.tensor, tensor], add_bits=32, **attributes)
        self.x = (self.x + values) >> 1
        self.layers.append(self.x)

    def max_pool(self) -> None:
        """Append a 2 x 2 maximum."""
        self.tensor = self.node(
            "MaxPool", [self.tensor], kernel_shape=[2, 2], pads=[0] * 4, strides=[2, 2]
        )
        n, c, h, w = self.x.shape
        self.x = self.x.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))
        self.layers.append(self.x)

    def linear(self, targets: npt.NDArray[np.float64]) -> None:
        """Append the fully connected layer that fits ``targets``, in 32 bits."""
        features = self.x.reshape(len(self.x), -1).astype(np.float64)
        centred = features - features.mean(axis=0)
        ridge = centred.T @ centred + 1e5 * np.eye(features.shape[1])
        exact = np.linalg.solve(ridge, centred.T @ targets) * OUTPUT_SCALE
        scale = 127 / np.abs(exact).max()
        weights = np.rint(exact * scale).astype(np.int64).T
        bias = -np.rint(weights @ features.mean(axis=0)).astype(np.int64)
        self.x = self.x.reshape(len(self.x), -1) @ weights.T + bias
        fitted = self.x / (scale * OUTPUT_SCALE)
        error = np.abs(fitted - targets).mean(axis=0)
        print(f"mean error: foot {error[0]:.2f} pixels, lean {error[1]:.2f} pixels")
        flat = self.node("Flatten", [self.tensor], axis=1)
        operands = [flat, self.parameter("head.w", weights), self.parameter("head.b", bias)]
        precision = {"weight_bits": 8, "bias_bits": 32}
        self.tensor = self.node("Gemm", operands, alpha=1.0, beta=1.0, transB=1, **precision)
        self.layers.append(self.x[:, :, None, None])


def main() -> None:
    """Write net.onnx and golden.npz."""
    rng = np.random.default_rng(2021)
    images, targets = draw(rng, IMAGES)
    net = Network(images, rng)
    net.conv("stem", 8, size=5, stride=2)
    net.conv("depthwise", 8, size=3, groups=8)
    net.conv("pointwise", 16, size=1, bits=4)
    net.max_pool()
    skip, values = net.tensor, net.x
    net.conv("block", 16, size=3, weight_bits=4, bits=4)
    net.add(skip, values, bits=4)
    net.conv("narrow", 16, size=3, stride=2, weight_bits=4)
    net.linear(targets)
    graph = helper.make_graph(
        net.nodes,
        "line_follower",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 1, HEIGHT, WIDTH])],
        [helper.make_tensor_value_info(net.tensor, TensorProto.FLOAT, [1, 2])],
        net.initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=4)
    model.producer_name = "dory example"
    here = Path(__file__).resolve().parent
    (here / "net.onnx").write_bytes(model.SerializeToString())
    golden = {"input": images[0], **{f"layer_{n:02d}": x[0] for n, x in enumerate(net.layers)}}
    flat = {name: x.transpose(1, 2, 0).reshape(-1).astype(np.int32) for name, x in golden.items()}
    np.savez_compressed(here / "golden.npz", **flat)


if __name__ == "__main__":
    main()
