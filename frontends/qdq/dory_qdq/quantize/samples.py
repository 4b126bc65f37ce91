"""Calibration samples: an .npz file with an array of samples per network input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import UsageError
from dory_core.importing import load_arrays

Shape = tuple[int, ...]
Array = npt.NDArray[Any]

LABELS = "labels"
FEWEST = 8
_NAMELESS = "\0"  # no archive has an array of this name
_FEW_HINT = "64 to 500 samples that look like those of the application are usual"


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Samples by input name, shape (N, ...) float32, and the class of each where it is known."""

    inputs: Mapping[str, Array]
    labels: Array | None

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))

    def feeds(self, count: int | None = None) -> Iterator[dict[str, Array]]:
        """Yield what onnxruntime takes for each of the first ``count`` samples: batches of one."""
        for number in range(len(self) if count is None else min(count, len(self))):
            yield {name: values[number : number + 1] for name, values in self.inputs.items()}


def read_samples(
    source: Path | Mapping[str, Array], shapes: Mapping[str, Shape], fewest: int = FEWEST
) -> Samples:
    """Return samples for inputs of the given shapes (1, ...). source: a file, or arrays by name.

    Raises: UsageError, naming file and array, for a file that is no .npz, a missing array, and a
    wrong shape, type, value or number of samples.
    """
    given = isinstance(source, Mapping)
    path = Path("calibration") if given else source
    arrays = {n: np.asarray(array) for n, array in source.items()} if given else _arrays(path)
    inputs = {name: _input(path, arrays, name, shape) for name, shape in shapes.items()}
    counts = {name: len(values) for name, values in inputs.items()}
    if len(set(counts.values())) > 1:
        raise UsageError(
            f"{path}: inputs have different numbers of samples: {counts}",
            "give every input one array of as many samples",
        )
    count = next(iter(counts.values()))
    if count < fewest:
        raise UsageError(f"{path}: {count} samples are too few, {fewest} are needed", _FEW_HINT)
    return Samples(inputs, _labels(path, arrays.get(LABELS), count))


def _arrays(path: Path) -> dict[str, Array]:
    hint = "write it with numpy.savez, an array of samples for each input"
    arrays = load_arrays(path, _NAMELESS, hint=hint)
    if _NAMELESS in arrays:
        raise UsageError(f"{path}: holds one array without a name", hint)
    return arrays


def _input(path: Path, arrays: Mapping[str, Array], name: str, shape: Shape) -> Array:
    if name not in arrays:
        there = ", ".join(f"'{key}'" for key in arrays) or "none"
        raise UsageError(
            f"{path}: no array '{name}' for the input of that name; arrays: {there}",
            f"write it with numpy.savez(FILE, **{{'{name}': samples}})",
        )
    values = arrays[name]
    if values.dtype.kind != "f":
        raise UsageError(
            f"{path}: array '{name}' holds {values.dtype}, but the input takes floats",
            "store samples as the network reads them, scaled as in training, as float32",
        )
    if values.ndim != len(shape) or values.shape[1:] != shape[1:]:
        wanted = ", ".join(["N", *map(str, shape[1:])])
        raise UsageError(
            f"{path}: array '{name}' has shape {list(values.shape)}, but the input takes"
            f" [{wanted}]",
            "store samples one after the other in the layout of the network's input",
        )
    if not np.isfinite(values).all():
        raise UsageError(
            f"{path}: array '{name}' holds values that are not finite", "leave out such samples"
        )
    return np.ascontiguousarray(values, np.float32)


def _labels(path: Path, labels: Array | None, count: int) -> Array | None:
    if labels is None:
        return None
    if labels.dtype.kind not in "iu" or labels.size != count:
        raise UsageError(
            f"{path}: array '{LABELS}' of {labels.dtype} {list(labels.shape)} is not the class of"
            f" each of {count} samples",
            "store one integer per sample, or leave the array out",
        )
    return labels.reshape(-1).astype(np.int64)
