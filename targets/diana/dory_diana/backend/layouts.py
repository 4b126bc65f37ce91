"""Layouts of activations (docs/contract.md, "Layouts of activations")."""

from __future__ import annotations

from dataclasses import replace

from dory_core.api import Layout

#: What an array leaves in the padding is junk; what it reads there does not matter.
DIGITAL = Layout(
    "digital",
    channel_block=1,
    channel_multiple=16,
    width_multiple=16,
    reversed_bytes=4,
    clean=False,
)
#: For windows that reach the columns after the image.
DIGITAL_CLEAN = replace(DIGITAL, clean=True)
DIGITAL_VECTOR = Layout("digital vector", channel_multiple=16, reversed_bytes=4, clean=False)
ANALOG = Layout("analog", channel_multiple=64, clean=False)
