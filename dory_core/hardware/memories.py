"""Memory hierarchy and links of a target, as data.

Level 1 is nearest to the cores. The core knows no chip: everything here comes from target plugins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dory_core.hardware.code_sizes import CodeSizes

# Widths of elements in memory. Those below 8 are packed along the channels of a pixel.
STORAGE_BITS = (2, 4, 8, 16, 32)


# Arenas start on multiples of it (DORY_ARENA_ALIGN), so no link can ask for more.
MOST_ALIGNMENT = 16
# A fifth level has no budget and nothing that would move to it.
MOST_LEVELS = 4
# Buffers in L1 start on multiples of it.
BUFFER_ALIGNMENT = 8


def require(holds: object, otherwise: str) -> None:
    """Raise ValueError, which names the plugin's hook that made a record, unless it is sound."""
    if not holds:
        raise ValueError(otherwise)


@dataclass(frozen=True, slots=True)
class Memory:
    """One physical memory.

    Attributes:
        size_bytes: What the chip has.
        reserved_bytes: Taken by stacks, code, heap; not for the network.
        holds: Roles, of ``activations``, ``weights``, ``code``, or one that a kernel names
            (``Traits.fetches``): such a memory of level 1 is filled by calls of kernels and is no
            part of a budget.
        alignment_bytes: Every block starts on a multiple of it.
        mapped: Cores and DMA read it like any other memory, and nobody writes it at run time:
            constants are linked there and are loaded into L1 from there, without a copy in the
            level between.
        read_only: Transfers read it alone; it holds the constants of networks for which the level's
            other memories are too small, and is no part of a budget.
        code_bytes_per_layer: Code of each layer of a network that lies here too, beyond what is
            reserved; and that of a layer whose data is streamed from the level below.
        code_bytes_per_row: Likewise of a layer that runs the function of another one: its row of
            that function's table, its call and its transfers; None: as much as of a layer of its
            own.
        code: How the code of a plan is counted: what the planner takes for granted is checked then,
            the other numbers are its guess.
        access_cycles: What a core waits for a load or store of its own that no cache answers,
            beyond an access to L1.
        line_cycles: What it waits for a line that its cache fills.
    """

    name: str
    size_bytes: int
    reserved_bytes: int = 0
    holds: frozenset[str] = frozenset({"activations", "weights"})
    alignment_bytes: int = 8
    mapped: bool = False
    read_only: bool = False
    code_bytes_per_layer: tuple[int, int] = (0, 0)
    code_bytes_per_row: tuple[int, int] | None = None
    code: CodeSizes | None = None
    access_cycles: float = 0.0
    line_cycles: float = 0.0

    def __post_init__(self) -> None:
        sizes = (self.size_bytes, self.reserved_bytes)
        whole = all(isinstance(size, int) and size >= 0 for size in sizes)
        require(whole, f"memory {self.name}: sizes are whole numbers of bytes, not {sizes}")
        require(
            self.reserved_bytes <= self.size_bytes,
            f"memory {self.name}: {self.reserved_bytes} of its {self.size_bytes} B are reserved",
        )
        unit = self.alignment_bytes
        require(
            unit > 0 and unit & (unit - 1) == 0,
            f"memory {self.name}: alignment_bytes {unit} is no power of two",
        )

    @property
    def usable_bytes(self) -> int:
        """Bytes that a network can use by default."""
        return self.size_bytes - self.reserved_bytes


@dataclass(frozen=True, slots=True)
class Level:
    """A memory level: one or several memories; several of one role are bins."""

    number: int
    memories: tuple[Memory, ...]

    def __post_init__(self) -> None:
        names = {memory.name for memory in self.memories}
        require(names, f"level {self.number} has no memory")
        require(len(names) == len(self.memories), f"level {self.number}: memories share their name")

    @property
    def name(self) -> str:
        """``L1``, ``L2``, ..."""
        return f"L{self.number}"

    @property
    def size_bytes(self) -> int:
        """Bytes that the chip has, memories for constants or one role alone apart."""
        return sum(m.size_bytes for m in self.memories if self._is_budgeted(m))

    def _is_budgeted(self, memory: Memory) -> bool:
        return not memory.read_only and memory not in self.apart

    @property
    def apart(self) -> tuple[Memory, ...]:
        """Memories of level 1 that hold no activations: kernels fill them."""
        if self.number != 1:
            return ()
        return tuple(m for m in self.memories if "activations" not in m.holds)

    def memory_for(self, role: str) -> Memory | None:
        """Return the memory that kernels fill with what has this role, None when there is none."""
        return next((m for m in self.apart if role in m.holds), None)

    @property
    def code(self) -> CodeSizes | None:
        """How the code of a plan is counted that lies here."""
        return next((m.code for m in self.memories if m.code is not None), None)

    def room_bytes(self, layers: int, streamed: bool = False, functions: int | None = None) -> int:
        """Bytes that the data of so many layers can use beside their code, kernels apart.

        functions: how many the layers run; None: each its own.
        """
        functions = layers if functions is None else functions
        own = sum(m.code_bytes_per_layer[streamed] for m in self.memories)
        row = sum((m.code_bytes_per_row or m.code_bytes_per_layer)[streamed] for m in self.memories)
        return self.usable_bytes - own * functions - row * (layers - functions)

    @property
    def usable_bytes(self) -> int:
        """Bytes of all memories of the level that a network can use by default."""
        return sum(m.usable_bytes for m in self.memories if self._is_budgeted(m))

    @property
    def read_only_bytes(self) -> int:
        """Bytes of the memories that hold constants alone."""
        return sum(m.usable_bytes for m in self.memories if m.read_only)


@dataclass(frozen=True, slots=True)
class Link:
    """A DMA path between two neighbouring memory levels.

    Attributes:
        upper, lower: Level numbers, upper is nearer to the cores.
        setup_cycles: Cost of one transfer from start until its wait returns, without data.
        issue_cycles: Part of it that the issuing core spends itself.
        bytes_per_cycle: Sustained rate once started.
        port_bytes_per_cycle: What the port of the lower memory carries, where that is less: it is
            busy for so long after the start, and neither the next transfer nor a core that waits
            gets through before; 0 where it holds up nobody.
        row_cycles: Extra cost of each row of a strided transfer.
        minimum_cycles: Shortest transfer.
        element_cycles: Cost per element of a transfer whose rows are single elements (layout
            change), 0 when it is no dearer than others.
        blocking: The issuing core waits for each transfer before it goes on, so nothing overlaps.
        alignment_bytes: Starts of rows on both sides and lengths of rows are multiples of it.
        max_bytes: Of one transfer, 0 without a limit.
        dimensions: 1 when a transfer is one row, 2 when it is rows at one pitch, 3 when it is
            planes of rows.
        dma: False when no DMA moves data over the link.
        core_cycles_per_byte: Of a copy by a core, which moves what the DMA cannot; 0 when the cores
            do not reach both levels, so that the DMA has to move everything.
            ``dory_core.hardware.copies`` decides by these fields how each copy is made.
    """

    upper: int
    lower: int
    setup_cycles: int
    bytes_per_cycle: float
    row_cycles: float = 0.0
    issue_cycles: int = 0
    minimum_cycles: int = 0
    element_cycles: float = 0.0
    alignment_bytes: int = 1
    max_bytes: int = 0
    blocking: bool = False
    dimensions: int = 3
    dma: bool = True
    core_cycles_per_byte: float = 1.0
    port_bytes_per_cycle: float = 0.0

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
        require(
            self.core_cycles_per_byte >= 0 and (self.dma or self.core_cycles_per_byte > 0),
            f"{what}: without a DMA core_cycles_per_byte is more than 0",
        )

    @property
    def is_plain(self) -> bool:
        """Whether its DMA moves every copy in one transfer, wherever it starts and ends."""
        return (self.alignment_bytes, self.max_bytes, self.dimensions, self.dma) == (1, 0, 3, True)

    @property
    def piece_bytes(self) -> int:
        """Bytes of the largest piece that a row is cut into; 0 without a limit."""
        return self.max_bytes // self.alignment_bytes * self.alignment_bytes

    def cycles(self, bytes_: int, rows: int = 1, single_elements: bool = False) -> float:
        """Return the cycles of one transfer of ``bytes_`` in ``rows`` rows."""
        data = self.data_cycles(bytes_, rows - 1, single_elements)
        return max(self.setup_cycles + data, self.minimum_cycles)

    @property
    def rate(self) -> float:
        """Bytes per cycle of transfers that follow one another."""
        return min(self.bytes_per_cycle, self.port_bytes_per_cycle or self.bytes_per_cycle)

    def data_cycles(self, bytes_: int, more_rows: int = 0, single_elements: bool = False) -> float:
        """Return the cycles of the data of a transfer, set-up apart.

        more_rows: rows beyond the first one of each command.
        """
        if single_elements and self.element_cycles:
            moved = bytes_ * self.element_cycles
        else:
            moved = bytes_ / self.bytes_per_cycle + more_rows * self.row_cycles
        return max(moved, bytes_ / self.rate)


@dataclass(frozen=True, slots=True)
class Cache:
    """The data cache of a core, between its kernels and the memories below L1."""

    size_bytes: int
    ways: int
    line_bytes: int

    @property
    def sets(self) -> int:
        """Sets of lines."""
        return self.size_bytes // (self.ways * self.line_bytes)


@dataclass(frozen=True, slots=True)
class MemoryHierarchy:
    """Levels from the nearest to the cores outwards, the links between them, and the cores.

    Attributes:
        in_place: No layer is tiled; kernels work on tensors in L2 and on linked constants, and L1
            holds their scratch memory. ``Traits.in_place`` says so of a single kernel.
        cache: What they work through then, None without a cache.
        cores: Number of cores that run kernels (SPMD).
        barrier_cycles: That they need to meet.
        peak_macs_per_cycle: What all cores together cannot exceed, 0 when it is not known.
        storage_bits: Widths in which activations may be stored, of STORAGE_BITS, rising and up to
            32. A target whose kernels are better off with whole bytes leaves 2 and 4 out.
        channel_multiple: Tensors that lose channels which cannot change keep a multiple of so many;
            of elements narrower than a byte, whole groups of so many bytes.
        step_cycles: What a tile costs beside kernel, barriers and transfers, such as instructions
            that are not in the cache.
        conversion_cycles: What the cores need per element that a conversion between layouts copies;
            a copy with padding is zeroed first, in a cycle per byte.
        resident_l1: A tensor stays in L1 for layers that have it there as a whole, where there is
            room (``dory_core.planning.residence``).
        engine_peaks: (name, MACs per cycle that it cannot exceed) of the engines of kernels.
        keeps_binary32: Requantisations in binary32 reach the kernels as they are, which compute
            them in a floating-point unit or look for integers themselves; others get integers where
            there are any.
        one_memory: L1 and L2 are shares of one memory: L1 is the scratch memory of kernels, which
            work in place, L2 what that leaves. It follows from a single level without links; who
            has levels below sets it, with the same memory as level 1 and level 2.
    """

    levels: tuple[Level, ...]
    links: tuple[Link, ...]
    cores: int = 1
    peak_macs_per_cycle: float = 0.0
    storage_bits: tuple[int, ...] = STORAGE_BITS
    channel_multiple: int = 4
    in_place: bool = False
    step_cycles: int = 0
    cache: Cache | None = None
    conversion_cycles: float = 0.0
    barrier_cycles: int = 0
    resident_l1: bool = False
    engine_peaks: tuple[tuple[str, float], ...] = ()
    one_memory: bool = False
    keeps_binary32: bool = False

    def __post_init__(self) -> None:
        if len(self.levels) == 1:
            self._share_the_only_level()
        if self.one_memory:
            require(self.in_place, "kernels work in place where L1 and L2 are one memory")
            one, other = (level.memories for level in self.levels[:2])
            require(one == other and len(one) == 1, "L1 and L2 of one memory name the same one")
        known = tuple(bits for bits in STORAGE_BITS if bits in self.storage_bits)
        require(
            self.storage_bits == known and known[-1:] == STORAGE_BITS[-1:],
            f"storage_bits {self.storage_bits}: rising widths of {STORAGE_BITS} up to 32",
        )
        require(self.channel_multiple > 0, f"channel_multiple {self.channel_multiple} is below 1")
        count = len(self.levels)
        require(
            count > 0 and [level.number for level in self.levels] == [*range(1, count + 1)],
            "levels are numbered 1, 2, ... in their order",
        )
        require(count <= MOST_LEVELS, f"there are at most {MOST_LEVELS} levels, not {count}")
        require(
            sorted(link.upper for link in self.links) == [*range(1, count)],
            f"each of the levels 1 to {count - 1} has one link to the next level",
        )
        for level in self.levels[:2]:
            holding = (m for m in level.memories if not m.mapped and not m.read_only)
            require(
                any("activations" in memory.holds for memory in holding),
                f"no memory of {level.name} holds activations",
            )
        require(self.cores > 0, f"{self.cores} cores run no kernels")
        for link in self.links:
            lower = self.level(link.lower)
            require(
                link.dma or link.upper == 1 or any(m.mapped for m in lower.memories),
                f"{lower.name} is reached by transfers alone, so the link to it has a DMA; where "
                "the HAL copies with a core, the link is blocking",
            )
        unit = max(self.link(1).alignment_bytes, self.constants_link.alignment_bytes)
        require(
            unit <= BUFFER_ALIGNMENT,
            f"a link to L1 needs alignment_bytes {unit}, buffers in L1 start on multiples of "
            f"{BUFFER_ALIGNMENT}",
        )

    def _share_the_only_level(self) -> None:
        """Make two levels of one: scratch memory, and all the rest."""
        only = self.levels[0]
        require(self.in_place, "kernels work in place on a chip with one level of memory")
        require(
            len(only.memories) == 1 and not self.links,
            "a chip with one level has one memory there and no links",
        )
        shares = (replace(only, number=1), replace(only, number=2))
        between = Link(1, 2, setup_cycles=0, bytes_per_cycle=1.0, dma=False)
        for name, value in (("levels", shares), ("links", (between,)), ("one_memory", True)):
            object.__setattr__(self, name, value)

    def level(self, number: int) -> Level:
        """Return the level with this number. Raises KeyError."""
        for level in self.levels:
            if level.number == number:
                return level
        raise KeyError(number)

    @property
    def constants_level(self) -> int:
        """The level that constants are linked into: the first mapped one, else L2."""
        for level in self.levels:
            if any(m.mapped and "weights" in m.holds for m in level.memories):
                return level.number
        return 2

    @property
    def constants_link(self) -> Link:
        """The link over which constants come into L1."""
        return self.link(self.constants_level - 1)

    def link(self, upper: int) -> Link:
        """Return the link between level ``upper`` and ``upper + 1``. Raises KeyError."""
        for link in self.links:
            if link.upper == upper:
                return link
        raise KeyError(upper)
