"""Random windows of operators."""

from __future__ import annotations

from collections.abc import Sequence

from dory_qdq.testing.builder import Builder


def transposed_window(
    b: Builder, kernel: Sequence[int], sizes: Sequence[int]
) -> tuple[dict[str, list[int]], tuple[int, ...]]:
    """Return random attributes of a ConvTranspose, and rows and columns of its result.

    Args:
        b: What draws.
        kernel: Rows and columns of the kernel.
        sizes: Rows and columns of the input.
    """
    strides = [int(b.rng.integers(1, 4)) for _ in range(2)]
    dilations = [int(b.rng.integers(1, 3)) for _ in range(2)]
    pads = [int(b.rng.integers(0, k)) for k in (*kernel, *kernel)]
    more = [int(b.rng.integers(0, stride)) for stride in strides]
    result = []
    for n, size in enumerate(sizes):
        whole = (size - 1) * strides[n] + (kernel[n] - 1) * dilations[n] + 1 + more[n]
        if pads[n] + pads[n + 2] >= whole:  # nothing would be left
            pads[n] = pads[n + 2] = 0
        result.append(whole - pads[n] - pads[n + 2])
    names = ("strides", "dilations", "pads", "output_padding")
    return dict(zip(names, (strides, dilations, pads, more), strict=True)), tuple(result)
