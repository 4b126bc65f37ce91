"""The registers of the MDMA, and what those of a channel say (RM0433, section 14)."""

from __future__ import annotations

from dataclasses import dataclass

CHANNELS = 16
FIRST_CHANNEL = 0x40
CHANNEL_BYTES = 0x40

ISR, IFCR, ESR, CR, TCR, BNDTR, SAR, DAR, BRUR, LAR, TBR = range(0x00, 0x2C, 4)
MAR, MDR = 0x30, 0x34
#: The registers of one block, in the order of the fields of a :class:`Setup`.
BLOCK = (TCR, BNDTR, SAR, DAR, BRUR, LAR, TBR)
#: Not to be written while the channel is enabled.
PROTECTED = (*BLOCK, MAR, MDR)
#: What a node of a linked list holds, word by word; one word is not used.
NODE = (*BLOCK, None, MAR, MDR)

TEIF, CTCIF, BRTIF, BTIF, TCIF, CRQA = (1 << bit for bit in (0, 1, 2, 3, 4, 16))
EN, SWRQ = 1 << 0, 1 << 16
INCREMENT = 2
TRGM_BUFFER, TRGM_BLOCK, TRGM_REPEATED, TRGM_ALL = range(4)


def _bits(value: int, low: int, count: int) -> int:
    return value >> low & ((1 << count) - 1)


@dataclass(frozen=True, slots=True)
class Setup:
    """The registers of a channel for one (repeated) block, decoded."""

    tcr: int
    bndtr: int
    sar: int
    dar: int
    brur: int
    lar: int
    tbr: int

    @property
    def block_bytes(self) -> int:
        """Bytes of one block."""
        return _bits(self.bndtr, 0, 17)

    @property
    def blocks(self) -> int:
        """Blocks of the repetition."""
        return _bits(self.bndtr, 20, 12) + 1

    @property
    def buffer_bytes(self) -> int:
        """Bytes of a buffer transfer."""
        return _bits(self.tcr, 18, 7) + 1

    @property
    def trigger(self) -> int:
        """What one request transfers (TRGM)."""
        return _bits(self.tcr, 28, 2)

    @property
    def software(self) -> bool:
        """Requests come from software (SWRM)."""
        return bool(_bits(self.tcr, 30, 1))

    @property
    def packed(self) -> bool:
        """Data of different widths are packed (PKE)."""
        return bool(_bits(self.tcr, 25, 1))

    def side(self, source: bool) -> Side:
        """Return the source's or the destination's half of the registers."""
        n = 0 if source else 1
        offset = _bits(self.brur, 16 * n, 16)
        return Side(
            name="source" if source else "destination",
            address=self.sar if source else self.dar,
            step=_bits(self.tcr, 2 * n, 2),
            width=1 << _bits(self.tcr, 4 + 2 * n, 2),
            increment=1 << _bits(self.tcr, 8 + 2 * n, 2),
            burst=1 << _bits(self.tcr, 12 + 3 * n, 3),
            tcm=bool(_bits(self.tbr, 16 + n, 1)),
            offset=-offset if _bits(self.bndtr, 18 + n, 1) else offset,
        )


@dataclass(frozen=True, slots=True)
class Side:
    """Source or destination. width, increment: bytes. burst: beats. tcm: the bus bit.

    offset: added to the address at the end of a block of a repetition.
    """

    name: str
    address: int
    step: int
    width: int
    increment: int
    burst: int
    tcm: bool
    offset: int
