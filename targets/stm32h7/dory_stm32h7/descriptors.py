"""What the driver of the MDMA needs for the copies of a network: channels, and nodes of lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dory_core.api import Application, CopyShape

# Bytes of a node of a linked list, and nodes of a list at most: longer copies go on when they are
# waited for.
NODE_BYTES = 40
# Variables of the driver: a job for each channel, and three words.
DRIVER_BYTES = 16 * 56 + 12
MOST_NODES = 24
# What one block of the MDMA moves at most, and how often it is repeated.
_MOST_BLOCK = 65536
_MOST_BLOCKS = 4096
_MOST_OFFSET = 65535
# Copies that are under way at once: of both inputs, constants, two outputs and the next layer's
# constants. More where copies share a ticket, or move between L3 and L2.
_FEW, _ALL = 0x00FF, 0xFFFF


def channels(app: Application) -> int:
    """Return the channels that a network takes, as bits."""
    several = app.uses_l3 or any(copy.count > 1 for copy in app.copies)
    return _ALL if several else _FEW


def list_nodes(app: Application) -> int:
    """Return the nodes in the list of a channel. Copies between L3 and L2 are not looked at."""
    if app.uses_l3:
        return MOST_NODES
    return min(MOST_NODES, max((_blocks(copy) - 1 for copy in app.copies), default=0))


def list_bytes(app: Application) -> int:
    """Return the bytes of all lists."""
    return list_nodes(app) * NODE_BYTES * channels(app).bit_count()


def _blocks(copy: CopyShape) -> int:
    """Return the repeated blocks of a copy; ragged tiles have no more."""
    row, rows, planes = copy.row_bytes, copy.rows, copy.planes
    if planes > 1 and copy.strides[1] == rows * copy.strides[0]:
        rows, planes = rows * planes, 1
    if rows > 1 and copy.strides[0] == row:
        row, rows = row * rows, 1
    rows, planes = max(rows, planes), min(rows, planes)
    if row > _MOST_BLOCK or (rows > 1 and max(copy.strides) - row > _MOST_OFFSET):
        return rows * planes * -(-row // _MOST_BLOCK)
    return planes * -(-rows // _MOST_BLOCKS)
