"""A model of the MDMA as the reference manual describes it (RM0433, section 14).

A transfer moves nothing when it is started. Its bytes move when the program, polling the status of
the channel, sees it complete, which takes several reads: what is read too early is old, and what
is overwritten too early arrives wrong. Whatever the manual forbids or calls unpredictable is a
ChipFault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, field

import numpy as np

from dory_stm32h7.emulator.faults import ChipFault
from dory_stm32h7.emulator.mdma_registers import (
    BLOCK,
    BRTIF,
    BTIF,
    CHANNEL_BYTES,
    CHANNELS,
    CR,
    CRQA,
    CTCIF,
    EN,
    FIRST_CHANNEL,
    IFCR,
    INCREMENT,
    ISR,
    NODE,
    PROTECTED,
    SWRQ,
    TCIF,
    TRGM_BLOCK,
    TRGM_BUFFER,
    TRGM_REPEATED,
    Setup,
    Side,
)
from dory_stm32h7.emulator.memories import Memories, Region

# Reads of the status that find a transfer in flight, at most; then it completes.
MOST_POLLS = 3
# Reads of the status without any progress after which the program waits for ever.
ENDLESS = 10_000


@dataclass(slots=True)
class Channel:
    """Registers and state of one channel."""

    number: int
    registers: dict[int, int] = field(default_factory=lambda: dict.fromkeys(PROTECTED, 0))
    flags: int = 0
    enabled: bool = False
    requested: bool = False
    polls: int = 0  # reads of the status since the request
    wanted: int = 0  # of them before the transfer is complete

    @property
    def setup(self) -> Setup:
        """The registers of the block that is next."""
        return Setup(*(self.registers[r] for r in BLOCK))


class Mdma:
    """The controller. clocked: whether its clock runs. cached: whether the core caches an address.
    maintained: lines of the data cache cleaned since the last start. ordered: the core has executed
    a DSB since it wrote a register, so that everything it wrote before has arrived.
    """

    def __init__(
        self,
        memories: Memories,
        clocked: Callable[[], bool],
        cached: Callable[[int], bool],
        maintained: set[int],
        seed: int = 1,
        one_read: Callable[[], bool] = lambda: True,
    ) -> None:
        self.memories = memories
        self.channels = [Channel(n) for n in range(CHANNELS)]
        self.transfers = 0
        self.ordered = False
        self._clocked, self._cached = clocked, cached
        self._maintained = maintained
        self._one_read = one_read
        self._random = np.random.default_rng(seed)

    # -- registers ----------------------------------------------------------------------------

    def read(self, offset: int, size: int) -> int:
        """Return the register at ``offset`` bytes from the base of the MDMA; raises ChipFault."""
        channel, register = self._locate(offset, size, "read")
        if register == ISR:
            return self._status(channel)
        if register == CR:
            return EN if channel.enabled else 0
        if register == IFCR:
            raise ChipFault(f"channel {channel.number}: the flag clear register is write-only")
        return channel.registers.get(register, 0)

    def write(self, offset: int, size: int, value: int) -> None:
        """Write the register at ``offset`` bytes from the base of the MDMA; raises ChipFault."""
        channel, register = self._locate(offset, size, "written")
        try:
            self._write(channel, register, value)
        finally:
            self.ordered = False

    def _write(self, channel: Channel, register: int, value: int) -> None:
        if register in PROTECTED:
            if channel.enabled:
                raise ChipFault(
                    f"channel {channel.number}: register {register:#04x} is written while the "
                    "channel is enabled (EN = 1); the write is lost"
                )
            channel.registers[register] = value
        elif register == IFCR:
            channel.flags &= ~value
        elif register == CR:
            self._control(channel, value)
        else:
            raise ChipFault(f"channel {channel.number}: register {register:#04x} is read-only")

    def _locate(self, offset: int, size: int, action: str) -> tuple[Channel, int]:
        if not self._clocked():
            raise ChipFault(f"MDMA register {offset:#05x} is {action}: its clock is off (RCC)")
        number, register = divmod(offset - FIRST_CHANNEL, CHANNEL_BYTES)
        if size != 4 or register % 4 or not 0 <= number < CHANNELS:
            raise ChipFault(f"MDMA register {offset:#05x} is {action} with {size} bytes")
        return self.channels[number], register

    def _control(self, channel: Channel, value: int) -> None:
        if value & EN and not channel.enabled:
            if channel.flags:
                raise ChipFault(
                    f"channel {channel.number} is enabled with stale flags {channel.flags:#04x}"
                )
            channel.enabled = True
            if value & SWRQ:
                raise ChipFault(
                    f"channel {channel.number}: the request is written together with EN; a channel "
                    "takes requests once it is enabled"
                )
            return
        if not value & EN:
            if channel.requested:  # the transfer ends with the current buffer
                channel.requested = False
                channel.flags |= CTCIF
            channel.enabled = False
            if value & SWRQ:
                raise ChipFault(f"channel {channel.number}: request on a disabled channel")
            return
        if value & SWRQ:
            self._request(channel)

    def _request(self, channel: Channel) -> None:
        if channel.requested:
            raise ChipFault(f"channel {channel.number}: request while it transfers")
        if not channel.setup.software:
            raise ChipFault(f"channel {channel.number}: SWRM = 0, software requests are ignored")
        if not self.ordered:
            raise ChipFault(
                f"channel {channel.number} is started without a DSB in front: what the core wrote "
                "may still be on its way"
            )
        for setup in self._blocks(channel):
            self._check(channel, setup)
        self._maintained.clear()
        channel.requested = True
        channel.polls = 0
        channel.wanted = int(self._random.integers(1, MOST_POLLS + 1))
        self.transfers += 1

    def _status(self, channel: Channel) -> int:
        if channel.requested:
            channel.polls += 1
            if channel.polls > channel.wanted:
                self._transfer(channel)
        elif not channel.flags & CTCIF:
            channel.polls += 1
            if channel.polls > ENDLESS:
                raise ChipFault(
                    f"channel {channel.number} is polled and nothing is in flight: TRGM does not "
                    "cover what is programmed, or nothing was requested"
                )
        return channel.flags | (CRQA if channel.requested else 0)

    # -- transfers ----------------------------------------------------------------------------

    def _blocks(self, channel: Channel) -> Iterator[Setup]:
        """Yield the (repeated) blocks of the channel: its registers, then those of its list."""
        setup = channel.setup
        for _ in range(1 << 16):
            yield setup
            if setup.lar == 0:
                return
            setup = self._node(channel, setup.lar)
        raise ChipFault(f"channel {channel.number}: its linked list has no end")

    def _node(self, channel: Channel, address: int) -> Setup:
        if address % 8:
            raise ChipFault(
                f"channel {channel.number}: link address {address:#010x} is no multiple of 8"
            )
        region = self.memories.region(address, 40, f"channel {channel.number}: linked list")
        if region.tcm:
            raise ChipFault(
                f"channel {channel.number}: link address {address:#010x} lies in {region.name}; "
                "the MDMA fetches lists over AXI"
            )
        clean = not self._cached(address) or self._lines(address, 40) <= self._maintained
        if not clean and not channel.requested:  # looked at when the transfer is requested
            raise ChipFault(
                f"channel {channel.number}: the list at {address:#010x} is cached and was not "
                "cleaned"
            )
        words = self.memories.view(address, 40, "linked list").view("<u4")
        values = {name: int(word) for name, word in zip(NODE, words, strict=True) if name}
        return Setup(*(values[r] for r in BLOCK))

    def _check(self, channel: Channel, setup: Setup) -> None:
        """Raise ChipFault for a block that the manual does not allow."""
        who = f"channel {channel.number}"
        source, destination = setup.side(True), setup.side(False)
        if not 1 <= setup.block_bytes <= 65536:
            raise ChipFault(f"{who}: blocks of {setup.block_bytes} bytes; 1 to 65536 are possible")
        if setup.trigger != channel.setup.trigger or not setup.software:
            raise ChipFault(f"{who}: TRGM and SWRM change within a linked list")
        if source.width != destination.width and not setup.packed:
            raise ChipFault(f"{who}: widths differ and PKE = 0: data would be padded or cut")
        for side in (source, destination):
            self._check_side(who, setup, side)

    def _check_side(self, who: str, setup: Setup, side: Side) -> None:
        what = f"{who}, {side.name} {side.address:#010x}"
        region = self._region(setup, side, what)
        if side.name == "destination" and not region.writable:
            raise ChipFault(f"{what}: {region.name} is read-only")
        if region.one_read and side.name == "source" and not self._one_read():
            raise ChipFault(
                f"{what}: the interconnect of revision Y has several reads of AXI SRAM under way, "
                "which may return wrong data (ES0392, 2.2.9)"
            )
        if region.tcm != side.tcm:
            bus = "TCM port" if side.tcm else "AXI bus"
            raise ChipFault(f"{what} lies in {region.name}, the {bus} is selected")
        if side.tcm and side.width > 4:
            raise ChipFault(f"{what}: {8 * side.width} bits, the TCM port has 32")
        if side.step != INCREMENT:
            raise ChipFault(f"{what}: the address does not count upwards")
        if side.increment != side.width:
            raise ChipFault(f"{what}: elements of {side.width} B, steps of {side.increment} B")
        if side.address % side.width or (setup.blocks > 1 and side.offset % side.width):
            raise ChipFault(f"{what}, offset {side.offset}: no multiple of {side.width} B")
        if setup.block_bytes % side.width or setup.buffer_bytes % side.width:
            raise ChipFault(
                f"{what}: blocks of {setup.block_bytes} B in buffers of {setup.buffer_bytes} B are "
                f"no multiples of {side.width} B"
            )
        if side.burst > 1 and side.burst * side.width >= setup.buffer_bytes:
            raise ChipFault(
                f"{what}: a burst of {side.burst} x {side.width} B is not shorter than a buffer of "
                f"{setup.buffer_bytes} B"
            )
        if self._cached(side.address):
            lines: set[int] = set()
            for block in range(setup.blocks):
                at = side.address + block * (setup.block_bytes + side.offset)
                lines |= self._lines(at, setup.block_bytes)
            if not region.tcm and region.writable and not lines <= self._maintained:
                raise ChipFault(
                    f"{what}: the data cache holds {region.name}, and lines of it were not cleaned "
                    "before the start"
                )

    def _region(self, setup: Setup, side: Side, what: str) -> Region:
        """Return the memory that holds all that one side of a repeated block touches."""
        stride = setup.block_bytes + side.offset
        last = side.address + (setup.blocks - 1) * stride
        low, high = min(side.address, last), max(side.address, last) + setup.block_bytes
        return self.memories.region(low, high - low, what)

    @staticmethod
    def _lines(address: int, bytes_: int) -> set[int]:
        return set(range(address & ~31, address + bytes_, 32))

    def _transfer(self, channel: Channel) -> None:
        """Move what the request covers."""
        trigger = channel.setup.trigger
        if trigger in (TRGM_BUFFER, TRGM_BLOCK):
            self._partly(channel, trigger)
            return
        for count, setup in enumerate(self._blocks(channel)):
            if count and trigger == TRGM_REPEATED:
                self._reload(channel, setup)
                channel.requested = False
                channel.flags |= BRTIF | BTIF | TCIF
                return
            self._move(setup)
        self._complete(channel)

    def _partly(self, channel: Channel, trigger: int) -> None:
        """Move one buffer or one block; the rest needs further requests."""
        setup = channel.setup
        most = setup.block_bytes
        if trigger == TRGM_BUFFER:
            most = min(most, setup.buffer_bytes)
        rest = setup.block_bytes - most
        one = Setup(setup.tcr, most, setup.sar, setup.dar, 0, 0, setup.tbr)
        self._move(one)
        if rest == 0 and setup.blocks == 1 and setup.lar == 0:
            self._complete(channel)
            return
        channel.requested = False
        channel.polls = 0
        channel.flags |= TCIF | (BTIF if rest == 0 else 0)

    def _reload(self, channel: Channel, setup: Setup) -> None:
        channel.registers.update(zip(BLOCK, astuple(setup), strict=True))

    def _complete(self, channel: Channel) -> None:
        channel.requested = channel.enabled = False
        channel.flags |= CTCIF | BRTIF | BTIF | TCIF

    def _move(self, setup: Setup) -> None:
        source, destination = setup.side(True), setup.side(False)
        size = setup.block_bytes
        for block in range(setup.blocks):
            from_ = source.address + block * (size + source.offset)
            to = destination.address + block * (size + destination.offset)
            data = self.memories.view(from_, size, "MDMA reads")
            self.memories.view(to, size, "MDMA writes")[:] = data

    # -- for the runner -----------------------------------------------------------------------

    def require_idle(self, when: str, ahead: Sequence[range] = ()) -> None:
        """Raise ChipFault when a channel is enabled: somebody has not waited.

        ahead: addresses to which a transfer brings what a later layer, or a later part, waits for.
        Transfers from and to a RAM outside of the chip may outlive a layer.
        """
        outside = self.memories.outside
        busy = [
            c
            for c in self.channels
            if c.enabled
            and not any(c.setup.dar in addresses for addresses in ahead)
            and not (outside(c.setup.sar) or outside(c.setup.dar))
        ]
        if busy:
            setup = busy[0].setup
            raise ChipFault(
                f"{when}: channel {busy[0].number} was not waited for, from {setup.sar:#010x} to "
                f"{setup.dar:#010x}"
            )
