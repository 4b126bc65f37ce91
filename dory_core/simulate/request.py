"""What a runner is asked: which application runs on what, and what is compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from dory_core.errors import UsageError
from dory_core.ir.channels import computed_channels
from dory_core.simulate.dump import save_values
from dory_core.simulate.result import LayerOutput, LayerResult, Run, RunResult, compare_layer

#: When the simulated DMA moves the bytes of a transfer.
DMA_MODES = ("early", "late", "random")


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What to execute and what to compare it with.

    Attributes:
        layers: The layers to compare.
        expected: Per input, the values of each layer by its index, shape (H, W, C).
        inputs: Per input its storage form; None for the vectors embedded in the application.
        input_names: For the report.
        output_layers: Layers whose outputs, one after the other, are the network's output; it is
            then checked that the application hands out exactly those bytes.
        floats: Per input, the network's inputs and expected outputs as float32, all of each one
            after the other, for an application that converts them; None for one that does not.
        state_layers: Layers whose outputs, one after the other, are the state that an inference
            leaves.
        starts: Per input, whether the network begins with its initial state; empty for one without
            state. Every repetition begins so.
        dma, seed: When transfers move their bytes: early, late, or random by seed.
        repeat: Executions of all inputs, in one process, on the same arenas.
        sanitize: "address,undefined" or "thread".
        dump: Directory for ``layer_NN.npy``, shape (H, W, C), true integers; in ``run_RR/`` when
            there is more than one execution.
        timeout_s: Seconds until the program is stopped; None for what suits the runner.

    Raises:
        UsageError: For numbers that make no sense.
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
        """Return what the layers of an inference shall give: (H, W, C) by index of the layer."""
        return self.expected[execution % len(self.expected)]

    def compare(
        self,
        execution: int,
        values: Mapping[int, npt.NDArray[Any]],
        instructions: Mapping[int, int] | None = None,
    ) -> Run:
        """Return how an inference compares; its values are written where ``dump`` asks for it.

        values: shape (H, W, C), instructions: counted; both by index of the layer. Raises
        UsageError.
        """
        self.save(execution, values)
        counts, expected = instructions or {}, self.expected_of(execution)
        return self.run(
            execution,
            [
                compare_layer(
                    layer, values[layer.index], expected, instructions=counts.get(layer.index)
                )
                for layer in self.layers
            ],
        )

    def run(self, execution: int, layers: Iterable[LayerResult]) -> Run:
        """Return an inference whose layers compare so."""
        return Run(self.input_name(execution), tuple(layers))

    def result(self, runner: str, runs: Iterable[Run], dma: str | None = None) -> RunResult:
        """Return the result of a runner. dma: when transfers moved their bytes, if not as asked."""
        return RunResult(self.target, runner, self.dma if dma is None else dma, tuple(runs))

    def save(self, execution: int, values: Mapping[int, npt.NDArray[Any]]) -> None:
        """Write the values of an inference by layer where ``dump`` asks for it; UsageError."""
        if self.dump is not None:
            folder = self.dump / f"run_{execution:02d}" if self.executions > 1 else self.dump
            channels = {n.index: computed_channels(n.tensor) for n in self.layers}
            partly = {
                index: kept
                for index, kept in channels.items()
                if index in values and len(kept) < values[index].shape[-1]
            }
            save_values(folder, values, partly)
