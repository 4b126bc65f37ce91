"""The link between two memory levels, as data: what its DMA moves, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass

from dory_core.errors import require

# Arenas start on multiples of it (DORY_ARENA_ALIGN), so no link can ask for more.
MOST_ALIGNMENT = 16

#: Bytes that a load by words asks for at once.
WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Link:
    """A DMA path between two neighbouring memory levels.

    Attributes:
        upper: Number of the level that is nearer to the cores.
        lower: Number of the other level.
        setup_cycles: Cost of one transfer from start until its wait returns, without data.
        issue_cycles: Part of it that the issuing core spends itself.
        plane_cycles: Cycles that it spends on each further plane of a transfer.
        bytes_per_cycle: Sustained rate once started.
        port_bytes_per_cycle: Rate of the lower memory's port, where that is lower. After the start
            the port is busy with the data at this rate, and delays the next transfer and a core
            that waits. 0 when it delays nothing.
        row_cycles: Extra cost of each row of a strided transfer.
        minimum_cycles: Cycles of the shortest transfer.
        element_cycles: Cost per element of a transfer whose rows are single elements (layout
            change), 0 when such a transfer costs no more than others.
        blocking: True when the issuing core waits for the end of each transfer, so that nothing
            overlaps.
        alignment_bytes: Divisor of the starts of rows at source and target, and of their lengths.
        max_bytes: Most bytes of a transfer, 0 without a limit.
        dimensions: 1 when a transfer is one row, 2 for rows at one pitch, 3 for planes of rows.
        dma: False when no DMA moves data over the link.
        core_cycles_per_byte: Cost of a copy by a core, which moves what the DMA cannot; 0 when the
            cores do not reach both levels, so that the DMA has to move everything.
            ``dory_core.hardware.copies`` uses these fields to decide how each copy is made.
        contention: Share of a transfer's time by which it delays a kernel that runs meanwhile: both
            want the banks of the upper memory.
        words_per_cycle: Words of four bytes per cycle of a load that asks for each word by itself,
            which lets other accesses to the lower memory through. 0 where no load does.
        least_words_per_cycle: The same where the lower memory answers late. Loads are by words only
            where a kernel hides them at this rate.
    """

    upper: int
    lower: int
    setup_cycles: int
    bytes_per_cycle: float
    row_cycles: float = 0.0
    issue_cycles: int = 0
    plane_cycles: int = 0
    minimum_cycles: int = 0
    element_cycles: float = 0.0
    alignment_bytes: int = 1
    max_bytes: int = 0
    blocking: bool = False
    dimensions: int = 3
    dma: bool = True
    core_cycles_per_byte: float = 1.0
    port_bytes_per_cycle: float = 0.0
    contention: float = 0.0
    words_per_cycle: float = 0.0
    least_words_per_cycle: float = 0.0

    def __post_init__(self) -> None:
        what = f"link of levels {self.upper} and {self.lower}"
        unit = self.alignment_bytes
        require(self.lower == self.upper + 1, f"{what}: they are no neighbours, upper first")
        require(self.bytes_per_cycle > 0, f"{what}: bytes_per_cycle is {self.bytes_per_cycle}")
        port = self.port_bytes_per_cycle
        require(port >= 0, f"{what}: port_bytes_per_cycle is {port}")
        require(
            unit > 0 and unit & (unit - 1) == 0 and unit <= MOST_ALIGNMENT,
            f"{what}: alignment_bytes {unit} is no power of two up to {MOST_ALIGNMENT}",
        )
        require(
            self.max_bytes == 0 or self.max_bytes >= unit,
            f"{what}: max_bytes {self.max_bytes} is less than alignment_bytes {unit}",
        )
        require(self.dimensions in (1, 2, 3), f"{what}: dimensions are 1, 2 or 3")
        slow = self.least_words_per_cycle
        require(
            self.words_per_cycle == 0 or (self.is_plain and 0 < slow <= self.words_per_cycle),
            f"{what}: words_per_cycle {self.words_per_cycle} wants a DMA that moves any rows, and "
            f"a least_words_per_cycle up to it, which is {slow}",
        )
        require(
            WORD_BYTES * self.words_per_cycle <= self.rate,
            f"{what}: words_per_cycle {self.words_per_cycle} is more than {self.rate} B/cycle",
        )
        require(
            self.core_cycles_per_byte >= 0 and (self.dma or self.core_cycles_per_byte > 0),
            f"{what}: without a DMA core_cycles_per_byte is more than 0",
        )

    @property
    def is_plain(self) -> bool:
        """True when the DMA moves every copy in one transfer, at any start and end."""
        return (self.alignment_bytes, self.max_bytes, self.dimensions, self.dma) == (1, 0, 3, True)

    @property
    def piece_bytes(self) -> int:
        """Most bytes of a piece of a row; 0 without a limit."""
        return self.max_bytes // self.alignment_bytes * self.alignment_bytes

    def cycles(self, bytes_: int, rows: int = 1, single_elements: bool = False) -> float:
        """Return the cycles of one transfer of ``bytes_`` in ``rows`` rows."""
        data = self.data_cycles(bytes_, rows - 1, single_elements)
        return max(self.setup_cycles + data, self.minimum_cycles)

    @property
    def rate(self) -> float:
        """Bytes per cycle of consecutive transfers."""
        return min(self.bytes_per_cycle, self.port_bytes_per_cycle or self.bytes_per_cycle)

    def data_cycles(self, bytes_: int, more_rows: int = 0, single_elements: bool = False) -> float:
        """Return the cycles of a transfer without its set-up.

        Args:
            bytes_: Bytes of the transfer.
            more_rows: Rows beyond the first row of each command.
            single_elements: True when the rows are single elements.
        """
        if single_elements and self.element_cycles:
            moved = bytes_ * self.element_cycles
        else:
            moved = bytes_ / self.bytes_per_cycle + more_rows * self.row_cycles
        return max(moved, bytes_ / self.rate)
