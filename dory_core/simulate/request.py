"""The request to a runner: inputs of an application, and expected values of its layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.errors import UsageError
from dory_core.ir.channels import computed_channels
from dory_core.simulate.result import LayerOutput, LayerResult, Run, RunResult, compare_layer

#: When the simulated DMA moves the bytes of a transfer.
DMA_MODES = ("early", "late", "random")


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Inputs to execute, and expected values to compare with.

    Attributes:
        layers: The layers to compare.
        expected: For each input the values of each layer by its index, shape (H, W, C).
        inputs: For each input its bytes in storage form; None for the vectors embedded in the
            application.
        input_names: Names of the inputs, for the report.
        output_layers: Layers whose outputs, one after the other, are the network's output. The
            runner checks that the application returns exactly these bytes.
        floats: For each input the network's inputs and expected outputs as float32, one after the
            other; None for an application without float input and output.
        state_layers: Layers whose outputs, one after the other, are the state after an inference.
        starts: For each input True when the network starts from its initial state; empty for a
            network without state. Every repetition starts in the same way.
        dma: When transfers move their bytes: ``early``, ``late`` or ``random``.
        seed: Seed of ``random``.
        repeat: Executions of all inputs, in one process, on the same arenas.
        sanitize: Sanitizers, "address,undefined" or "thread".
        dump: Directory for ``layer_NN.npy`` with integers of shape (H, W, C), in ``run_RR/`` when
            there is more than one execution.
        timeout_s: Seconds until the program is stopped; None for the default of the runner.
        keep: Layers whose values the result holds, by their index.

    Raises:
        UsageError: For invalid numbers.
    """

    layers: Sequence[LayerOutput]
    expected: Sequence[Mapping[int, npt.NDArray[Any]]]
    inputs: Sequence[bytes] | None = None
    input_names: Sequence[str] | None = None
    output_layers: Sequence[int] = ()
    floats: Sequence[tuple[bytes, bytes]] | None = None
    state_layers: Sequence[int] = ()
    starts: Sequence[bool] = ()
    target: str = ""
    dma: str = "early"
    seed: int = 1
    repeat: int = 1
    sanitize: str | None = None
    dump: Path | None = None
    timeout_s: float | None = None
    keep: Sequence[int] = ()

    def __post_init__(self) -> None:
        if self.seed < 0 or self.repeat < 1:
            raise UsageError("the seed is not negative and the network runs at least once")
        if self.inputs is not None and len(self.inputs) != len(self.expected):
            raise UsageError(
                f"{len(self.inputs)} inputs but expected values for {len(self.expected)}"
            )

    @property
    def executions(self) -> int:
        """Number of inferences."""
        return len(self.expected) * self.repeat

    def input_name(self, execution: int) -> str:
        """Return the name of the input of an inference."""
        number = execution % len(self.expected)
        return self.input_names[number] if self.input_names else f"input {number}"

    def expected_of(self, execution: int) -> Mapping[int, npt.NDArray[Any]]:
        """Return the expected values of an inference, (H, W, C) by index of the layer."""
        return self.expected[execution % len(self.expected)]

    def compare(
        self,
        execution: int,
        values: Mapping[int, npt.NDArray[Any]],
        instructions: Mapping[int, int] | None = None,
    ) -> Run:
        """Return the comparison of an inference; write its values to ``dump``.

        Args:
            execution: Number of the inference.
            values: Values (H, W, C) by index of the layer.
            instructions: Counted instructions by index of the layer.

        Raises:
            UsageError: When values are missing or of another size.
        """
        self.save(execution, values)
        counts, expected = instructions or {}, self.expected_of(execution)
        layers = [
            compare_layer(
                layer, values[layer.index], expected, instructions=counts.get(layer.index)
            )
            for layer in self.layers
        ]
        kept = {index: values[index] for index in self.keep}
        return replace(self.run(execution, layers), values=kept)

    def run(self, execution: int, layers: Iterable[LayerResult]) -> Run:
        """Return the record of an inference with these layers.

        Its values are the expected ones of the layers that are exact.
        """
        found, expected = tuple(layers), self.expected_of(execution)
        exact = {layer.index for layer in found if layer.exact}
        values = {index: np.asarray(expected[index]) for index in self.keep if index in exact}
        return Run(self.input_name(execution), found, values=values)

    def result(self, runner: str, runs: Iterable[Run], dma: str | None = None) -> RunResult:
        """Return the result of a runner.

        Args:
            runner: Name of the runner.
            runs: The executions.
            dma: The DMA mode, when it differs from the requested one.
        """
        return RunResult(self.target, runner, self.dma if dma is None else dma, tuple(runs))

    def save(self, execution: int, values: Mapping[int, npt.NDArray[Any]]) -> None:
        """Write the values of an inference to ``dump``; raises UsageError."""
        if self.dump is not None:
            folder = self.dump / f"run_{execution:02d}" if self.executions > 1 else self.dump
            channels = {n.index: computed_channels(n.tensor) for n in self.layers}
            partly = {
                index: kept
                for index, kept in channels.items()
                if index in values and len(kept) < values[index].shape[-1]
            }
            _save_values(folder, values, partly)


def _save_values(
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
