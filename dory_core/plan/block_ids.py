"""Identities of blocks of memory: what a block holds, and its name in documents."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class BlockKind(StrEnum):
    """What a block of memory holds. In brackets: the numbers in the index of its identity.

    Attributes:
        WHOLE: A tensor from its writer on.
        BACK: A spilled tensor that has been fetched back.
        STRIPE: A stripe of a tensor that a layer writes (number of the stripe).
        ROLLING: The rolling buffer of a tensor between layers of a fused chain.
        CHAIN: All rolling buffers of a fused chain, named after the tensor of the first one.
        WINDOW: Rows of a tensor in L3 that a layer reads (layer, operand, number of the visit).
        CHUNK: Constants of a layer that are fetched together (layer, group of channels; and the
            part, where an earlier part of the layer has fetched this group before).
        TABLE: All constants of a layer (layer).
        BORDER: All inputs of the network, or all outputs, which the caller hands over together.
        STATE: The table of initial states.
        BUFFER: A buffer of a layer's tiles in L1 (layer, number of the copy).
        BUFFERS: All copies of a buffer of a layer's tiles in L1 (position of the layer).
        RESIDENT: A tensor in L1 while a layer runs (layer).
    """

    WHOLE = "whole"
    BACK = "back"
    STRIPE = "stripe"
    ROLLING = "rolling"
    CHAIN = "chain"
    WINDOW = "window"
    CHUNK = "chunk"
    TABLE = "table"
    BORDER = "border"
    STATE = "state"
    BUFFER = "buffer"
    BUFFERS = "buffers"
    RESIDENT = "resident"


@dataclass(frozen=True, slots=True)
class BlockId:
    """The identity of a block of memory.

    Blocks are in the order of their names, so that plans do not depend on how identities hash.

    Attributes:
        tensor: The name of the tensor, of the buffer, or of the data in the block.
        kind: What of it the block holds.
        index: The numbers that tell blocks of one kind apart.
        text: The name in documents and messages.
    """

    tensor: str
    kind: BlockKind = BlockKind.WHOLE
    index: tuple[int, ...] = ()
    text: str = field(init=False, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", _text(self.tensor, self.kind, self.index))
        # Packing looks blocks up some million times: the hash is computed once.
        object.__setattr__(self, "_hash", hash((self.tensor, self.kind, self.index)))

    def __hash__(self) -> int:
        return self._hash

    def __lt__(self, other: BlockId) -> bool:
        return self.text < other.text

    def __str__(self) -> str:
        return self.text

    @property
    def is_whole(self) -> bool:
        """Whether the block holds a tensor as a whole, from its writer on or fetched back."""
        return self.kind in (BlockKind.WHOLE, BlockKind.BACK)


def chunk_id(layer: int, group: int, *part: int) -> BlockId:
    """Return the block of a group of constants that is fetched.

    Args:
        layer: The index of the layer.
        group: The number of the group of channels.
        part: The part that it is fetched for, where an earlier part has fetched it before.
    """
    return BlockId(_CONSTANTS, BlockKind.CHUNK, (layer, group, *part))


def buffers_id(layer: int, name: str) -> BlockId:
    """Return the block of all copies of a buffer of a layer in L1."""
    return BlockId(name, BlockKind.BUFFERS, (layer,))


def table_id(layer: int) -> BlockId:
    """Return the block of all constants of a layer."""
    return BlockId(_CONSTANTS, BlockKind.TABLE, (layer,))


def stripe_id(tensor: str, number: int) -> BlockId:
    """Return the block of a stripe that a layer writes."""
    return BlockId(tensor, BlockKind.STRIPE, (number,))


_CONSTANTS = "weights"


def _text(tensor: str, kind: BlockKind, index: tuple[int, ...]) -> str:
    """Return the name of a block in documents and messages."""
    match kind:
        case BlockKind.BACK:
            return f"{tensor}.back"
        case BlockKind.STRIPE:
            return f"{tensor}.{index[0]}"
        case BlockKind.ROLLING:
            return f"{tensor}.rows"
        case BlockKind.CHAIN:
            return f"{tensor}.chain"
        case BlockKind.WINDOW:
            layer, operand, number = index
            return f"{tensor}>{layer:02d}.{operand}.{number}"
        case BlockKind.CHUNK | BlockKind.TABLE:
            layer, *numbers = index
            return ".".join((f"{tensor}_{layer:02d}", *map(str, numbers)))
        case BlockKind.BUFFER:
            layer, copy = index
            return f"layer_{layer:02d}.{tensor}.{copy}"
        case BlockKind.BUFFERS:
            return f"layer {index[0]}, {tensor}"
        case BlockKind.RESIDENT:
            return f"layer_{index[0]:02d}.{tensor}"
        case _:
            return tensor
