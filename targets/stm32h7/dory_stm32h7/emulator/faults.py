"""What the emulated chip reports when a program breaks one of its rules."""

from __future__ import annotations


class ChipFault(Exception):
    """A rule of the chip was broken; the message names the rule and the numbers."""
