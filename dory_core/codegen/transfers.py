"""The C functions of a layer that start and wait for its transfers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dory_core.codegen.axes import TileAxes
from dory_core.codegen.cexpr import CExpr, add, channel_bytes, mul
from dory_core.errors import DoryError
from dory_core.ir import Linear, Tensor, TypedLayer, pixel_bytes
from dory_core.plan import LayerStep, Plan, Transfer

_INDENT = "  "


@dataclass(frozen=True, slots=True)
class Box:
    """A box of an HWC tensor in L2 as C expressions.

    offset: byte of its first element in the arena. h, w, c: its size. c_bytes: bytes of c channels.
    bits: of an element. pixel, row: bytes from pixel to pixel and from row to row of the whole
    tensor. whole_rows: the box takes all columns.
    """

    offset: CExpr
    h: CExpr
    w: CExpr
    c: CExpr
    c_bytes: CExpr
    bits: int
    pixel: int
    row: int
    whole_rows: bool


def part_field(step: LayerStep, name: str) -> CExpr:
    """Return where a part's x, x2, y or w starts in L2: an immediate when all parts agree."""
    operands = {"x": 0, "x2": 1}
    values = {
        part.inputs[operands[name]]
        if name in operands
        else (part.output if name == "y" else part.weights or 0)
        for part in step.parts
    }
    return values.pop() if len(values) == 1 else f"part->{name}"


def input_box(step: LayerStep, axes: TileAxes, name: str, transfer: Transfer) -> Box:
    """Return the box that a tile reads; the input of a Linear is one pixel of all elements."""
    tensor = transfer.place.tensor
    width, pixel = tensor.width, pixel_bytes(tensor.channels, tensor.bits)
    if isinstance(step.layer.layer, Linear):
        width, pixel = 1, tensor.size_bytes
    offset = add(
        part_field(step, name),
        mul(axes.h.get("x_start"), width * pixel),
        mul(axes.w.get("x_start"), pixel),
        input_channel_bytes(step.layer, tensor, axes.input.get("x_start")),
    )
    h, w, c = (a.get("x_size") for a in (axes.h, axes.w, axes.input))
    c_bytes = input_channel_bytes(step.layer, tensor, c)
    return Box(offset, h, w, c, c_bytes, tensor.bits, pixel, width * pixel, w == width)


def input_channel_bytes(layer: TypedLayer, tensor: Tensor, channels: CExpr) -> CExpr:
    """Return the bytes of ``channels`` consecutive input channels, as tiles count them.

    Those of a Linear run over all pixels: where sub-byte pixels end inside a byte, they are whole
    pixels.
    """
    if not isinstance(layer.layer, Linear) or tensor.channels * tensor.bits % 8 == 0:
        return channel_bytes(channels, tensor.bits)
    pixel = pixel_bytes(tensor.channels, tensor.bits)
    if isinstance(channels, int):
        return channels // tensor.channels * pixel
    return mul(f"{channels} / {tensor.channels}", pixel)


def output_box(step: LayerStep, axes: TileAxes) -> Box:
    """Return the box that a tile writes."""
    tensor = step.output.place.tensor
    pixel = pixel_bytes(tensor.channels, tensor.bits)
    offset = add(
        part_field(step, "y"),
        mul(axes.h.get("start"), tensor.width * pixel),
        mul(axes.w.get("start"), pixel),
        channel_bytes(axes.c_out.get("start"), tensor.bits),
    )
    h, w, c = (a.get("size") for a in (axes.h, axes.w, axes.c_out))
    row, c_bytes = tensor.width * pixel, channel_bytes(c, tensor.bits)
    return Box(offset, h, w, c, c_bytes, tensor.bits, pixel, row, w == tensor.width)


def load_functions(
    plan: Plan, step: LayerStep, axes: TileAxes, name: str, transfer: Transfer
) -> tuple[str, ...]:
    """Return the function that loads an input tile and, when spread, the one that waits for it."""
    box = input_box(step, axes, name, transfer)
    part = part_parameter(step)
    if transfer.form == "channels":
        return _spread_functions(plan, name, box, part)
    return (
        function(
            f"/* Starts the transfer of tile t of {transfer.place.tensor.name} into L1. */",
            f"static dory_ticket_t load_{name}(uint8_t *x, const uint8_t *l2, dory_index_t t"
            f"{part})",
            [*_copy("x", f"l2 + {box.offset}", transfer.form, box, True), _START],
        ),
    )


def part_parameter(step: LayerStep) -> str:
    """Return the parameter that tells the functions of a layer with several parts which one."""
    return ", const dory_part_t *part" if len(step.parts) > 1 else ""


def store_function(step: LayerStep, axes: TileAxes) -> str:
    """Return the function that stores an output tile."""
    box, transfer = output_box(step, axes), step.output
    return function(
        f"/* Starts the transfer of tile t of {transfer.place.tensor.name} back to L2. */",
        f"static dory_ticket_t store_y(const uint8_t *y, uint8_t *l2, dory_index_t t"
        f"{part_parameter(step)})",
        [*_copy(f"l2 + {box.offset}", "y", transfer.form, box, False), _START],
    )


def load_weights_function(step: LayerStep, symbol: str, offset: CExpr, size: CExpr) -> str:
    """Return the function that loads the constants of a tile, linked or streamed."""
    assert step.weights is not None
    if not step.weights.linked:
        parameter, source = "const uint8_t *l2, ", f"l2 + {add(part_field(step, 'w'), offset)}"
    else:
        parameter, source = "", f"(const uint8_t *){symbol}"
        source += f" + {offset}" if offset != 0 else ""
    return function(
        "/* Starts the transfer of the constants of tile t into L1. */",
        f"static dory_ticket_t load_w(uint8_t *w, {parameter}dory_index_t t{part_parameter(step)})",
        [
            "const dory_copy_t copy = {",
            f"  .dst = w, .src = {source},",
            f"  .n0 = {size}, .n1 = 1, .n2 = 1,",
            "  .elem = 1, .dir = DORY_L2_TO_L1,",
            "};",
            _START,
        ],
    )


def function(purpose: str, head: str, body: Sequence[str]) -> str:
    """Return a C function; its parameters t and part may stay unused."""
    text = "\n".join(body)
    unused = [
        f"(void){name};"
        for name, use in (("t", r"\bt\b"), ("part", r"\bpart\b"))
        if re.search(rf"\b{name}[,)]", head) and not re.search(use, text)
    ]
    lines = "\n".join(_INDENT + line for line in (*unused, *body))
    return f"{purpose}\n{head}\n{{\n{lines}\n}}"


_START = "return dory_dma_start(&copy);"


def _copy(dst: str, src: str, form: str, box: Box, towards_l1: bool) -> list[str]:
    """Return the lines that declare the copy of a box, dense in L1."""
    shape: tuple[CExpr, CExpr, CExpr]
    l1: tuple[CExpr, CExpr]
    l2: tuple[CExpr, CExpr]
    if form == "rows":
        size = mul(box.w, box.pixel)
        if box.whole_rows:
            shape, l1, l2 = (mul(box.h, size), 1, 1), (0, 0), (0, 0)
        else:
            shape, l1, l2 = (size, box.h, 1), (size, 0), (box.row, 0)
    else:
        size = box.c_bytes
        shape = (size, box.w, box.h)
        l1, l2 = (size, mul(box.w, size)), (box.pixel, box.row)
    to, from_ = (l1, l2) if towards_l1 else (l2, l1)
    return [
        "const dory_copy_t copy = {",
        f"  .dst = {dst}, .src = {src},",
        f"  .n0 = {shape[0]}, .n1 = {shape[1]}, .n2 = {shape[2]},",
        f"  .dst_s1 = {to[0]}, .dst_s2 = {to[1]}, .src_s1 = {from_[0]}, .src_s2 = {from_[1]},",
        f"  .elem = 1, .dir = {'DORY_L2_TO_L1' if towards_l1 else 'DORY_L1_TO_L2'},",
        "};",
    ]


def _spread_functions(plan: Plan, name: str, box: Box, part: str) -> tuple[str, ...]:
    """HWC in L2 to CHW in L1: one copy per channel, the channels spread over the cores."""
    if box.bits < 8:
        raise DoryError(f"channels of {box.bits} bits cannot be told apart by a transfer of bytes")
    size = box.bits // 8
    first, stride = ("core", "DORY_CORES") if plan.any_core else ("0", "1")
    core = ", uint32_t core" if plan.any_core else ""
    loop = f"for (uint32_t c = {first}; c < {_unsigned(box.c)}; c += {stride}) {{"
    copy = [
        "const dory_copy_t copy = {",
        f"  .dst = x + c * {_unsigned(mul(box.h, box.w, size))},",
        f"  .src = l2 + {box.offset} + {mul('c', size)},",
        f"  .n0 = 1, .n1 = {box.w}, .n2 = {box.h},",
        f"  .dst_s1 = {size}, .dst_s2 = {mul(box.w, size)},"
        f" .src_s1 = {box.pixel}, .src_s2 = {box.row},",
        f"  .elem = {size}, .dir = DORY_L2_TO_L1,",
        "};",
        "ticket = dory_dma_join(ticket, &copy);",
    ]
    load = function(
        "/* Starts the transfer of tile t into L1, HWC to CHW: one copy for each channel of\n"
        " * the calling core. They share a ticket. */",
        f"static dory_ticket_t load_{name}(uint8_t *x, const uint8_t *l2, dory_index_t t"
        f"{core}{part})",
        [
            "dory_ticket_t ticket = DORY_NO_TICKET;",
            loop,
            *(_INDENT + line for line in copy),
            "}",
            "return ticket;",
        ],
    )
    return (load,)


def _unsigned(value: CExpr) -> str:
    return f"{value}u" if isinstance(value, int) else f"(uint32_t)({value})"
