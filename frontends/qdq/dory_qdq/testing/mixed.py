"""Random networks of all operators, those included that onnxruntime computes in reals."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType

import numpy as np

from dory_qdq.testing.builder import Builder, Tensor
from dory_qdq.testing.elements import Layer
from dory_qdq.testing.networks import MORE_OPERATORS, OPERATORS

#: Of vectors, of another version of ONNX, or with too many products of matrices.
_LEFT_OUT = frozenset(["gemm", "matmul", "rms_norm", "attention"])
#: Operators of images by name.
OF_IMAGES: Mapping[str, Layer] = MappingProxyType(
    {n: layer for n, layer in {**OPERATORS, **MORE_OPERATORS}.items() if n not in _LEFT_OUT}
)
#: Operators whose windows have two rows and columns at least.
_OF_PIXELS = frozenset(["max_pool_up", "average_pool_up"])
_MOST_ELEMENTS = 3000


def mixed_network(seed: int, operators: int) -> bytes:
    """Return a QDQ file with several of :data:`OF_IMAGES`."""
    rng = np.random.default_rng(seed)
    b = Builder(rng, signed=bool(rng.random() < 0.4))
    last = b.input((1, *(int(n) for n in rng.integers(2, 8, 3))))
    for _ in range(operators):
        names = [n for n in OF_IMAGES if min(last.shape[2:]) > 1 or n not in _OF_PIXELS]
        last = _as_image(b, OF_IMAGES[str(rng.choice(names))](b, last))
        if prod(last.shape) > _MOST_ELEMENTS:
            break
    return b.model([(last.stored, last.shape)])


def _as_image(b: Builder, x: Tensor) -> Tensor:
    """Return a tensor of rows as an image of one row each."""
    if len(x.shape) == 4:
        return x
    shape = (1, *x.shape[1:-1], *(1,) * (4 - len(x.shape)), x.shape[-1])
    name = b.node("Reshape", [x.name, b.constant(np.array(shape, np.int64))])
    return b.quantised(name, shape, x.scale, x.zero)
