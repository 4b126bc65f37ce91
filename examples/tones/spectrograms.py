"""Drawn spectrograms of tones: 48 steps of time and 24 bands, as of an audio front end."""

from __future__ import annotations

import argparse

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

STEPS, BANDS = 48, 24
CLASSES = ("silence", "rising", "falling", "steady")


def draw(rng: np.random.Generator, count: int) -> tuple[Floats, npt.NDArray[np.intp]]:
    """Return spectrograms (N, STEPS, BANDS, 1) of energies from 0 to 15.9, and their classes."""
    kind = np.arange(count) % len(CLASSES)
    slope = np.select([kind == 1, kind == 2], [1.0, -1.0], 0.0) * rng.uniform(8, 16, count)
    middle = rng.uniform(8, BANDS - 9, count)
    time = np.linspace(-0.5, 0.5, STEPS)[None, :, None]
    track = middle[:, None, None] + slope[:, None, None] * time
    loud = np.where(kind == 0, 0.0, rng.uniform(6, 10, count))[:, None, None]
    tone = loud * np.exp(-(((np.arange(BANDS)[None, None, :] - track) / 1.2) ** 2))
    energy = tone + np.abs(rng.normal(0, 1.5, (count, STEPS, BANDS)))
    return np.clip(energy, 0, 15.9)[..., None], kind


def windows(x: Floats, size: tuple[int, int], stride: int) -> Floats:
    """Return (N, H', W', C, kh, kw) of ``x`` (N, H, W, C) with the padding SAME."""
    pads = [
        same_pads(extent, kernel, stride) for extent, kernel in zip(x.shape[1:3], size, strict=True)
    ]
    padded = np.pad(x, ((0, 0), *pads, (0, 0)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, size, axis=(1, 2))
    return seen[:, ::stride, ::stride]


def same_pads(extent: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return the zeros before and behind an axis so that the output has extent / stride steps."""
    total = max(0, (-(-extent // stride) - 1) * stride + kernel - extent)
    return total // 2, total - total // 2


def main() -> None:
    """Write labelled spectrograms, as the network reads them in real numbers."""
    parser = argparse.ArgumentParser(description="Write labelled spectrograms of tones.")
    parser.add_argument("file", help="an .npz for `dory evaluate`")
    parser.add_argument("--count", type=int, default=200, help="how many; default: 200")
    given = parser.parse_args()
    samples, kinds = draw(np.random.default_rng(7), given.count)
    np.savez(given.file, spectrogram=samples.astype(np.float32), labels=kinds)


if __name__ == "__main__":
    main()
