"""Memory hierarchy of a target, as data.

Level 1 is nearest to the cores. The core knows no chip: everything here comes from target plugins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dory_core.errors import require
from dory_core.hardware.caches import Cache, InstructionCache
from dory_core.hardware.code_sizes import CodeSizes
from dory_core.hardware.links import Link

# Widths of elements in memory. Those below 8 are packed along the channels of a pixel.
STORAGE_BITS = (2, 4, 8, 16, 32)


# There are budgets for four levels, and nothing moves to a fifth one.
MOST_LEVELS = 4
# Buffers in L1 start on multiples of it.
BUFFER_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class Memory:
    """One physical memory.

    Attributes:
        name: Name of the memory, for messages.
        size_bytes: Size of the memory on the chip.
        reserved_bytes: Bytes for stacks, code and heap, which the network cannot use.
        holds: Roles of the blocks in this memory: ``activations``, ``weights``, ``code``, or a role
            that a kernel names (``Traits.fetches``). Calls of kernels fill a memory of level 1 with
            such a role, which is not part of a budget.
        alignment_bytes: Alignment of every block.
        mapped: True for a memory that cores and DMA read directly and that is not written at run
            time. Constants are linked there and loaded into L1 without a copy in a level between.
        read_only: True for a memory that transfers only read. It holds the constants of networks
            for which the level's other memories are too small, and is not part of a budget.
        code_bytes_per_layer: Bytes of code in this memory in addition to ``reserved_bytes``: of
            each layer, and of a layer whose data is streamed from the next level.
        code_bytes_per_row: The same for a layer that shares the function of another layer: its row
            of the function's table, its call and its transfers. None for as much as other layers.
        code: How the code of a plan is counted, to check the planner's estimate; the two numbers
            above are this estimate.
        access_cycles: Cycles that a core waits for its own load or store without a cache hit,
            beyond an access to L1.
        line_cycles: Cycles that a core waits while its cache fills a line.
        remedy: Way out for networks that need more of this memory than there is, in the imperative,
            for hints of messages: an option of the target.
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
    remedy: str = ""

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
    """A memory level: one or several memories; several of one role are bins.

    Attributes:
        number: 1 for L1, next to the cores, and so on.
        memories: In the order in which they are filled.
    """

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
        """Bytes on the chip, without memories that are read-only or hold a role of kernels."""
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
        """Return the memory that kernels fill with blocks of a role, None when there is none."""
        return next((m for m in self.apart if role in m.holds), None)

    @property
    def remedy(self) -> str:
        """Way out for networks that need more of this level, empty where the target has none."""
        return next((m.remedy for m in self.memories if m.remedy), "")

    @property
    def code(self) -> CodeSizes | None:
        """How the code in this level is counted; None where it is not."""
        return next((m.code for m in self.memories if m.code is not None), None)

    def room_bytes(self, layers: int, streamed: bool = False, functions: int | None = None) -> int:
        """Return the bytes for data of a network in addition to its code, without kernels.

        Args:
            layers: Number of layers.
            streamed: True when data is streamed from the next level.
            functions: Number of functions that the layers run; None when each has its own.
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
        """Bytes of the memories that hold only constants."""
        return sum(m.usable_bytes for m in self.memories if m.read_only)


@dataclass(frozen=True, slots=True)
class MemoryHierarchy:
    """Levels from the nearest to the cores outwards, the links between them, and the cores.

    Attributes:
        levels: The levels, from 1 outwards.
        links: The links between neighbouring levels.
        in_place: True when no layer is tiled: kernels work on tensors in L2 and on linked
            constants, and L1 holds their scratch memory. ``Traits.in_place`` is the same for a
            single kernel.
        cache: Cache of the cores between kernels that work in place and L2, None without a cache.
        cores: Number of cores that run kernels (SPMD).
        barrier_cycles: Cycles of a barrier of the cores.
        peak_macs_per_cycle: Upper bound of the rate of all cores together, 0 when it is not known.
        storage_bits: Widths in which activations may be stored, from STORAGE_BITS in rising order,
            at most 32. A target whose kernels profit from whole bytes omits 2 and 4.
        channel_multiple: Divisor of the number of channels that remain when channels with constant
            values are removed. For elements narrower than a byte it counts bytes.
        layer_cycles: Cycles of a tiled layer in addition to its tiles: its function is entered, and
            fetched when the instruction cache has something else.
        step_cycles: Cycles of a tile in addition to kernel, barriers and transfers, for example for
            instructions that are not in the cache.
        conversion_cycles: Cycles of the cores per element that a conversion between layouts copies.
            A copy with padding is zeroed first, in a cycle per byte.
        smaller_l1: Bytes of L1, rising, within which fully connected layers are planned as well
            where the cores wait for their constants: all within the most, and each within those
            with which it is fastest.
        resident_l1: True when a tensor that is whole in L1 stays resident for its readers
            (``dory_core.planning.residence``).
        engine_peaks: Name and upper bound in MACs per cycle of each engine of kernels.
        far_link: Link that loads constants from the second memory of their level, for layers
            whose constants the first one has no room for. None where one memory has all constants.
        keeps_binary32: True when kernels get requantisations in binary32 unchanged, and compute
            them in a floating-point unit or find integers themselves. Otherwise kernels get
            integers where there are any.
        instructions: Cache of instructions whose misses tiles are charged for, None without.
        network_cycles: Cycles of an inference outside of its layers: the cores are called and
            meet, and code that runs once is fetched.
        one_memory: True when L1 and L2 are shares of one memory: L1 is the scratch memory of
            kernels, which work in place, and L2 is the rest. A single level without links implies
            it. A target with further levels sets it, with the same memory as level 1 and level 2.
    """

    levels: tuple[Level, ...]
    links: tuple[Link, ...]
    cores: int = 1
    peak_macs_per_cycle: float = 0.0
    storage_bits: tuple[int, ...] = STORAGE_BITS
    channel_multiple: int = 4
    in_place: bool = False
    layer_cycles: int = 0
    step_cycles: int = 0
    cache: Cache | None = None
    conversion_cycles: float = 0.0
    barrier_cycles: int = 0
    smaller_l1: tuple[int, ...] = ()
    resident_l1: bool = False
    engine_peaks: tuple[tuple[str, float], ...] = ()
    one_memory: bool = False
    keeps_binary32: bool = False
    far_link: Link | None = None
    instructions: InstructionCache | None = None
    network_cycles: int = 0

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
        """Split the only level into two: scratch memory, and the rest."""
        only = self.levels[0]
        require(
            self.in_place,
            "kernels work in place on a chip with one level of memory: say so with in_place=True",
        )
        require(
            len(only.memories) == 1 and not self.links,
            "a chip with one level has one memory there and no links",
        )
        shares = (replace(only, number=1), replace(only, number=2))
        between = Link(1, 2, setup_cycles=0, bytes_per_cycle=1.0, dma=False)
        for name, value in (("levels", shares), ("links", (between,)), ("one_memory", True)):
            object.__setattr__(self, name, value)

    def level(self, number: int) -> Level:
        """Return the level with this number.

        Raises:
            KeyError: When there is none.
        """
        for level in self.levels:
            if level.number == number:
                return level
        raise KeyError(number)

    @property
    def constants_level(self) -> int:
        """The level into which constants are linked: the first mapped level, else L2."""
        for level in self.levels:
            if any(m.mapped and "weights" in m.holds for m in level.memories):
                return level.number
        return 2

    @property
    def constants_memories(self) -> tuple[Memory, ...]:
        """The memories into which constants are linked, the first one before the others."""
        memories = self.level(self.constants_level).memories
        return memories if self.far_link is not None else memories[:1]

    @property
    def constants_link(self) -> Link:
        """The link that loads constants into L1, of the first memory where there are two."""
        return self.link(self.constants_level - 1)

    def constants_link_of(self, far: bool) -> Link:
        """Return the link that loads constants into L1. far: from the second memory."""
        return self.far_link if far and self.far_link is not None else self.constants_link

    def link(self, upper: int) -> Link:
        """Return the link between level ``upper`` and ``upper + 1``.

        Raises:
            KeyError: When there is none.
        """
        for link in self.links:
            if link.upper == upper:
                return link
        raise KeyError(upper)
