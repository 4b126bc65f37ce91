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
        values: (H, W, C) by index of the layer, true integers.
        computed: Of layers where nothing computes some channels, those that are computed: the
            others are left out, and ``layer_NN_channels.npy`` has the numbers of those that are
            written.
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
        except OSError as error:  # numpy's own has no errno when the disk is full
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
