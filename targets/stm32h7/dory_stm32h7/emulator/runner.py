"""Runner ``cortex-m7``: the image for the chip on the emulated chip, every layer compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import UsageError, VerificationFailed, simulate
from dory_core.tools import read_plan
from dory_stm32h7.emulator.elf import read_elf
from dory_stm32h7.emulator.faults import ChipFault
from dory_stm32h7.emulator.machine import Machine
from dory_stm32h7.emulator.memories import POISON
from dory_stm32h7.parts import part_of

NAME = "cortex-m7"
_EXIT_DIFFERS = 5
_TIMEOUT_S = 600.0


def run_cortex_m7(app_dir: Path, request: simulate.RunRequest) -> simulate.RunResult:
    """Build the image, execute it from reset, and compare what every layer hands out.

    The MDMA always copies late, so ``dma`` has no meaning here. ``seed``: of how often a program
    finds a transfer in flight. Inputs that the image does not hold are written into the arena,
    where the network uses them in place. Raises UsageError for dma or sanitize, and for an
    application that is not deployable; VerificationFailed when a rule of the chip is broken.
    """
    if request.dma != "early" or request.sanitize is not None:
        raise UsageError(
            f"runner {NAME} has neither DMA modes nor sanitizers: its MDMA copies late",
            "use --runner host for them",
        )
    app_dir = Path(app_dir).resolve()
    plan = read_plan(app_dir)
    if not plan["deployable"]:
        raise UsageError(
            f"the chip has no room for this application: {plan['reason']}",
            "use --runner host, or compile with what the chip has",
        )
    session = Session(app_dir, request)
    executions = session.run(request.timeout_s or _TIMEOUT_S)
    runs = []
    for number, execution in enumerate(executions):
        run = request.compare(number, execution.values, execution.instructions)
        execution.check("output", execution.output, request.output_layers, run.input)
        execution.check("state", execution.state, request.state_layers, run.input)
        runs.append(run)
    result = request.result(NAME, runs, session.dma)
    if request.inputs is None and result.exact and session.found_differences:
        raise VerificationFailed(
            f"the image finds differences that the runner does not: {session.machine.output}",
            "the vectors in the image are not those of the application: compile it again",
        )
    return result


def _rows_of(places: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Return the first byte and the bytes of a row of each input or output that passes by rows."""
    found, at = list[tuple[int, int]](), 0
    for rows in (place["rows"] for place in places):
        if rows is not None:
            found.append((at, rows["bytes"]))
            at += rows["count"] * rows["bytes"]
    return found


class Execution:
    """What one inference handed out. values: (H, W, C) by layer; instructions by layer."""

    def __init__(self) -> None:
        self.raw: dict[int, bytes] = {}
        self.values: dict[int, npt.NDArray[np.int64]] = {}
        self.instructions: dict[int, int] = {}
        self.output = b""
        self.state = b""

    def check(self, what: str, found: bytes, layers: Sequence[int], name: str) -> None:
        """Raise VerificationFailed unless bytes are those of the layers, in their order."""
        if layers and found != b"".join(self.raw[index] for index in layers):
            listed = ", ".join(str(index) for index in layers)
            raise VerificationFailed(f"{name}: the network's {what} is not that of layer {listed}")


class Session:
    """One run of the image over all inputs and repetitions. plan: plan.json. program: the image."""

    def __init__(self, app_dir: Path, request: simulate.RunRequest) -> None:
        from dory_stm32h7.toolchain import find_toolchain

        if not (app_dir / "board").is_dir():
            raise UsageError(
                f"{app_dir} has no main: it is the form for a project of your own",
                "compile with --set form=application, or run it with --runner host",
            )
        self.plan = json.loads((app_dir / "plan.json").read_text())
        self._order = [layer["index"] for layer in self.plan["layers"]]
        self._layers = {layer.index: layer for layer in request.layers}
        self._count, self._repeat = len(request.expected), request.repeat
        self._inputs, self._starts = request.inputs, request.starts
        if request.inputs is None and self.plan["options"]["vectors"] == "none":
            data = (app_dir / "vectors/input.bin").read_bytes()
            size = len(data) // self._count
            self._inputs = [data[n * size : (n + 1) * size] for n in range(self._count)]
        part = part_of(self.plan["options"])
        toolchain = find_toolchain(part)
        self.program = simulate.build_program(app_dir, toolchain.recipe(), toolchain.compiler)
        self._image = read_elf(self.program)
        self.machine = Machine(self._image, request.seed, part)
        self.machine.at("board_input", self._on_input)
        if self._starts:
            self.machine.at("board_begins", self._on_begins)
        self.machine.at(f"{self.plan['prefix']}_network_run", self._on_start)
        self.machine.at("board_layer", self._on_layer)
        self.machine.at("board_output", self._on_output)
        network = self.plan["network"]
        self._input_rows, self._output_rows = map(_rows_of, (network["inputs"], network["outputs"]))
        self._rows = bytearray()  # of the outputs of a run
        if self._input_rows and self._inputs is not None:
            self.machine.at("board_next_rows", self._on_next_rows)
        if self._output_rows:
            self.machine.at("board_put_rows", self._on_put_rows)
        self._executions: list[Execution] = []
        self._mark = 0
        self._done = 0

    def run(self, timeout_s: float) -> list[Execution]:
        """Run the image to its end; raises VerificationFailed."""
        try:
            self.machine.run(timeout_s)
        except VerificationFailed as error:
            raise VerificationFailed(f"{self._where()}: {error.message}", error.hint) from None
        machine = self.machine
        if machine.exit_code not in (0, _EXIT_DIFFERS):
            raise VerificationFailed(
                f"the image ends with status {machine.exit_code}: {machine.output.strip()}"
            )
        if len(self._executions) != self._count * self._repeat:
            raise UsageError(
                f"the image ran {len(self._executions)} inputs, expected values are given for "
                f"{self._count}",
                "compile the network again",
            )
        return self._executions

    @property
    def found_differences(self) -> bool:
        """The image says that something differs from the vectors that it holds."""
        return self.machine.exit_code == _EXIT_DIFFERS

    @property
    def dma(self) -> str:
        """When transfers moved their data; ``none`` when the MDMA was not used."""
        return "late" if self.machine.mdma.transfers else "none"

    def _where(self) -> str:
        if not self._executions:
            return "before the first layer"
        if self._done >= len(self._order):
            return "after the last layer"
        layer = self._layers.get(self._order[self._done])
        name = f" '{layer.name}'" if layer else ""
        return f"layer {self._order[self._done]}{name}"

    def _on_input(self, machine: Machine) -> None:
        run = machine.argument(0)
        if run == 0:
            self._poison("dory_l1_arena", "dory_l2_arena", "dory_d2_arena", "dory_l3_arena")
        if run >= self._count * self._repeat:
            machine.return_from(0)
        elif self._inputs is None:
            machine.set_argument(0, run % self._count)
        else:
            address = self._address(self.plan["network"]["inputs"][0])
            if self._input_rows:  # they come when the network asks for them
                machine.return_from(address)
                return
            data = self._inputs[run % self._count]
            machine.memories.view(address, len(data), "input")[:] = np.frombuffer(data, np.uint8)
            machine.return_from(address)

    def _on_next_rows(self, machine: Machine) -> None:
        assert self._inputs is not None
        number, address, first, rows = (machine.argument(n) for n in range(4))
        at, row = self._input_rows[number]
        data = self._inputs[(len(self._executions) - 1) % self._count]
        data = data[at + first * row : at + (first + rows) * row]
        machine.memories.view(address, len(data), "input")[:] = np.frombuffer(data, np.uint8)
        machine.return_from(0)

    def _on_put_rows(self, machine: Machine) -> None:
        number, address, first, rows = (machine.argument(n) for n in range(4))
        at, row = self._output_rows[number]
        data, start = machine.memories.view(address, rows * row, "output"), at + first * row
        self._rows.extend(bytes(max(0, start + len(data) - len(self._rows))))
        self._rows[start : start + len(data)] = data.tobytes()

    def _address(self, place: Mapping[str, Any]) -> int:
        """Return the address of a place of plan.json."""
        names = ("dory_l2_arena", "dory_d2_arena")
        name = "dory_l3_arena" if place["level"] == 3 else names[place["memory"]]
        return int(self._image.symbol(name).address + place["offset"])

    def _on_begins(self, machine: Machine) -> None:
        machine.return_from(int(self._starts[machine.argument(0) % self._count]))

    def _on_start(self, machine: Machine) -> None:
        self._executions.append(Execution())
        self._mark = machine.instructions
        self._done = 0
        self._poison("dory_l1_arena")

    def _on_layer(self, machine: Machine) -> None:
        index, address, size = (machine.argument(n) for n in range(3))
        execution = self._executions[-1]
        data = machine.memories.view(address, size, "output of a layer").tobytes()
        raw = execution.raw[index] = execution.raw.get(index, b"") + data
        before_it = execution.instructions.get(index, 0)
        execution.instructions[index] = before_it + machine.instructions - self._mark
        layer = self._layers[index]
        # Layers in several parts hand out stripes.
        complete = len(raw) == layer.layout.size_bytes(layer.tensor)
        stays = self._kept(index) if complete else self._found_inputs(index)
        outliving = (*self._loaded_ahead(), *stays)
        machine.mdma.require_idle(f"layer {index} ends", outliving)
        if complete:
            execution.values[index] = layer.unpack(raw)
            self._done += 1
        kept = [machine.memories.view(r.start, len(r), "L1") for r in outliving]
        before = [block.copy() for block in kept]
        self._poison("dory_l1_arena")  # nothing else in it outlives a layer
        for block, content in zip(kept, before, strict=True):
            block[:] = content
        self._mark = machine.instructions

    def _loaded_ahead(self) -> Sequence[range]:
        """Return the addresses of constants that arrive for a later layer, if there are any."""
        layers = self.plan["layers"]
        for layer in layers[: self._done + 1]:
            later = layer["ahead"]["step"] if layer["ahead"] else 0
            if later > self._done:
                return self._l1_blocks(layers[later], "w")[:1]
        return ()

    def _kept(self, index: int) -> Sequence[range]:
        """Return the addresses of the tensors that stay in L1 after a layer."""
        start = self._image.symbol("dory_l1_arena").address
        kept = self.plan["layers"][self._order.index(index)]["kept"]
        return [range(start + one["offset"], start + one["offset"] + one["bytes"]) for one in kept]

    def _found_inputs(self, index: int) -> Sequence[range]:
        """Return the addresses in L1 of inputs that parts of a layer leave for the next part."""
        layer = self.plan["layers"][self._order.index(index)]
        return self._l1_blocks(layer, "x") if layer["found_inputs"] else ()

    def _l1_blocks(self, layer: Mapping[str, Any], name: str) -> Sequence[range]:
        """Return the addresses of a layer's buffers in L1 whose names begin with ``name``."""
        start = self._image.symbol("dory_l1_arena").address
        return [
            range(start + offset, start + offset + block["bytes"])
            for block in layer["l1_blocks"]
            if block["name"].startswith(name)
            for offset in block["offsets"]
        ]

    def _on_output(self, machine: Machine) -> None:
        address, size = machine.argument(1), machine.argument(2)
        execution = self._executions[-1]
        if self._output_rows:
            execution.output, self._rows = bytes(self._rows), bytearray()
        else:
            execution.output = machine.memories.view(address, size, "output").tobytes()
        for state in self.plan["network"]["states"]:
            start, count = self._address(state["place"]), state["bytes"]
            execution.state += machine.memories.view(start, count, "state").tobytes()
        missing = [index for index in self._order if index not in execution.raw]
        if missing:
            raise ChipFault(f"layer {missing[0]} did not run")

    def _poison(self, *arenas: str) -> None:
        """Fill arenas with what no program can rely on."""
        for symbol in filter(None, map(self._image.find, arenas)):
            memory = self.machine.memories.view(symbol.address, symbol.size, "arena")
            memory[:] = POISON
