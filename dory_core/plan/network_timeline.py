"""Timeline of a whole network: its program with a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dory_core.hardware.links import Link
from dory_core.plan import Conversion, ExtTransfer, LayerStep
from dory_core.plan.moving import Moving
from dory_core.plan.network_operations import (
    Convert,
    EndStates,
    ExtStart,
    ExtWait,
    Inputs,
    MoveRows,
    NetworkOperation,
    RunPart,
)
from dory_core.plan.timeline import NetworkTimeline, ProgramEvent
from dory_core.schedule.costs import link_name


def network_timeline(
    operations: Iterable[NetworkOperation],
    steps: Sequence[LayerStep],
    link: Link | None,
    waited: Callable[[ExtTransfer, float], None] | None = None,
    moving: Moving | None = None,
    network_cycles: int = 0,
) -> NetworkTimeline:
    """Return the timeline of one inference, changes of layout and waiting for L3 included.

    Args:
        operations: Those of the network.
        steps: The layers in the order of execution.
        link: Between L3 and L2, None without. One engine serves its transfers in the order of their
            start; the issuing core spends the link's issue cycles on each.
        waited: Receives for how many cycles each transfer is done when it is waited for, below zero
            where the cores wait.
        moving: How rows and state move within L2; nothing moves without.
        network_cycles: What passes before the first layer, see ``MemoryHierarchy``.
    """
    clock = _Clock(steps, link, moving)
    clock.now += network_cycles
    for operation in operations:
        if isinstance(operation, ExtStart):
            clock.start(operation.transfer)
        elif isinstance(operation, ExtWait):
            slack = clock.wait(operation.transfer)
            if waited is not None:
                waited(operation.transfer, slack)
        elif isinstance(operation, Inputs):
            clock.account(len(steps))
        elif isinstance(operation, Convert):
            clock.convert(operation.conversion)
        elif isinstance(operation, MoveRows):
            clock.move(operation)
        elif isinstance(operation, EndStates):
            clock.keep(operation)
        elif isinstance(operation, RunPart):
            clock.run(operation)
    clock.account(len(steps))
    stalls = tuple(map(round, clock.stalls))
    return NetworkTimeline(round(clock.now), stalls, tuple(clock.events))


class _Clock:
    """Cores and the engine of L3. now, free: when they have done everything so far."""

    def __init__(
        self, steps: Sequence[LayerStep], link: Link | None, moving: Moving | None
    ) -> None:
        self.steps = steps
        self.link = link
        self.moving = moving
        self.now = self.free = 0.0
        self.spent = 0.0  # on transfers, since the last part
        self.stalls = [0.0] * (len(steps) + 1)
        self.events: list[ProgramEvent] = []
        self._tiles = [0] * len(steps)
        self._done: dict[ExtTransfer, float] = {}
        self._users = {part.position: n for n, step in enumerate(steps) for part in step.parts}
        self._step = 0  # of the part that runs next

    def start(self, transfer: ExtTransfer) -> None:
        """Start a transfer between L3 and L2."""
        assert self.link is not None
        self.now += self.link.issue_cycles
        self.spent += self.link.issue_cycles
        begin = max(self.now, self.free)
        self.free = begin + self.link.cycles(transfer.size) - self.link.issue_cycles
        self._done[transfer] = self.free
        name = f"{'load' if transfer.incoming else 'store'} L{self.link.lower}"
        user = self._users.get(transfer.wait)
        self.events.append(ProgramEvent(link_name(self.link), name, user, 0, begin, self.free))

    def wait(self, transfer: ExtTransfer) -> float:
        """Let the cores wait for a transfer; return for how many cycles it is done already."""
        slack = self.now - self._done[transfer]
        waiting = max(0.0, -slack)
        self.now += waiting
        self.spent += waiting
        return slack

    def account(self, step: int) -> None:
        """Count what was spent on transfers for a step."""
        self.stalls[step] += self.spent
        self.spent = 0.0

    def convert(self, conversion: Conversion) -> None:
        """Let the cores change a layout; what was spent before belongs to the layer after it."""
        step = self._step if self._step < len(self.steps) else None
        name = f"convert to {conversion.target.layout.name}"
        end = self.now + conversion.cycles
        self.events.append(ProgramEvent("cores", name, step, 0, self.now, end))
        self.now = end

    def move(self, operation: MoveRows) -> None:
        """Let a core move rows of a rolling buffer; it counts as waiting of their maker."""
        assert self.moving is not None
        self._move("move rows", operation.step, operation.bytes * self.moving.row_cycles)

    def keep(self, operation: EndStates) -> None:
        """Let state move to its places; it counts as waiting at the end."""
        for state in operation.states:
            if state.copied:
                assert self.moving is not None
                cycles = self.moving.state_cycles(state.place.size_bytes)
                self._move("keep state", None, cycles)

    def _move(self, name: str, step: int | None, cycles: float) -> None:
        end = self.now + cycles
        self.events.append(ProgramEvent("cores", name, step, 0, self.now, end))
        self.now = end
        self.spent += cycles

    def run(self, operation: RunPart) -> None:
        """Run a part of a layer."""
        number = operation.step
        self.account(number)
        timeline, first = self.steps[number].timelines[operation.part], self._tiles[number]
        self._tiles[number] += timeline.traffic.calls
        self.events += [
            ProgramEvent(
                e.lane, e.name, number, first + e.step, self.now + e.start, self.now + e.end
            )
            for e in timeline.events
        ]
        self.now += timeline.estimate.cycles
        if operation.part == len(self.steps[number].parts) - 1:
            self._step = number + 1
