"""Random networks of plain integer ONNX over the whole space of layers, as hypothesis strategies.

Each family draws shapes and layers of one sort; what a network consists of is recorded in
``Network.text``, so that a failing example can be read and built again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dory_onnx.testing import IntegerOnnxBuilder
from hypothesis import strategies as st

# Upper bounds that keep one network below about a second of simulation.
MAX_ELEMENTS = 12_000
MAX_MACS = 1_500_000
MAX_CHANNELS = 70


@dataclass(frozen=True)
class Network:
    """A network to compile. input_signed: values -128..127, else 0..255."""

    builder: IntegerOnnxBuilder
    input_signed: bool
    text: str

    def __repr__(self) -> str:
        return f"Network({self.text})"


class Sketch:
    """A network in the making: draws legal layers for the current value."""

    def __init__(self, draw: st.DrawFn, builder: IntegerOnnxBuilder, text: str) -> None:
        self.draw = draw
        self.builder = builder
        self.lines = [text]

    # -- drawing ------------------------------------------------------------------------------

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, max(low, high)))

    def flag(self) -> bool:
        return self.draw(st.booleans())

    @property
    def size(self) -> tuple[int, ...]:
        return self.builder.shape[1:]

    def window(
        self, largest: int, dilated: bool = True
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return (kernel, stride, pads, dilation) of which at least one window fits."""
        kernels, strides, begins, ends, dilations = [], [], [], [], []
        for size in self.size:
            kernel = self.integer(1, largest)
            dilation = self.integer(1, 4) if dilated and kernel > 1 and self.flag() else 1
            span = (kernel - 1) * dilation + 1
            begin, end = self.integer(0, span - 1), self.integer(0, span - 1)
            if size + begin + end < span:
                end = span - size - begin
            kernels.append(kernel)
            dilations.append(dilation)
            strides.append(self.draw(st.sampled_from([1, 1, 2, 3])))
            begins.append(begin)
            ends.append(end)
        return tuple(kernels), tuple(strides), (*begins, *ends), tuple(dilations)

    def channels(self, taps: int) -> int:
        """Return a number of output channels that keeps the next layer within the bounds."""
        channels, *size = self.builder.shape
        pixels = 1
        for extent in size:
            pixels *= extent
        most = min(MAX_ELEMENTS // pixels, MAX_MACS // (pixels * taps * channels), MAX_CHANNELS)
        return self.integer(1, most)

    # -- layers -------------------------------------------------------------------------------

    def conv(self, groups: str = "dense") -> None:
        kernel, stride, pads, dilation = self.window(5 if self.builder.shape[0] < 32 else 3)
        taps = 1
        for extent in kernel:
            taps *= extent
        inputs = self.builder.shape[0]
        options: dict[str, object] = {}
        if groups == "depthwise":
            outputs = inputs
            options["groups"] = inputs
        elif groups == "grouped":
            divisors = [d for d in range(1, inputs + 1) if inputs % d == 0]
            options["groups"] = count = self.draw(st.sampled_from(divisors))
            outputs = count * self.integer(1, max(1, min(24, MAX_CHANNELS // count)))
        else:
            outputs = self.channels(taps)
        if any(pads) and self.flag():
            self.builder.pad(*pads)
            options["pads"] = 0
            self.lines.append(f".pad{pads}")
        else:
            options["pads"] = pads
        options |= {"stride": stride, "dilation": dilation}
        options |= {
            "bias": self.flag(),
            "batchnorm": self.draw(st.sampled_from([True, True, False])),
        }
        if self.integer(0, 4) == 0:
            options |= {"lo": -128, "hi": 127}
        elif self.integer(0, 4) == 0:
            options["hi"] = self.draw(st.sampled_from([1, 15, 100, 300, 4000]))
        self.builder.conv(outputs, kernel, **options)  # type: ignore[arg-type]
        self.lines.append(f".conv({outputs}, {kernel}, {_listed(options)})")

    def depthwise(self) -> None:
        self.conv("depthwise")

    def grouped(self) -> None:
        self.conv("grouped")

    def max_pool(self) -> None:
        kernel, stride, pads, _ = self.window(3, dilated=False)
        # ONNX and its evaluator want padding below the kernel; half of it is what exporters write
        pads = tuple(min(p, k // 2) for p, k in zip(pads, kernel * 2, strict=True))
        kernel = tuple(min(k, s) for k, s in zip(kernel, self.size, strict=True))
        pads = tuple(min(p, k - 1) for p, k in zip(pads, kernel * 2, strict=True))
        self.builder.maxpool(kernel, stride=stride, pads=pads)
        self.lines.append(f".maxpool({kernel}, stride={stride}, pads={pads})")

    def avg_pool(self) -> None:
        kernel, stride, pads, _ = self.window(4, dilated=False)
        ratio = self.integer(1, 200)
        self.builder.avgpool(kernel, stride=stride, pads=pads, ratio=ratio)
        self.lines.append(f".avgpool({kernel}, stride={stride}, pads={pads}, ratio={ratio})")

    def global_pool(self) -> None:
        self.builder.avgpool()
        self.lines.append(".avgpool()")

    def add(self) -> None:
        """Add an earlier value of the same shape, bringing one about if there is none."""
        builder = self.builder
        current, channels = builder.value, builder.shape[0]
        others = [v for v in self.values if v != current and builder.shapes[v] == builder.shape]
        if not others or self.integer(0, 3) == 0:
            size = tuple(3 if extent > 1 else 1 for extent in self.size)
            pads = tuple(k // 2 for k in size) * 2
            builder.conv(channels, size, pads=pads)
            self.lines.append(f".conv({channels}, {size}, pads={pads})")
            others.append(current)
        other = self.draw(st.sampled_from(others))
        factors = (self.integer(1, 99), self.integer(1, 99))
        divisor = self.draw(st.sampled_from([1, 7, 16, 64, 127, 256]))
        activation, swapped = self.flag(), self.flag()
        self.lines.append(
            f".add({other!r}, factors={factors}, divisor={divisor}, swapped={swapped}, "
            f"activation={activation})"
        )
        builder.add(other, factors=factors, divisor=divisor, swapped=swapped, activation=activation)
        # beyond 16 bits it would have to be the last layer
        if max(abs(b) for b in builder.bounds[builder.value]) > 32767:
            builder.conv(channels, 1)
            self.lines.append(f".conv({channels}, 1)")

    def branch(self) -> None:
        """Add a second path from an earlier value of the same shape."""
        builder = self.builder
        current, channels = builder.value, builder.shape[0]
        start = self.draw(
            st.sampled_from([v for v in self.values if builder.shapes[v] == builder.shape])
        )
        kernel = tuple(2 * self.integer(0, 2) + 1 for _ in self.size)
        pads = tuple(k // 2 for k in kernel) * 2
        builder.at(start).conv(channels, kernel, pads=pads).add(current)
        self.lines.append(
            f".at({start!r}).conv({channels}, {kernel}, pads={pads}).add({current!r})"
        )

    def linear(self) -> None:
        features, gemm, bias = self.integer(1, 40), self.flag(), self.flag()
        hidden = self.flag()
        if hidden:
            self.builder.linear(features, gemm=gemm, bias=bias)
            self.lines.append(f".linear({features}, gemm={gemm}, bias={bias})")
            features = self.integer(1, 20)
        last = self.flag()
        self.builder.linear(features, gemm=gemm, bias=bias, activation=last)
        self.lines.append(f".linear({features}, gemm={gemm}, bias={bias}, activation={last})")

    @property
    def values(self) -> list[str]:
        return [self.builder.input, *self.builder.layer_values]


def _listed(options: dict[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


@dataclass(frozen=True)
class Family:
    """A sort of networks. size: draws (H, W) or (L,). steps: layers to draw from."""

    name: str
    size: Callable[[st.DrawFn], tuple[int, ...]]
    steps: tuple[Callable[[Sketch], None], ...]
    first: tuple[Callable[[Sketch], None], ...] = ()

    def __str__(self) -> str:
        return self.name


def _extent(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


FAMILIES = (
    Family(
        "plain",
        lambda draw: (draw(_extent(2, 28)), draw(_extent(2, 28))),
        (Sketch.conv, Sketch.conv, Sketch.depthwise, Sketch.max_pool, Sketch.avg_pool),
    ),
    Family(
        "separable",
        lambda draw: (draw(_extent(3, 20)), draw(_extent(3, 20))),
        (Sketch.depthwise, Sketch.grouped, Sketch.conv, Sketch.depthwise),
    ),
    Family(
        "residual",
        lambda draw: (draw(_extent(1, 16)), draw(_extent(1, 16))),
        (Sketch.add, Sketch.branch, Sketch.conv, Sketch.add, Sketch.max_pool),
    ),
    Family(
        "one_dimensional",
        lambda draw: (draw(_extent(1, 120)),),
        (Sketch.conv, Sketch.depthwise, Sketch.add, Sketch.max_pool, Sketch.avg_pool),
    ),
    Family(
        "one_pixel",
        lambda draw: (1, 1),
        (Sketch.conv, Sketch.depthwise, Sketch.add, Sketch.grouped, Sketch.avg_pool),
    ),
    Family(
        "pools_first",
        lambda draw: (draw(_extent(3, 40)), draw(_extent(3, 40))),
        (Sketch.max_pool, Sketch.conv, Sketch.add),
        first=(Sketch.max_pool, Sketch.avg_pool),
    ),
)


@st.composite
def networks(draw: st.DrawFn, family: Family) -> Network:
    """Draw a network of one to five layers and perhaps a fully connected end."""
    size = family.size(draw)
    pixels = 1
    for extent in size:
        pixels *= extent
    signed = draw(st.sampled_from([False, False, False, True]))
    options = {
        "seed": draw(st.integers(0, 999)),
        "input_lo": -128 if signed else 0,
        "input_hi": 127 if signed else 255,
        "numbered": draw(st.booleans()),
        "constant_nodes": draw(st.booleans()),
        "opset": draw(st.sampled_from([9, 13])),
        "exact_divisors": draw(st.booleans()),
    }
    shape = (draw(st.integers(1, max(1, min(MAX_CHANNELS, MAX_ELEMENTS // pixels)))), *size)
    sketch = Sketch(
        draw,
        IntegerOnnxBuilder(shape, **options),
        f"IntegerOnnxBuilder({shape}, {_listed(options)})",
    )
    if family.first:
        draw(st.sampled_from(family.first))(sketch)
    for _ in range(draw(st.integers(1, 4))):
        draw(st.sampled_from(family.steps))(sketch)
    if draw(st.booleans()):
        if draw(st.booleans()):
            sketch.global_pool()
        sketch.linear()
    return Network(sketch.builder, signed, "".join(sketch.lines))
