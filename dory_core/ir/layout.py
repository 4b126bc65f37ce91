"""How the elements of a tensor lie in memory, as data.

HWC is the layout of the network's input and output and of every kernel that says nothing else.
Others are for engines with layouts of their own: a kernel names them (``Traits.inputs``,
``Traits.output``), and the planner converts where producer and consumer differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.ir import Tensor, packing, pixel_bytes


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each element of a tensor lies.

    The element (c, h, w) of a tensor with H rows and Wp padded columns lies at byte
    ``((c // B * H + h) * Wp + w) * B + c % B`` before bytes are reversed, where B is the block, or
    the padded number of channels when that is 0. Layouts other than HWC take elements of 8 bits.

    Attributes:
        name: For reports.
        channel_block: Channels that lie together for each pixel, block after block; 1: planes
            (CHW); 0: all channels of a pixel (HWC).
        channel_multiple, width_multiple: Channels and columns are padded to multiples.
        reversed_bytes: Power of two: the size of the aligned groups in which bytes are reversed.
        clean: The padding is zero; else it holds anything.

    Raises:
        ValueError: For blocks that padding does not fill, or a row that ends inside a group.
    """

    name: str
    channel_block: int = 0
    channel_multiple: int = 1
    width_multiple: int = 1
    reversed_bytes: int = 1
    clean: bool = True

    def __post_init__(self) -> None:
        if self.channel_block < 0 or min(self._multiples) < 1:
            raise ValueError(f"layout {self.name}: sizes are positive")
        if self.reversed_bytes & (self.reversed_bytes - 1):
            raise ValueError(f"layout {self.name}: {self.reversed_bytes} bytes are no power of two")
        if self.channel_block and self.channel_multiple % self.channel_block:
            raise ValueError(f"layout {self.name}: channels are no multiple of its blocks")
        least = self.width_multiple * (self.channel_block or self.channel_multiple)
        if least % self.reversed_bytes:
            raise ValueError(f"layout {self.name}: rows end inside a group of reversed bytes")

    @property
    def _multiples(self) -> tuple[int, int, int]:
        return (self.channel_multiple, self.width_multiple, self.reversed_bytes)

    @property
    def is_hwc(self) -> bool:
        """Whether it is that of tensors everywhere else: HWC without padding."""
        return self.channel_block == 0 and self._multiples == (1, 1, 1)

    def padded_channels(self, channels: Any) -> Any:
        """Return the channels with padding; a number, an array or an expression."""
        multiple = self.channel_multiple
        return (channels + (multiple - 1)) // multiple * multiple if multiple > 1 else channels

    def padded_width(self, width: int) -> int:
        """Return the columns with padding."""
        return -(-width // self.width_multiple) * self.width_multiple

    def size_bytes(self, tensor: Tensor) -> int:
        """Return the bytes that a tensor takes."""
        if self.is_hwc:
            return tensor.size_bytes
        return int(self.box_bytes(tensor, tensor.channels, tensor.height))

    def box_bytes(self, tensor: Tensor, channels: Any, rows: Any) -> Any:
        """Return the bytes of whole rows of a tensor with a number of channels."""
        return self.padded_channels(channels) * self.padded_width(tensor.width) * rows

    def strides(self, tensor: Tensor) -> tuple[int, int, int]:
        """Return the bytes from pixel to pixel, from row to row, and from block to block.

        Blocks are those of channels; the last number is 0 without them.
        """
        channels = self.channel_block or int(self.padded_channels(tensor.channels))
        pixel = pixel_bytes(channels, tensor.bits)
        row = self.padded_width(tensor.width) * pixel
        return pixel, row, tensor.height * row if self.channel_block else 0

    def padding_bytes(self, tensor: Tensor) -> int:
        """Return how many bytes of a tensor are padding."""
        return 0 if self.is_hwc else self.size_bytes(tensor) - tensor.elements

    def serves(self, wanted: Layout, tensor: Tensor | None = None) -> bool:
        """Return True when what lies in this layout can be read as ``wanted``.

        Bytes lie at the same places, and the padding is zero where ``wanted`` says so.

        Args:
            wanted: The other layout.
            tensor: The tensor, where it is known: one that has no padding is always clean.
        """
        if self._where != wanted._where:
            return False
        if self.clean or not wanted.clean:
            return True
        return tensor is not None and self.padding_bytes(tensor) == 0

    @property
    def _where(self) -> tuple[int, ...]:
        return (self.channel_block, *self._multiples)

    def offsets(self, tensor: Tensor) -> npt.NDArray[np.int64]:
        """Return the byte of every element, shape (C, H, W).

        Raises:
            ValueError: For elements of other widths than 8 bits.
        """
        if tensor.bits != 8:
            raise ValueError(
                f"layout {self.name} takes elements of 8 bits, {tensor.name} has {tensor.bits}"
            )
        pixel, row, block = self.strides(tensor)  # elements of a byte: a pixel is its channels
        c, h, w = np.ogrid[: tensor.channels, : tensor.height, : tensor.width]
        flat = c // pixel * block + h * row + w * pixel + c % pixel
        return np.asarray(flat ^ (self.reversed_bytes - 1), dtype=np.int64)

    def pack(self, values: npt.NDArray[Any], tensor: Tensor) -> bytes:
        """Return the bytes of ``values``, shape (C, H, W), with padding of zeros.

        Raises:
            ValueError: When the shape differs or a value does not fit.
        """
        flat = packing.pack(np.asarray(values).transpose(1, 2, 0), tensor)
        if self.is_hwc:
            return flat
        offsets = self.offsets(tensor)
        data = np.zeros(self.size_bytes(tensor), np.uint8)
        shape = (tensor.height, tensor.width, tensor.channels)
        data[offsets] = np.frombuffer(flat, np.uint8).reshape(shape).transpose(2, 0, 1)
        return data.tobytes()

    def unpack(self, data: bytes, tensor: Tensor) -> npt.NDArray[np.int64]:
        """Return the values, shape (C, H, W).

        Raises:
            ValueError: For a wrong number of bytes.
        """
        if len(data) != self.size_bytes(tensor):
            raise ValueError(
                f"tensor {tensor.name} takes {self.size_bytes(tensor)} bytes in layout "
                f"{self.name}, not {len(data)}"
            )
        if not self.is_hwc:
            data = np.frombuffer(data, np.uint8)[self.offsets(tensor)].transpose(1, 2, 0).tobytes()
        return packing.unpack(data, tensor).transpose(2, 0, 1)

    def to_json(self) -> dict[str, Any]:
        """Return the layout as plan.json has it."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Layout:
        """Return the layout of a document of :meth:`to_json`."""
        return cls(**document)


HWC = Layout("HWC")
