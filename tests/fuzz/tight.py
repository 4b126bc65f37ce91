"""Networks in little memory, of sizes and files that others rarely have.

Long signals and tall images of few channels, in budgets just beyond what is too little, so that
layers are cut into stripes and groups; 1x1 layers that differ in one size; packed operands; sums
over one element; outputs that are the input.
"""

from __future__ import annotations

import random
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dory_core.driver.compiler import CompileResult
from tests.fuzz import networks
from tests.fuzz.cases import Case, Verdict
from tests.fuzz.networks import Drawn, compiled_for, inferred, nemo, quantlab, way

_STEPS = (1, 1, 1, 2, 2, 3)
_TARGETS = ("gap8", "gap8", "gap8", "stm32h7", "diana")
# Bytes of a first attempt; of L1 often more than any layer takes.
_L1, _L2, _LARGE_L1 = (1500, 12000), (900, 8000), 40000
_GROWTH, _ATTEMPTS = 1.5, 8


def _signal(draw: random.Random) -> tuple[int, ...]:
    return draw.choice([1, 1, 2, 3, 4]), draw.randint(100, 400)


def _pixels(draw: random.Random) -> tuple[int, ...]:
    return draw.choice([1, 2, 3, 4, 5]), draw.randint(3, 12), draw.randint(3, 12)


def _tall(draw: random.Random) -> tuple[int, ...]:
    return draw.choice([1, 3, 4, 8]), draw.randint(16, 48), draw.randint(4, 40)


def _filters(builder: Any, draw: random.Random, steps: int, features: frozenset[str]) -> None:
    """Append convolutions of few inputs and many outputs."""
    for _ in range(steps):
        kernel, stride = draw.choice([3, 3, 5, 7]), draw.choice([1, 2, 2])
        builder.conv(draw.choice([8, 16, 32, 64]), kernel, stride=stride, pads=kernel // 2)


def _pointwise(builder: Any, draw: random.Random, steps: int, features: frozenset[str]) -> None:
    """Append 1x1 convolutions that differ in their outputs alone, or in little."""
    for _ in range(2 + steps):
        builder.conv(draw.choice([2, 3, 3, 4, 5, 6]), 1)


def _packed(builder: Any, draw: random.Random, steps: int, features: frozenset[str]) -> None:
    """Append convolutions with results and weights of 2 and 4 bits, and others."""
    for _ in range(steps):
        bits, hi = draw.choice([2, 4, 8, 8]), draw.choice([3, 3, 15, 255])
        kernel, channels = draw.choice([1, 3, 3, 5]), draw.choice([8, 16, 32])
        pads, stride = kernel // 2, draw.choice([1, 1, 2])
        builder.conv(channels, kernel, stride=stride, pads=pads, weight_bits=bits, hi=hi)


def _long(draw: random.Random, folder: Path, steps: int) -> Drawn:
    return nemo(draw, folder, steps, _signal, _filters)


def _points(draw: random.Random, folder: Path, steps: int) -> Drawn:
    return nemo(draw, folder, steps, _pixels, _pointwise)


def _bits(draw: random.Random, folder: Path, steps: int) -> Drawn:
    return quantlab(draw, folder, steps, _tall, _packed)


def _mixed(draw: random.Random, folder: Path, steps: int) -> Drawn:
    return nemo(draw, folder, steps, draw.choice([_signal, _tall]), networks.grow)


def _qdq(draw: random.Random, folder: Path, steps: int) -> Drawn:
    """Write a file with a Softmax over one element, or with an output that is the input."""
    import numpy as np
    from dory_qdq.testing import Builder
    from dory_qdq.testing.networks import OPERATORS

    seed = draw.randrange(1 << 30)
    builder = Builder(np.random.default_rng(seed), signed=draw.random() < 0.4)
    shape = (1, draw.randint(1, 8), draw.randint(1, 6), draw.randint(1, 6))
    axis = draw.choice([1, 2, 3])
    if draw.random() < 0.5:
        sizes = [1 if n == axis else size for n, size in enumerate(shape)]
        source = last = builder.input(tuple(sizes))
    else:
        source = last = builder.input(shape)
    for _ in range(steps - (last.shape[axis] == 1)):
        last = OPERATORS[draw.choice(["relu", "sigmoid", "conv"])](builder, last)
    if last.shape[axis] == 1:
        scale, zero = draw.choice([1 / 256, 1 / 255, builder.scale()]), builder.zero()
        name = builder.node("Softmax", [last.name], axis=axis)
        last = builder.quantised(name, last.shape, scale, zero)
    outputs = [last, source] if last is not source and draw.random() < 0.5 else [last]
    return inferred(builder.model([(one.stored, one.shape) for one in outputs]), seed, folder)


FORMATS: networks.Formats = MappingProxyType(
    {"long": _long, "pointwise": _points, "packed": _bits, "mixed": _mixed, "borders": _qdq}
)


def drawn(case: Case, folder: Path) -> Drawn:
    """Return the network of a case, of ``size`` layers where that is not 0."""
    return networks.drawn(case, folder, FORMATS, _STEPS)


def _compiled(
    network: Drawn, draw: random.Random, folder: Path
) -> tuple[CompileResult, dict[str, Any]]:
    """Compile with the least memory of a series that suffices."""
    chosen = way(draw, _TARGETS)
    l1, l2 = (int(low * (high / low) ** draw.random()) for low, high in (_L1, _L2))
    l1 = draw.choice([l1, _LARGE_L1])
    factors = [_GROWTH**n for n in range(_ATTEMPTS)]
    sizes = [(min(int(l1 * one), max(l1, _LARGE_L1)), int(l2 * one)) for one in factors]
    return compiled_for(network, chosen, sizes, folder)


def check_tight(case: Case, folder: Path) -> Verdict:
    """Draw, compile and run a network in little memory: exact, or refused with a reason."""
    return networks.check(case, folder, drawn(case, folder), _compiled)
