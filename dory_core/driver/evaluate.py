"""How many labelled samples an application classifies right: ``dory evaluate``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.driver.answers import outputs_of, reals_of
from dory_core.driver.application import read_graph, read_plan, run_application
from dory_core.errors import UsageError
from dory_core.ir import Graph, Tensor
from dory_core.plugins.manager import Plugins
from dory_core.simulate.request import DMA_MODES
from dory_core.simulate.result import LayerResult, RunResult
from dory_core.tiling.network import Progress

#: Name of the array with the classes in a file of samples.
LABELS = "labels"
_AT_ONCE = 64  # samples of one run: their layers are in memory at once

Classes = npt.NDArray[np.int64]
Samples = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The classes that an application finds for labelled samples.

    Attributes:
        classes: The class of each sample: the channel of the largest output, in real numbers where
            the file of the network gives a scale. Of equal ones the first.
        labels: The right class of each sample.
        runner: What ran the application.
        reference: Whose arithmetic exact means.
        first_difference: The first sample with a layer that is not exact, and that layer.
    """

    classes: Classes
    labels: Classes
    runner: str
    reference: str
    first_difference: tuple[int, LayerResult] | None

    @property
    def exact(self) -> bool:
        """True when every element of every layer is as expected, for every sample."""
        return self.first_difference is None

    @property
    def right(self) -> int:
        """Number of samples whose class is their label."""
        return int((self.classes == self.labels).sum())

    @property
    def accuracy(self) -> float:
        """Share of such samples."""
        return self.right / len(self.labels)

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``dory evaluate --json``."""
        return {
            "samples": len(self.labels),
            "right": self.right,
            "accuracy": self.accuracy,
            "exact": self.exact,
            "runner": self.runner,
            "reference": self.reference,
            "classes": self.classes.tolist(),
            LABELS: self.labels.tolist(),
        }


def evaluate_application(
    directory: Path,
    samples: Samples,
    labels: npt.NDArray[Any],
    *,
    plugins: Plugins,
    input_layout: str = "",
    dma: str = DMA_MODES[0],
    runner: str | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Run an application on samples and compare the class of each one with its label.

    Each layer of each inference is also compared with the reference executor.

    Args:
        directory: Directory of the application.
        samples: Arrays (N, H, W, C) by the name of the network's input, by any name for the only
            one. Floats are real numbers where the input has a scale.
        labels: The class of each sample, shape (N,).
        plugins: Plugins that provide the target's runners.
        input_layout: ``chw`` for samples (N, C, H, W).
        dma: When simulated transfers move their bytes.
        runner: Name of the runner; None for the one that the target prefers.
        progress: Function called with (stage, samples done, samples).

    Raises:
        UsageError: For a network without one output of several channels, for one with state, and
            for samples and labels that do not fit it or each other.
        ToolMissing, VerificationFailed: As :func:`run_application`.
    """
    plan = read_plan(directory)
    output = _output_with_classes(plan, read_graph(directory, plugins.operators()))
    wanted = _checked_labels(labels, samples, output.channels)
    found: list[Classes] = []
    difference, ran = None, ""
    for start in range(0, len(wanted), _AT_ONCE):
        if progress is not None:
            progress("evaluate", start, len(wanted))
        part = {name: array[start : start + _AT_ONCE] for name, array in samples.items()}
        result = run_application(
            directory,
            plugins=plugins,
            inputs=[part],
            input_layout=input_layout,
            dma=dma,
            runner=runner,
        )
        ran = result.runner
        difference = difference or _difference(result, start)
        values = reals_of(result) if output.has_scale else outputs_of(result)
        found.append(values[output.name].reshape(-1, output.channels).argmax(axis=1))
    classes = np.concatenate(found)
    reference = str(plan["network"].get("reference") or "")
    return Evaluation(classes, wanted, ran, reference, difference)


def _output_with_classes(plan: Mapping[str, Any], graph: Graph) -> Tensor:
    name = plan["network"]["name"]
    if graph.states:
        raise UsageError(
            f"{name} keeps state between inferences, so that samples are not independent",
            "give the inferences of a sequence to `dory run` with --input, in their order",
        )
    outputs = [graph.tensors[output] for output in graph.outputs]
    [output] = outputs if len(outputs) == 1 else [None]
    if output is None or output.height * output.width > 1 or output.channels < 2:
        shapes = ", ".join(f"{t.height} x {t.width} x {t.channels}" for t in outputs)
        raise UsageError(
            f"{name} has outputs of {shapes} (H x W x C); classes are read from one output of"
            " 1 x 1 x C",
            "run it with `dory run --input` or dory.run, and compare its outputs yourself",
        )
    return output


def _checked_labels(labels: npt.NDArray[Any], samples: Samples, classes: int) -> Classes:
    """Return the labels as a vector; raises UsageError."""
    counts = {name: len(array) if array.ndim > 1 else 0 for name, array in samples.items()}
    known = labels.reshape(-1) if labels.ndim < 2 or labels.size == len(labels) else labels
    if known.ndim != 1 or known.dtype.kind not in "iub":
        raise UsageError(
            f"labels are {known.dtype} of shape {known.shape}, not class numbers",
            "give an integer for each sample, counted from 0",
        )
    for name, count in counts.items():
        if count != len(known) or not count:
            raise UsageError(
                f"there are {len(known)} labels and {count} samples '{name}'",
                "give samples (N, H, W, C) and N labels",
            )
    outside = (known < 0) | (known >= classes)
    if outside.any():
        at = int(outside.argmax())
        raise UsageError(
            f"label {at} is {known[at]}, the network has the classes 0 to {classes - 1}",
            "count classes as the network was trained, from 0",
        )
    return known.astype(np.int64)


def _difference(result: RunResult, start: int) -> tuple[int, LayerResult] | None:
    """Return the first sample of a part with a layer that differs. start: number of its first."""
    for number, run in enumerate(result.runs):
        for layer in run.layers:
            if not layer.exact:
                return start + number, layer
    return None
