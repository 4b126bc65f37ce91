"""Products of two tensors of matrices, as convolutions whose weights are laid out first."""

from __future__ import annotations

from dory_core.api import (
    Argument,
    FunctionCall,
    Layer,
    Number,
    Operand,
    Rejection,
    Struct,
    Term,
    Tile,
    WeightBlock,
    ops,
    reject_type,
    size,
)
from dory_cortex_m55 import calibration as costs
from dory_cortex_m55.backend.base import (
    BYTES,
    bytes_of,
    flip_of,
    in_blocks,
    places_of,
    reject_elements,
    whole,
)
from dory_cortex_m55.backend.requant import form_of, reject_form
from dory_cortex_m55.backend.rows import COLUMNS, EIGHT, OVERRUN, SUMS_BYTES, VECTOR, RowsKernel


class MatricesKernel(RowsKernel):
    """Product of matrices: rows of the second operand are columns, the first one the weights."""

    name = "dory_cortex_m55_matmul"
    file = "matmul"
    more = (*RowsKernel.more, "conv.c", "conv.h")
    summary = "Product of two tensors of matrices of bytes, 16 products an instruction"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes, with a requantisation after the sums."""
        if not isinstance(layer.op, ops.MatMul):
            return Rejection("it computes products of two tensors", other_kind=True)
        if not layer.op.requants:
            return Rejection("its sums are stored as they are")
        x, factors = layer.inputs
        wrong = reject_type(x, "first operand", BYTES)
        wrong = wrong or reject_type(factors, "second operand", BYTES)
        return wrong or reject_elements(layer.output, "output") or reject_form(layer)

    def length(self, layer: Layer) -> int:
        """Pixels of the first operand, which are channels of the second one."""
        return layer.inputs[1].channels

    def lift(self, layer: Layer) -> int:
        """The zero point of the first operand, to be taken from its bytes with a sign."""
        return -_zeros(layer)[0]

    def is_lifted(self, layer: Layer) -> bool:
        """Zero points are in the sums."""
        return True

    def is_direct(self, layer: Layer) -> bool:
        """The second operand has a sign."""
        return not flip_of(layer.inputs[1])

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters of channels in eights."""
        return whole(tile.c_out, EIGHT) * form_of(layer).channel_bytes

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return the parameters."""
        return WeightBlock(form_of(layer).parameters(places_of(c_out)), {"mul": 0})

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Whole groups of channels, pairs of rows, and columns that serve many channels."""
        return (
            Term("CHANNELS_IN_EIGHTS", 1e6, in_blocks(layer, tile, EIGHT)),
            Term("ROWS_IN_PAIRS", 1e6, (tile.w - 1) % 2),
            Term("COLUMNS_SERVE_MANY", 1e2, tile.c_out),
        )

    def columns_bytes(self, layer: Layer) -> int:
        """Return the bytes of columns that are copied to have a sign."""
        if self.is_direct(layer):
            return 0
        return int(whole(self.pixels(layer) * self.length(layer) + OVERRUN, VECTOR))

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Sums, columns, what zero points add, and a matrix as rows of weights."""
        rows = whole(tile.c_out, EIGHT) * (4 + self.pitch(layer))
        return SUMS_BYTES + self.columns_bytes(layer) + rows + OVERRUN

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Rows of weights of each matrix, then sums of all channels."""
        channels = whole(tile.c_out, EIGHT)
        each = costs.LAY_CHANNEL + self.vectors(layer) * costs.LAY_CHANNEL_VECTOR
        laid = tile.x_h * channels * each
        if not self.is_direct(layer):
            laid += tile.h * tile.w * (costs.RUN + self.vectors(layer) * costs.COPY_VECTOR)
        return costs.CALL + laid + self.products_cycles(layer, tile.c_out, tile.h, tile.w)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        x, factors = layer.inputs
        length, flip = self.length(layer), flip_of(factors)
        x_matrix = size("x_w") * size("x_c") * int(x.height == layer.output.height)
        x2_matrix = size("y_w") * length * int(factors.height == layer.output.height)
        y_row = size("y_c") * bytes_of(layer.output)
        ones = ("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w")
        conv: dict[str, Argument] = {
            **self.members(layer),
            "x": Operand("x2"),
            "weights": None,
            "columns": None if self.is_direct(layer) else COLUMNS,
            **dict.fromkeys(("x_w", "y_w", *ones), 1),
            **dict.fromkeys(("x_h", "y_h"), size("y_w")),
            **dict.fromkeys(("x_c", "x_row", "x_column"), length),
            "y_c": size("y_c"),
            **dict.fromkeys(("y_row", "y_column"), y_row),
            **dict.fromkeys(("pad_top", "pad_left", "padding"), 0),
            "flip": flip,
        }
        place = SUMS_BYTES + self.columns_bytes(layer)
        members: dict[str, Argument] = {
            "conv": Struct(conv),
            "x": Operand("x"),
            "scratch": Operand("scratch", "int32_t *", offset=place),
            "matrices": size("y_h"),
            "x_c": size("x_c"),
            "x_step": x_matrix,
            "x2_step": x2_matrix,
            "y_step": size("y_w") * y_row,
            "x2_zero": _zeros(layer)[1],
            "x_flip": flip_of(x),
        }
        return self.struct_call(layer, members)


def _zeros(layer: Layer) -> tuple[int, int]:
    """Return the zero points of both operands as bytes with a sign."""
    first, second = (
        zero - flip_of(x)
        for zero, x in zip(layer.of(ops.MatMul).zero_points, layer.inputs, strict=True)
    )
    return first, second
