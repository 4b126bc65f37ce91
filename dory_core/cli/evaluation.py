"""What ``dory evaluate`` gives in Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dory_core.cli.files import existing_file
from dory_core.cli.frames import Rows, data_frame
from dory_core.cli.html import html_page
from dory_core.cli.requests import input_source
from dory_core.driver.evaluate import LABELS
from dory_core.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from dory_core.driver.evaluate import Evaluation


@dataclass(frozen=True, slots=True, repr=False)
class EvaluatedNetwork:
    """How many samples an application classifies right.

    Attributes:
        result: Classes and labels, as a record.
    """

    result: Evaluation

    @property
    def accuracy(self) -> float:
        """Share of the samples whose class is their label."""
        return self.result.accuracy

    @property
    def exact(self) -> bool:
        """True when every element of every layer is as expected, for every sample."""
        return self.result.exact

    @property
    def classes(self) -> npt.NDArray[np.int64]:
        """The class of each sample."""
        return self.result.classes

    @property
    def confusion(self) -> npt.NDArray[np.int64]:
        """Numbers of samples by their label (rows) and the class that was found (columns)."""
        labels, classes = self.result.labels, self.result.classes
        size = 1 + int(max(labels.max(), classes.max()))
        counts = np.bincount(labels * size + classes, minlength=size * size)
        return counts.reshape(size, size).astype(np.int64)

    @property
    def samples(self) -> Rows:
        """Label, class and whether they are equal, for each sample."""
        pairs = zip(self.result.labels.tolist(), self.result.classes.tolist(), strict=True)
        return tuple({"label": a, "class": b, "right": a == b} for a, b in pairs)

    def to_pandas(self) -> Any:
        """Return the samples as a DataFrame; raises ToolMissing without pandas."""
        return data_frame(self.samples)

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``dory evaluate --json``, which docs/json.md describes."""
        return self.result.to_json()

    def report(self) -> None:
        """Print how many samples of each class are right, and the accuracy."""
        from dory_core.cli.common import console

        self._print(console())

    def __repr__(self) -> str:
        verdict = "exact" if self.exact else "NOT EXACT"
        right, count = self.result.right, len(self.result.labels)
        return f"<EvaluatedNetwork: {right} of {count} right ({self.accuracy:.1%}), {verdict}>"

    def _repr_html_(self) -> str:
        return html_page(self._print)

    def _print(self, out: Console) -> None:
        from dory_core.cli.tables.evaluation import print_evaluation

        print_evaluation(self, out)


def read_samples(samples: Any, labels: Any) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[Any]]:
    """Return samples by name, and their labels, from arrays or files.

    Args:
        samples: An array, arrays by name, or an .npz or .npy file.
        labels: An array or an .npy file; None when they stand with the samples, as ``labels``.

    Raises:
        UsageError: For unreadable files, and when there are no labels.
    """
    found = _arrays(samples, "samples")
    given = found.pop(LABELS, None)
    if labels is not None:
        [given] = _arrays(labels, LABELS).values()
    if given is None:
        held = ", ".join(sorted(filter(None, found))) or "one array"
        raise UsageError(
            f"the samples come without labels: there is no array '{LABELS}' beside {held}",
            "write both with numpy.savez(FILE, x=samples, labels=classes), or give --labels FILE",
        )
    return found, given


def _arrays(given: Any, what: str) -> dict[str, npt.NDArray[Any]]:
    source = input_source(given)
    if not isinstance(source, Path):
        return dict(source)
    from dory_core.golden.arrays import load_arrays

    return load_arrays(existing_file(source, what), "")
