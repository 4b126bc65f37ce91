"""Pictures as network inputs, read by Pillow (the extra ``images``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.errors import ToolMissing, UsageError
from dory_core.ir import Tensor

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp")

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_MODE_NAMES = {"L": "grey", "RGB": "RGB", "RGBA": "RGBA"}


def read_picture(path: Path, tensor: Tensor) -> tuple[npt.NDArray[np.int64], str]:
    """Return a picture as values (C, H, W) of a network input, with a note on its conversion.

    Channels are converted, and a picture of another size is resized (bilinear). Pixels of 0 ... 255
    are the values of an unsigned input. 128 is subtracted for inputs of -128 ... 127, which assumes
    training on 0 ... 255.

    Args:
        path: The file.
        tensor: The network input.

    Raises:
        ToolMissing: Without Pillow.
        UsageError: For a damaged file, or a tensor that is not a picture.
    """
    mode = _MODES.get(tensor.channels)
    low, high = tensor.lo - tensor.offset, tensor.hi - tensor.offset
    if mode is None or (low, high) not in ((0, 255), (-128, 127)):
        raise UsageError(
            f"{path}: a picture has 1, 3 or 4 channels of 0 ... 255; input '{tensor.name}' has"
            f" {tensor.channels} of {low} ... {high}",
            "give an array (.npy) that is prepared as the network was trained",
        )
    pixels, size, had = _pixels(path, mode, (tensor.width, tensor.height))
    values = pixels.reshape(tensor.height, tensor.width, tensor.channels).astype(np.int64) + low
    done = [f"picture of {size[0]} x {size[1]}", _MODE_NAMES[mode]]
    if had != mode:
        done[-1] += f" made of {_MODE_NAMES.get(had, had)}"
    if size != (tensor.width, tensor.height):
        done.insert(1, f"resized to {tensor.width} x {tensor.height}")
    done += ["128 taken from each value"] if low else []
    return values.transpose(2, 0, 1), ", ".join(done)


def _pixels(path: Path, mode: str, size: tuple[int, int]) -> tuple[Any, tuple[int, int], str]:
    """Return the pixels in this mode and size, with the original size and mode."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ToolMissing(
            f"{path}: pictures are read with Pillow, which cannot be imported: {error}",
            "pip install pillow, or dory-core[images]",
        ) from error
    try:
        with Image.open(path) as picture:
            found, had = picture.size, picture.mode
            converted = picture.convert(mode)
            if found != size:
                converted = converted.resize(size, Image.Resampling.BILINEAR)
            return np.asarray(converted, np.uint8), found, had
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"{path}: not a readable picture: {reason}",
            "give a picture that Pillow reads, such as .png or .jpg, or an array (.npy)",
        ) from error
