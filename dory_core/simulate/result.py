"""The result of a run of an application: the ``run`` document of ``dory run --json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.errors import UsageError
from dory_core.ir import Tensor
from dory_core.ir.channels import computed_channels, file_channels, full, stored, stored_channels
from dory_core.ir.layout import HWC, Layout
from dory_core.ir.packing import pack, unpack

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class LayerOutput:
    """A layer whose output is compared: its index, name and output tensor (storage and shape).

    Values are those of the file, with the channels that are not stored (``Tensor.removed``).

    Attributes:
        index: Index of the layer.
        name: Name of the layer.
        tensor: The output.
        macs: Multiply-accumulates of the layer, for reports.
        layout: Layout of the bytes that the application reports.
        result: Name or index of the output in the file, empty when the format has none.
    """

    index: int
    name: str
    tensor: Tensor
    macs: int = 0
    layout: Layout = HWC
    result: str = ""

    def unpack(self, data: bytes) -> npt.NDArray[np.int64]:
        """Return the values, shape (H, W, C), of the bytes of an HWC tensor."""
        return self.full(unpack(data, self.tensor))

    def full(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the values of the file from stored values, both of shape (H, W, C)."""
        return full(self.tensor, values)

    def pack(self, values: npt.NDArray[Any]) -> bytes:
        """Return the bytes of values of shape (H, W, C), or flattened in that order."""
        tensor = self.tensor
        pixels = values.reshape(tensor.height, tensor.width, file_channels(tensor))
        return pack(stored(tensor, pixels), tensor)

    def reported(
        self, differs: tuple[int, int, int, int] | None, cycles: int | None = None
    ) -> LayerResult:
        """Return the result of a program that compares itself.

        differs: (number of mismatches, position of the first one in HWC order, expected, got), the
        last two in storage form; None when every element is exact.
        """
        wrong, first = 0, None
        if differs is not None:
            wrong, element, expected, got = differs
            pixel, c = divmod(element, self.tensor.channels)
            h, w = divmod(pixel, self.tensor.width)
            channel, offset = int(stored_channels(self.tensor)[c]), self.tensor.offset
            first = Mismatch(channel, h, w, expected - offset, got - offset)
        exact = differs is None
        return LayerResult(
            self.index,
            self.name,
            exact,
            wrong,
            first,
            cycles,
            macs=self.macs,
            tensor=self.result,
            not_computed=file_channels(self.tensor) - len(computed_channels(self.tensor)),
        )


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first element, in HWC order, that differs."""

    c: int
    h: int
    w: int
    expected: int
    got: int


@dataclass(frozen=True, slots=True)
class LayerResult:
    """The comparison of one layer.

    Instruction counts compare kernels with one another; they are not cycles.

    Attributes:
        cycles, instructions: Counts of the runner, None when it does not count.
        macs: Multiply-accumulates of the layer.
        tensor: Name or index of its output in the file.
        not_computed: Channels of the output that no layer reads; they are neither computed nor
            compared.
    """

    index: int
    name: str
    exact: bool
    mismatches: int
    first: Mismatch | None
    cycles: int | None = None
    instructions: int | None = None
    macs: int = 0
    tensor: str = ""
    not_computed: int = 0


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of one layer: kernel calls, transfers between L2 and L1, and their bytes.

    For all layers together: transfers between L3 and L2, without calls.
    """

    calls: int
    transfers: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of the network.

    Attributes:
        input: Name of its test vector.
        counts: Counts by layer index, None when the runner does not count.
        external_counts: Counts of transfers between L3 and L2.
        values: Values of the file, shape (H, W, C), of the layers that are kept, by index; a layer
            of a program that compares itself is missing unless it is exact.
    """

    input: str
    layers: tuple[LayerResult, ...]
    counts: Mapping[int, Counts] | None = None
    external_counts: Counts | None = None
    values: Mapping[int, npt.NDArray[Any]] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RunResult:
    """All executions of one call of a runner.

    Attributes:
        reference: The program whose arithmetic the network has.
        notes: Choice of the runner, and conversions of the given inputs.
        outputs: Layers that make the network's outputs, in their order.
    """

    target: str
    runner: str
    dma: str
    runs: tuple[Run, ...]
    version: int = SCHEMA_VERSION
    reference: str = ""
    notes: tuple[str, ...] = ()
    outputs: tuple[LayerOutput, ...] = ()

    @property
    def exact(self) -> bool:
        """True when every element of every layer of every run is as expected."""
        return all(layer.exact for run in self.runs for layer in run.layers)

    @property
    def first_difference(self) -> tuple[Run, LayerResult] | None:
        """The first layer that differs, with its run."""
        return next(
            ((run, layer) for run in self.runs for layer in run.layers if not layer.exact), None
        )

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``dory run --json``."""
        return {
            "version": self.version,
            "target": self.target,
            "runner": self.runner,
            "dma": self.dma,
            "reference": self.reference,
            "exact": self.exact,
            "notes": list(self.notes),
            "runs": [
                {"input": run.input, "layers": [asdict(layer) for layer in run.layers]}
                for run in self.runs
            ],
        }


def compare_layer(
    layer: LayerOutput,
    got: npt.NDArray[np.int64],
    expected: Mapping[int, npt.NDArray[Any]],
    *,
    cycles: int | None = None,
    instructions: int | None = None,
) -> LayerResult:
    """Compare ``got``, shape (H, W, C), element by element with ``expected[layer.index]``.

    Expected values have shape (H, W, C) or are flattened in that order. Channels that are not
    computed are not compared. Raises UsageError when values are missing or of another size.
    """
    if layer.index not in expected:
        raise UsageError(f"no expected values for layer {layer.index} '{layer.name}'")
    values = np.asarray(expected[layer.index])
    if values.size != got.size or (values.ndim == 3 and values.shape != got.shape):
        raise UsageError(
            f"expected values of layer {layer.index} '{layer.name}' have shape {values.shape}, "
            f"the layer has shape {got.shape} (H, W, C)"
        )
    wanted = values.reshape(got.shape)
    known = computed_channels(layer.tensor)
    wrong = np.argwhere(wanted[..., known] != got[..., known])
    first = None
    if len(wrong):
        h, w, place = (int(position) for position in wrong[0])
        c = int(known[place])
        first = Mismatch(c, h, w, int(wanted[h, w, c]), int(got[h, w, c]))
    return LayerResult(
        layer.index,
        layer.name,
        not len(wrong),
        len(wrong),
        first,
        cycles,
        instructions,
        layer.macs,
        layer.result,
        got.shape[-1] - len(known),
    )
