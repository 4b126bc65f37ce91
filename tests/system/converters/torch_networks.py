"""Architectures in torch, with random weights. Each is a module and the shape of its input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Network = Callable[[], tuple[Any, tuple[int, ...]]]

NETWORKS: dict[str, Network] = {}


def network(make: Network) -> Network:
    """Enter an architecture into the table under the name of its function."""
    NETWORKS[make.__name__] = make
    return make


class Function(nn.Module):
    """Layers, and a function that joins them."""

    def __init__(self, forward: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(parts)
        self.joined = forward

    def forward(self, x: Any) -> Any:
        return self.joined(x, **self.parts)


def convolved(inputs: int, outputs: int, size: int, stride: int = 1, act: Any = nn.ReLU) -> Any:
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), act())


def classifier(channels: int, classes: int = 10) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


@network
def mobilenet_blocks() -> tuple[Any, tuple[int, ...]]:
    def block(x: Any, wide: Any, depthwise: Any, gate: Any, narrow: Any) -> Any:
        y = depthwise(wide(x))
        return x + narrow(y * gate(y))

    depthwise = nn.Conv2d(32, 32, 5, 1, 2, groups=32)
    gate = nn.Sequential(
        nn.AdaptiveAvgPool2d(1),
        nn.Conv2d(32, 8, 1),
        nn.ReLU(),
        nn.Conv2d(8, 32, 1),
        nn.Hardsigmoid(),
    )
    inner = Function(
        block,
        wide=convolved(16, 32, 1, act=nn.Hardswish),
        depthwise=nn.Sequential(depthwise, nn.Hardswish()),
        gate=gate,
        narrow=nn.Conv2d(32, 16, 1),
    )
    head = convolved(3, 16, 3, 2, nn.Hardswish)
    return nn.Sequential(head, inner, *classifier(16)), (1, 3, 32, 32)


@network
def temporal_convolutions() -> tuple[Any, tuple[int, ...]]:
    parts = [nn.Conv1d(8, 16, 3, padding=1), nn.ReLU()]
    for dilation in (2, 4):
        parts += [nn.Conv1d(16, 16, 3, padding=dilation, dilation=dilation), nn.ReLU()]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(16, 6)), (
        1,
        8,
        64,
    )


@network
def unet() -> tuple[Any, tuple[int, ...]]:
    def joined(x: Any, down: Any, deep: Any, up: Any, out: Any) -> Any:
        skip = down(x)
        return out(torch.cat([up(deep(nn.functional.max_pool2d(skip, 2))), skip], 1))

    parts = {
        "down": convolved(3, 8, 3),
        "deep": convolved(8, 16, 3),
        "up": nn.ConvTranspose2d(16, 8, 2, 2),
        "out": nn.Conv2d(16, 1, 1),
    }
    return Function(joined, **parts), (1, 3, 32, 32)


@network
def prelu() -> tuple[Any, tuple[int, ...]]:
    return nn.Sequential(convolved(3, 8, 3, act=lambda: nn.PReLU(8)), *classifier(8)), (
        1,
        3,
        16,
        16,
    )


@network
def pixel_shuffle() -> tuple[Any, tuple[int, ...]]:
    parts = [nn.Conv2d(1, 8, 5, padding=2), nn.Tanh(), nn.Conv2d(8, 4, 3, padding=1)]
    return nn.Sequential(*parts, nn.PixelShuffle(2)), (1, 1, 16, 16)


@network
def convnext() -> tuple[Any, tuple[int, ...]]:
    def block(x: Any, depthwise: Any, norm: Any, mlp: Any) -> Any:
        return x + mlp(norm(depthwise(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)

    parts = {
        "depthwise": nn.Conv2d(16, 16, 7, padding=3, groups=16),
        "norm": nn.LayerNorm(16),
        "mlp": nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)),
    }
    return nn.Sequential(nn.Conv2d(3, 16, 4, 4), Function(block, **parts), *classifier(16)), (
        1,
        3,
        32,
        32,
    )


@network
def written_norm() -> tuple[Any, tuple[int, ...]]:
    """ConvNeXt's normalisation over the channels of an image, written out."""

    def joined(x: Any, first: Any, scaled: Any, head: Any) -> Any:
        x = first(x)
        centred = x - x.mean(1, keepdim=True)
        normal = centred / torch.sqrt(centred.pow(2).mean(1, keepdim=True) + 1e-6)
        return head(scaled.weight[:, None, None] * normal + scaled.bias[:, None, None])

    parts = {
        "first": nn.Conv2d(3, 16, 4, 4),
        "scaled": nn.LayerNorm(16),  # holds the weights
        "head": nn.Conv2d(16, 8, 1),
    }
    return Function(joined, **parts), (1, 3, 32, 32)


@network
def transformer_encoder() -> tuple[Any, tuple[int, ...]]:
    layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
    return layer, (1, 16, 32)


@network
def group_norm() -> tuple[Any, tuple[int, ...]]:
    parts = [nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.SiLU(), *classifier(8)]
    return nn.Sequential(*parts), (1, 3, 16, 16)


@network
def gru() -> tuple[Any, tuple[int, ...]]:
    def joined(x: Any, gru: Any, head: Any) -> Any:
        return head(gru(x)[0][:, -1])

    return Function(joined, gru=nn.GRU(8, 16, batch_first=True), head=nn.Linear(16, 4)), (1, 10, 8)


@network
def lstm() -> tuple[Any, tuple[int, ...]]:
    def joined(x: Any, lstm: Any, head: Any) -> Any:
        return head(lstm(x)[0][:, -1])

    return Function(joined, lstm=nn.LSTM(8, 16, batch_first=True), head=nn.Linear(16, 4)), (
        1,
        10,
        8,
    )


@network
def yolo_head() -> tuple[Any, tuple[int, ...]]:
    def joined(x: Any, stem: Any, sides: Any, classes: Any) -> Any:
        a, b = stem(x).chunk(2, 1)
        x = torch.cat([a, b, a + b], 1)
        box = sides(x).view(1, 4, 8, -1).softmax(2)
        steps = torch.arange(8.0).view(1, 1, 8, 1)
        return torch.cat([(box * steps).sum(2), classes(x).flatten(2).sigmoid()], 1)

    parts = {
        "stem": convolved(3, 16, 3, 4, nn.SiLU),
        "sides": nn.Conv2d(24, 32, 1),
        "classes": nn.Conv2d(24, 4, 1),
    }
    return Function(joined, **parts), (1, 3, 32, 32)


@network
def upsampled() -> tuple[Any, tuple[int, ...]]:
    parts = [nn.Conv2d(8, 8, 1), nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(8, 8, 3)]
    parts += [nn.LeakyReLU(0.1), nn.ZeroPad2d(1), nn.AvgPool2d(2), nn.ReLU6()]
    return nn.Sequential(*parts, *classifier(8)), (1, 8, 8, 8)


@network
def normalised_input() -> tuple[Any, tuple[int, ...]]:
    """A network that contains the normalisation of its pictures."""

    def joined(x: Any, layers: Any) -> Any:
        mean = torch.tensor([0.48, 0.45, 0.4]).view(1, 3, 1, 1)
        return nn.functional.log_softmax(layers((x - mean) / 0.22), 1)

    layers = nn.Sequential(convolved(3, 8, 3, 2), *classifier(8))
    return Function(joined, layers=layers), (1, 3, 16, 16)


@network
def densenet() -> tuple[Any, tuple[int, ...]]:
    """Normalisations stand before convolutions, where no weights take them."""

    def joined(x: Any, first: Any, second: Any, head: Any) -> Any:
        x = torch.cat([x, first(x)], 1)
        return head(torch.cat([x, second(x)], 1))

    def grown(channels: int) -> Any:
        conv = nn.Conv2d(channels, 4, 3, 1, 1, bias=False)
        return nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(), conv)

    head = nn.Sequential(*classifier(11))
    return Function(joined, first=grown(3), second=grown(7), head=head), (1, 3, 16, 16)


@network
def embedding() -> tuple[Any, tuple[int, ...]]:
    """A vector of unit length, as metric learning has it."""

    def joined(x: Any, layers: Any) -> Any:
        return nn.functional.normalize(layers(x), dim=1)

    return Function(joined, layers=nn.Sequential(convolved(3, 8, 3, 2), *classifier(8))), (
        1,
        3,
        16,
        16,
    )


@network
def causal_attention() -> tuple[Any, tuple[int, ...]]:
    """Queries, keys and values of one Linear, RMS normalisation, and a mask."""

    def joined(x: Any, norm: Any, parts: Any, out: Any) -> Any:
        whole = parts(norm(x)).reshape(1, 12, 3, 2, 8).permute(2, 0, 3, 1, 4)
        query, key, value = whole.unbind(0)
        y = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return x + out(y.transpose(1, 2).reshape(1, 12, 16))

    modules = {"norm": nn.RMSNorm(16), "parts": nn.Linear(16, 48), "out": nn.Linear(16, 16)}
    return Function(joined, **modules), (1, 12, 16)
