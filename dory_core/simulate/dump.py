"""Values of layers as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dory_core.errors import UsageError


def save_values(
    folder: Path,
    values: Mapping[int, npt.NDArray[np.int64]],
    computed: Mapping[int, npt.NDArray[np.int64]],
) -> None:
    """Write ``layer_NN.npy`` of every layer into a folder; raises UsageError.

    Args:
        folder: The folder.
        values: Integer values (H, W, C) by index of the layer.
        computed: Computed channels of the layers where some channels are not computed. Only these
            channels are written, and ``layer_NN_channels.npy`` has their numbers.
    """
    make_folder(folder)
    for index, array in values.items():
        name = f"layer_{index:02d}"
        try:
            if index in computed:
                np.save(folder / f"{name}_channels.npy", computed[index])
                np.save(folder / f"{name}.npy", array[..., computed[index]])
            else:
                np.save(folder / f"{name}.npy", array)
        except OSError as error:  # numpy's error has no errno when the disk is full
            raise _no_dump(folder, error) from error


def make_folder(folder: Path) -> None:
    """Make a folder for values; raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_dump(folder, error) from error


def _no_dump(folder: Path, error: OSError) -> UsageError:
    return UsageError(
        f"cannot write dumps to {folder}: {error.strerror or error}", "choose another --dump DIR"
    )
