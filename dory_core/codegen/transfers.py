"""The C functions of a layer that start and wait for its transfers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dory_core.codegen.axes import TileAxes
from dory_core.codegen.boxes import Box, input_box, output_box, part_field
from dory_core.codegen.cexpr import CExpr, add, mul
from dory_core.copies import DMA, PIECES, Carriage
from dory_core.errors import DoryError
from dory_core.plan import BLOCKS, LayerStep, OperandPlan, Plan

_INDENT = "  "


def load_functions(
    plan: Plan, step: LayerStep, axes: TileAxes, name: str, transfer: OperandPlan
) -> tuple[str, ...]:
    """Return the function that loads an input tile and, when spread, the one that waits for it."""
    box = input_box(step, axes, name, transfer)
    part, carriage = part_parameter(step), step.carriages[name]
    if transfer.form == "channels":
        return _spread_functions(plan, name, box, part, carriage)
    return (
        function(
            f"/* {_starts(carriage)} the transfer of tile t of {transfer.place.tensor.name} into "
            "L1. */",
            f"static dory_ticket_t load_{name}(uint8_t *x, const uint8_t *l2, dory_index_t t"
            f"{_core(carriage)}{part})",
            [
                *_copy("x", f"l2 + {box.offset}", transfer.form, box, True, carriage.multiple),
                *_start(carriage),
            ],
        ),
    )


def _starts(carriage: Carriage) -> str:
    return "Makes the calling core's share of" if carriage.by_cores else "Starts"


def _core(carriage: Carriage) -> str:
    """Return the parameter of a function that every core calls for its share."""
    return ", uint32_t core" if carriage.by_cores else ""


def _start(carriage: Carriage) -> list[str]:
    """Return the statements that make the copy and return its ticket."""
    if carriage.by_cores:
        return ["dory_copy_share(&copy, core, DORY_CORES);", "return DORY_NO_TICKET;"]
    if carriage.by == PIECES:
        return [f"return {_pieces('DORY_NO_TICKET', carriage)};"]
    return ["return dory_dma_start(&copy);"]


def _pieces(ticket: str, carriage: Carriage) -> str:
    return f"dory_copy_pieces({ticket}, &copy, {carriage.dimensions}, {carriage.max_bytes})"


def copies_by_helper(carriages: Iterable[Carriage]) -> bool:
    """Return whether one of these copies is made by a function of dory_copy.h."""
    return any(carriage.by != DMA for carriage in carriages)


def part_parameter(step: LayerStep) -> str:
    """Return the parameter that tells the functions of a layer with several parts which one."""
    return ", const dory_part_t *part" if len(step.parts) > 1 else ""


def store_function(step: LayerStep, axes: TileAxes) -> str:
    """Return the function that stores an output tile."""
    box, transfer, carriage = output_box(step, axes), step.output, step.carriages["y"]
    return function(
        f"/* {_starts(carriage)} the transfer of tile t of {transfer.place.tensor.name} back to "
        "L2. */",
        f"static dory_ticket_t store_y(const uint8_t *y, uint8_t *l2, dory_index_t t"
        f"{_core(carriage)}{part_parameter(step)})",
        [
            *_copy(f"l2 + {box.offset}", "y", transfer.form, box, False, carriage.multiple),
            *_start(carriage),
        ],
    )


def load_weights_function(step: LayerStep, symbol: str, offset: CExpr, size: CExpr) -> str:
    """Return the function that loads the constants of a tile, linked or streamed."""
    assert step.weights is not None
    carriage = step.carriages["w"]
    if not step.weights.linked:
        parameter, source = "const uint8_t *l2, ", f"l2 + {add(part_field(step, 'w'), offset)}"
    else:
        parameter, source = "", f"(const uint8_t *){symbol}"
        source += f" + {offset}" if offset != 0 else ""
    return function(
        f"/* {_starts(carriage)} the transfer of the constants of tile t into L1. */",
        f"static dory_ticket_t load_w(uint8_t *w, {parameter}dory_index_t t{_core(carriage)}"
        f"{part_parameter(step)})",
        [
            "const dory_copy_t copy = {",
            f"  .dst = w, .src = {source},",
            f"  .n0 = {size}, .n1 = 1, .n2 = 1,",
            "  .dst_s1 = 0, .dst_s2 = 0, .src_s1 = 0, .src_s2 = 0,",
            "  .elem = 1, .dir = DORY_L2_TO_L1,",
            "};",
            *_start(carriage),
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


def _copy(dst: str, src: str, form: str, box: Box, towards_l1: bool, multiple: int) -> list[str]:
    """Return the lines that declare the copy of a box, dense in L1.

    multiple: the length of its row is rounded up to a multiple of so many bytes.
    """
    shape: tuple[CExpr, CExpr, CExpr]
    l1: tuple[CExpr, CExpr]
    l2: tuple[CExpr, CExpr]
    if form == BLOCKS:
        size = mul(box.h, box.row)
        if box.whole_blocks:
            shape, l1, l2 = (mul(box.blocks, size), 1, 1), (0, 0), (0, 0)
        else:
            shape, l1, l2 = (size, box.blocks, 1), (size, 0), (box.block, 0)
    elif form == "rows":
        size = mul(box.w, box.pixel)
        if box.whole_rows:
            shape, l1, l2 = (mul(box.h, size), 1, 1), (0, 0), (0, 0)
        else:
            shape, l1, l2 = (size, box.h, 1), (size, 0), (box.row, 0)
    else:
        size = box.c_bytes
        shape = (size, box.w, box.h)
        l1, l2 = (size, mul(box.w, size)), (box.pixel, box.row)
    if multiple > 1:
        shape = (_rounded_up(shape[0], multiple), *shape[1:])
    to, from_ = (l1, l2) if towards_l1 else (l2, l1)
    return [
        "const dory_copy_t copy = {",
        f"  .dst = {dst}, .src = {src},",
        f"  .n0 = {shape[0]}, .n1 = {shape[1]}, .n2 = {shape[2]},",
        f"  .dst_s1 = {to[0]}, .dst_s2 = {to[1]}, .src_s1 = {from_[0]}, .src_s2 = {from_[1]},",
        f"  .elem = 1, .dir = {'DORY_L2_TO_L1' if towards_l1 else 'DORY_L1_TO_L2'},",
        "};",
    ]


def _rounded_up(size: CExpr, multiple: int) -> CExpr:
    if isinstance(size, int):
        return -(-size // multiple) * multiple
    return f"({size} + {multiple - 1}) / {multiple} * {multiple}"


def _spread_functions(
    plan: Plan, name: str, box: Box, part: str, carriage: Carriage
) -> tuple[str, ...]:
    """HWC in L2 to CHW in L1: one copy per channel, the channels spread over the cores."""
    if box.bits < 8:
        raise DoryError(f"channels of {box.bits} bits cannot be told apart by a transfer of bytes")
    size = box.bits // 8
    spread = plan.any_core or carriage.by_cores
    first, stride = ("core", "DORY_CORES") if spread else ("0", "1")
    core = ", uint32_t core" if spread else ""
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
        _join(carriage),
    ]
    if carriage.by_cores:
        what = "/* Copies tile t into L1, HWC to CHW: the channels of the calling core. */"
        body = [loop, *(_INDENT + line for line in copy), "}", "return DORY_NO_TICKET;"]
        head = f"static dory_ticket_t load_{name}(uint8_t *x, const uint8_t *l2, dory_index_t t"
        return (function(what, f"{head}{core}{part})", body),)
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


def _join(carriage: Carriage) -> str:
    if carriage.by_cores:
        return "dory_copy_share(&copy, 0, 1);"
    if carriage.by == PIECES:
        return f"ticket = {_pieces('ticket', carriage)};"
    return "ticket = dory_dma_join(ticket, &copy);"


def _unsigned(value: CExpr) -> str:
    return f"{value}u" if isinstance(value, int) else f"(uint32_t)({value})"
