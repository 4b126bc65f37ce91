"""One C file per layer: the tile loop of a LayerStep, as text for the template.

Everything that is equal for all tiles becomes an immediate; what differs stands in a small table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import Template

from dory_core.codegen.cexpr import CExpr, add, comment, mul, string
from dory_core.codegen.describe import describe_layer
from dory_core.ir import Linear, Tensor
from dory_core.plan import LayerStep, Plan, Transfer
from dory_core.tiling.geometry import Span, keeps_channels

INDENT = "  "


@dataclass(frozen=True, slots=True)
class Load:
    """A transfer towards L1 as the template prints it.

    name: x, x2 or w. spread: every core moves its own channels, with ``tickets`` tickets each.
    copies: 2 when double-buffered. changes: C condition on ``t`` and ``next`` under which the next
    tile needs a new load, ``0`` when it never does. buffer, next_buffer: where to.
    """

    name: str
    what: str
    spread: bool
    tickets: int
    copies: int
    changes: str
    buffer: str
    next_buffer: str

    @property
    def guard(self) -> str:
        """The condition under which a core takes part, as an if."""
        return "" if self.spread else "if (core == 0) "

    def guard_and(self, condition: str) -> str:
        """The same, and ``condition``."""
        return f"if ({condition}) " if self.spread else f"if (core == 0 && {condition}) "

    def start(self, index: str, buffer: str) -> str:
        """The statement that starts the load of the tile at ``index``."""
        if self.spread:
            return f"load_{self.name}({buffer}, l2, {index}, core, {self.name}_ticket);"
        source = "" if self.name == "w" else "l2, "
        return f"{self.name}_ticket = load_{self.name}({buffer}, {source}{index});"

    def wait(self, index: str) -> str:
        """The statement that waits for the load of the tile at ``index``."""
        if self.spread:
            return f"wait_{self.name}({index}, core, {self.name}_ticket);"
        return f"dory_dma_wait({self.name}_ticket);"


@dataclass(frozen=True, slots=True)
class LayerView:
    """What the layer template prints."""

    index: int
    title: str
    c_name: str
    symbol: str
    header: tuple[str, ...]
    headers: tuple[str, ...]
    spread: bool
    tiles: int
    tables: tuple[str, ...]
    functions: tuple[str, ...]
    slots: tuple[str, ...]
    loads: tuple[Load, ...]
    y_copies: int
    y_buffer: str
    is_last: str
    locals: tuple[str, ...]
    checks: tuple[str, ...]
    call: tuple[str, ...]
    advance_slots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of the tile loop: its C table, its loop variable and its spans."""

    table: str
    variable: str
    spans: tuple[Span, ...]

    def get(self, field: str, index: str = "t") -> CExpr:
        """Return a field of the current span: an immediate when all spans agree."""
        values = {getattr(span, field) for span in self.spans}
        if len(values) == 1:
            return int(values.pop())
        return f"{self.table}[{index}.{self.variable}].{field}"

    def text(self) -> str:
        """Return the C table."""
        rows = (
            f"{{{s.start}, {s.size}, {s.x_start}, {s.x_size}, {s.pad_before}, {s.pad_after}}}"
            for s in self.spans
        )
        lines = "".join(f"\n  {row}," for row in rows)
        return f"static const dory_span_t {self.table}[{len(self.spans)}] = {{{lines}\n}};"


class LayerPrinter:
    """Collects the texts of one layer; use :func:`layer_view`."""

    def __init__(self, plan: Plan, step: LayerStep) -> None:
        self.plan = plan
        self.step = step
        self.layer = step.layer
        schedule = step.schedule
        self.axes = {
            "c_out": Axis("channels", "o", schedule.c_out),
            "h": Axis("rows", "h", schedule.h),
            "w": Axis("columns", "w", schedule.w),
            "c_in": Axis("inputs", "i", schedule.c_in),
        }
        self.keeps = keeps_channels(self.layer)
        self.input_axis = self.axes["c_out" if self.keeps else "c_in"]

    # -- sizes of the current tile -----------------------------------------------------------

    def x_channels(self, index: str = "t") -> CExpr:
        """Input channels of the tile."""
        return self.input_axis.get("x_size", index)

    def variables(self, index: str = "t") -> dict[str, CExpr]:
        """The sizes that a kernel call can name."""
        h, w, o = self.axes["h"], self.axes["w"], self.axes["c_out"]
        many = len(self.axes["c_in"].spans)
        return {
            "x_h": h.get("x_size", index),
            "x_w": w.get("x_size", index),
            "x_c": self.x_channels(index),
            "y_h": h.get("size", index),
            "y_w": w.get("size", index),
            "y_c": o.get("size", index),
            "pad_top": h.get("pad_before", index),
            "pad_left": w.get("pad_before", index),
            "pad_bottom": h.get("pad_after", index),
            "pad_right": w.get("pad_after", index),
            "first": 1 if many == 1 else f"{index}.i == 0",
            "last": 1 if many == 1 else f"{index}.i == {many - 1}",
        }

    def _tensor_size(self, tensor: Tensor) -> tuple[int, int, int]:
        """(bytes per element, columns, channels) of a tensor as transfers see it."""
        if isinstance(self.layer.layer, Linear) and tensor is self.layer.inputs[0]:
            return tensor.bits // 8, 1, tensor.elements
        return tensor.bits // 8, tensor.width, tensor.channels

    # -- transfers ----------------------------------------------------------------------------

    def load_function(self, name: str, transfer: Transfer) -> tuple[str, ...]:
        """Return the C functions that load (and, when spread, wait for) an input tile."""
        rows, columns, chans = self.axes["h"], self.axes["w"], self.input_axis
        size, width, channels = self._tensor_size(transfer.place.tensor)
        x_h, x_w, x_c = rows.get("x_size"), columns.get("x_size"), chans.get("x_size")
        pixel = mul(size, channels)
        source = add(
            transfer.place.offset,
            mul(rows.get("x_start"), width, pixel),
            mul(columns.get("x_start"), pixel),
            mul(chans.get("x_start"), size),
        )
        if transfer.form == "channels":
            return self._spread_functions(name, size, width, channels, source)
        copy = _copy(
            "x", f"l2 + {source}", transfer.form, size, x_h, x_w, x_c, width, channels, True
        )
        return (
            _function(
                f"/* Starts the transfer of tile t of {transfer.place.tensor.name} into L1. */",
                f"static dory_ticket_t load_{name}(uint8_t *x, const uint8_t *l2, dory_index_t t)",
                [*copy, "return dory_dma_start(&copy);"],
            ),
        )

    def _spread_functions(
        self, name: str, size: int, width: int, channels: int, source: CExpr
    ) -> tuple[str, ...]:
        rows, columns, chans = self.axes["h"], self.axes["w"], self.input_axis
        x_h, x_w, x_c = rows.get("x_size"), columns.get("x_size"), chans.get("x_size")
        first, stride = ("core", "DORY_CORES") if self.plan.any_core else ("0", "1")
        copy = [
            "const dory_copy_t copy = {",
            f"  .dst = x + c * {_u(mul(x_h, x_w, size))},",
            f"  .src = l2 + {source} + c * {size}u,",
            f"  .n0 = 1, .n1 = {x_w}, .n2 = {x_h},",
            f"  .dst_s1 = {size}, .dst_s2 = {mul(x_w, size)},",
            f"  .src_s1 = {channels * size}, .src_s2 = {width * channels * size},",
            f"  .elem = {size}, .dir = DORY_L2_TO_L1,",
            "};",
            "ticket[k++] = dory_dma_start(&copy);",
        ]
        loop = f"for (uint32_t c = {first}; c < {_u(x_c)}; c += {stride}) {{"
        load = _function(
            "/* Starts the transfer of tile t into L1, HWC to CHW, one copy per channel. */",
            f"static void load_{name}(uint8_t *x, const uint8_t *l2, dory_index_t t, uint32_t core,"
            "\n                   dory_ticket_t *ticket)",
            ["uint32_t k = 0;", loop, *[INDENT + line for line in copy], "}"],
        )
        wait = _function(
            "/* Waits for what the same core started with the same t. */",
            f"static void wait_{name}(dory_index_t t, uint32_t core, const dory_ticket_t *ticket)",
            ["uint32_t k = 0;", loop, INDENT + "dory_dma_wait(ticket[k++]);", "}"],
        )
        return load, wait

    def store_function(self) -> str:
        """Return the C function that stores an output tile."""
        rows, columns, chans = self.axes["h"], self.axes["w"], self.axes["c_out"]
        transfer = self.step.output
        size, width, channels = self._tensor_size(transfer.place.tensor)
        target = add(
            transfer.place.offset,
            mul(rows.get("start"), width, mul(size, channels)),
            mul(columns.get("start"), mul(size, channels)),
            mul(chans.get("start"), size),
        )
        copy = _copy(
            f"l2 + {target}",
            "y",
            transfer.form,
            size,
            rows.get("size"),
            columns.get("size"),
            chans.get("size"),
            width,
            channels,
            False,
        )
        return _function(
            f"/* Starts the transfer of tile t of {transfer.place.tensor.name} back to L2. */",
            "static dory_ticket_t store_y(const uint8_t *y, uint8_t *l2, dory_index_t t)",
            [*copy, "return dory_dma_start(&copy);"],
        )

    def weights_texts(self) -> tuple[str, str]:
        """Return the table of weight blocks and the function that loads one."""
        weights = self.step.weights
        assert weights is not None
        fields = ("offset", "size", "weights", "mul", "add", "bias")
        rows = [
            "{"
            + ", ".join(
                str(v)
                for v in (tile.offset, tile.size, *(tile.parts.get(p, 0) for p in fields[2:]))
            )
            + "},"
            for outputs in weights.tiles
            for tile in outputs
        ]
        lines = "".join(f"\n  {row}" for row in rows)
        table = f"static const dory_block_t blocks[{len(rows)}] = {{{lines}\n}};"
        load = _function(
            "/* Starts the transfer of the constants of tile t into L1. */",
            "static dory_ticket_t load_w(uint8_t *w, dory_index_t t)",
            [
                f"const uint8_t *const constants = (const uint8_t *){weights_symbol(self.step)};",
                "const dory_copy_t copy = {",
                f"  .dst = w, .src = constants + {self.block('offset')},",
                f"  .n0 = {self.block('size')}, .n1 = 1, .n2 = 1,",
                "  .elem = 1, .dir = DORY_L2_TO_L1,",
                "};",
                "return dory_dma_start(&copy);",
            ],
        )
        return table, load

    def block(self, field: str) -> CExpr:
        """Return a field of the current weight block: an immediate when all agree."""
        weights = self.step.weights
        assert weights is not None
        flat = [tile for outputs in weights.tiles for tile in outputs]

        def value(tile: object) -> int:
            return int(getattr(tile, field))

        values = (
            {value(t) for t in flat}
            if field in ("offset", "size")
            else {t.parts.get(field, 0) for t in flat}
        )
        if len(values) == 1:
            return values.pop()
        inner = len(weights.tiles[0])
        outer = len(weights.tiles)
        if outer == 1:
            place = "t.i"
        elif inner == 1:
            place = "t.o"
        else:
            place = f"t.o * {inner} + t.i"
        return f"blocks[{place}].{field}"

    # -- the loop -----------------------------------------------------------------------------

    def changes(self, names: Sequence[str]) -> str:
        """Return the C condition under which one of the axes steps from t to next."""
        tests = [
            f"next.{self.axes[n].variable} != t.{self.axes[n].variable}"
            for n in names
            if len(self.axes[n].spans) > 1
        ]
        return " || ".join(tests) if tests else "0"

    def advance(self) -> str:
        """Return the C function that steps to the next tile."""
        lines: list[str] = []
        for name in reversed(self.step.schedule.order.split(",")):
            axis = self.axes[name]
            if len(axis.spans) == 1:
                continue
            lines += [
                f"if (++t.{axis.variable} < {len(axis.spans)}) {{",
                INDENT + "return t;",
                "}",
                f"t.{axis.variable} = 0;",
            ]
        return _function(
            "/* Returns the tile after t: " + self.step.schedule.order.replace(",", ", ") + ". */",
            "static dory_index_t advance(dory_index_t t)",
            [*lines, "return t;"],
        )

    def buffer(self, name: str, slot: str) -> str:
        """Return the address of a buffer's copy."""
        block = self.step.block(name)
        assert block is not None
        place = add(block.offsets[0], mul(slot, block.bytes) if len(block.offsets) > 1 else 0)
        return f"l1 + {place}" if place != 0 else "l1"


def weights_symbol(step: LayerStep) -> str:
    """Return the C name of a layer's constants."""
    return f"dory_weights_{step.index:02d}"


def layer_symbol(step: LayerStep) -> str:
    """Return the C name of a layer's function."""
    return f"dory_layer_{step.index:02d}"


def _u(value: CExpr) -> str:
    return f"{value}u" if isinstance(value, int) else f"(uint32_t)({value})"


def _copy(
    dst: str,
    src: str,
    form: str,
    size: int,
    h: CExpr,
    w: CExpr,
    c: CExpr,
    width: int,
    channels: int,
    towards_l1: bool,
) -> list[str]:
    """Return the lines that declare the copy of an h x w x c box; ``width`` x ``channels`` in L2."""
    if form == "rows":
        row, lower = mul(w, channels * size), width * channels * size
        if w == width:
            shape, tight = f".n0 = {mul(h, row)}, .n1 = 1, .n2 = 1,", ["0", "0", "0", "0"]
        else:
            shape = f".n0 = {row}, .n1 = {h}, .n2 = 1,"
            tight = [str(row), "0", str(lower), "0"]
    else:
        pixel = mul(c, size)
        shape = f".n0 = {pixel}, .n1 = {w}, .n2 = {h},"
        tight = [str(pixel), str(mul(w, pixel)), str(channels * size), str(width * channels * size)]
    l1_s1, l1_s2, l2_s1, l2_s2 = tight
    strides = (l1_s1, l1_s2, l2_s1, l2_s2) if towards_l1 else (l2_s1, l2_s2, l1_s1, l1_s2)
    return [
        "const dory_copy_t copy = {",
        f"  .dst = {dst}, .src = {src},",
        f"  {shape}",
        f"  .dst_s1 = {strides[0]}, .dst_s2 = {strides[1]},",
        f"  .src_s1 = {strides[2]}, .src_s2 = {strides[3]},",
        f"  .elem = 1, .dir = {'DORY_L2_TO_L1' if towards_l1 else 'DORY_L1_TO_L2'},",
        "};",
    ]


def _function(purpose: str, head: str, body: Sequence[str]) -> str:
    text = "\n".join(body)
    unused = [] if "t." in text.replace("dst.", "") else ["(void)t;"]
    lines = [*unused, *body]
    return f"{purpose}\n{head}\n{{\n" + "\n".join(INDENT + line for line in lines) + "\n}"


def _tile_bytes(tensor: Tensor, h: CExpr, w: CExpr, c: CExpr) -> CExpr:
    return mul(h, w, c, tensor.bits // 8)


def layer_view(plan: Plan, step: LayerStep) -> LayerView:
    """Return everything that the template prints for one layer."""
    p = LayerPrinter(plan, step)
    schedule, layer = step.schedule, step.layer
    names = ["x", "x2"][: len(step.inputs)]
    buffering = schedule.buffering
    variables = p.variables()

    functions: list[str] = []
    for name, transfer in zip(names, step.inputs, strict=True):
        functions += p.load_function(name, transfer)
    tables: list[str] = []
    if step.weights is not None:
        table, load = p.weights_texts()
        tables.append(table)
        functions.append(load)
    functions += [p.store_function(), p.advance()]

    x_axes = ("c_out", "h", "w") if p.keeps else ("h", "w", "c_in")
    loads: list[Load] = []
    for name, transfer in zip(names, step.inputs, strict=True):
        spread = transfer.form == "channels"
        issuers = plan.cores if plan.any_core else 1
        most = max(s.x_size for s in p.input_axis.spans)
        loads.append(
            Load(
                name,
                "input",
                spread,
                -(-most // issuers),
                buffering.x,
                p.changes(x_axes),
                p.buffer(name, "x_slot"),
                p.buffer(name, "(x_slot ^ 1u)"),
            )
        )
    if step.weights is not None:
        loads.append(
            Load(
                "w",
                "weights",
                False,
                1,
                buffering.w,
                p.changes(("c_out", "c_in")),
                p.buffer("w", "w_slot"),
                p.buffer("w", "(w_slot ^ 1u)"),
            )
        )

    local_lines, checks, names_of = _buffers(p, names, variables)
    values = {k: str(v) for k, v in {**variables, **names_of}.items()}
    call = Template(step.kernel.text).substitute(values)

    slots, advance_slots = [], []
    for load in loads:
        if load.name == "x2" or load.copies == 1:
            continue
        slots.append(f"uint32_t {load.name}_slot = 0;")
        if load.changes != "0":
            advance_slots += [
                f"if ({load.changes}) {{",
                f"{INDENT}{load.name}_slot ^= 1u;",
                "}",
            ]
    is_last = str(variables["last"])
    if buffering.y > 1:
        slots.append("uint32_t y_slot = 0;")
        flip = "y_slot ^= 1u;"
        advance_slots += [flip] if is_last == "1" else [f"if ({is_last}) {{", INDENT + flip, "}"]
    else:
        slots.append("const uint32_t y_slot = 0;")

    body = "\n".join([*functions, *local_lines, *checks, call])
    spans = [a.text() for a in p.axes.values() if f"{a.table}[" in body]
    return LayerView(
        index=step.index,
        title=f"{comment(layer.layer.name)}: {describe_layer(layer)}",
        c_name=string(layer.layer.name),
        symbol=layer_symbol(step),
        header=tuple(comment(line) for line in _header(plan, step)),
        headers=step.kernel.headers,
        spread=any(load.spread for load in loads) and plan.any_core,
        tiles=schedule.count,
        tables=(*spans, *[t for t in tables if "blocks[" in body]),
        functions=tuple(functions),
        slots=tuple(slots),
        loads=tuple(loads),
        y_copies=buffering.y,
        y_buffer=p.buffer("y", "y_slot"),
        is_last=is_last,
        locals=tuple(local_lines),
        checks=tuple(checks),
        call=tuple(call.splitlines()),
        advance_slots=tuple(advance_slots),
    )


def _buffers(
    p: LayerPrinter, inputs: Sequence[str], variables: dict[str, CExpr]
) -> tuple[list[str], list[str], dict[str, str]]:
    """Return local declarations, simulation checks and the pointers that a call can name."""
    step, schedule = p.step, p.step.schedule
    text = step.kernel.text
    lines: list[str] = []
    checks: list[str] = []
    names: dict[str, str] = {}

    def declare(name: str, type_: str, value: str) -> None:
        if f"${name}" in text or f"${{{name}}}" in text:
            lines.append(f"{type_}*const {name} = {value};")
        names[name] = name

    v = variables
    for name, tensor in zip(inputs, step.layer.inputs, strict=True):
        slot = "x_slot" if schedule.buffering.x > 1 else "0"
        declare(name, "const uint8_t ", p.buffer(name, slot))
        size = _tile_bytes(tensor, v["x_h"], v["x_w"], v["x_c"])
        checks.append(f"DORY_SIM_READ({p.buffer(name, slot)}, {size});")
    if step.weights is not None:
        slot = "w_slot" if schedule.buffering.w > 1 else "0"
        address = p.buffer("w", slot)
        checks.append(f"DORY_SIM_READ({address}, {p.block('size')});")
        for part in ("weights", "mul", "add", "bias"):
            offset = p.block(part)
            declare(part, "const uint8_t ", f"{address} + {offset}" if offset != 0 else address)
    is_last = str(v["last"])
    if step.block("psum") is not None:
        declare("psum", "int32_t ", f"(int32_t *)(void *)({p.buffer('psum', '0')})")
        size = mul(v["y_h"], v["y_w"], v["y_c"], 4)
        if is_last != "1":
            checks += [
                f"if (!({v['first']})) {{",
                f"{INDENT}DORY_SIM_READ(psum, {size});",
                "}",
                f"DORY_SIM_WRITE(psum, {size});",
            ]
    else:
        names["psum"] = "NULL"
    if step.block("scratch") is not None:
        block = step.block("scratch")
        assert block is not None
        declare("scratch", "uint8_t ", p.buffer("scratch", "0"))
        checks.append(f"DORY_SIM_WRITE({p.buffer('scratch', '0')}, {block.bytes});")
    else:
        names["scratch"] = "NULL"
    address = p.buffer("y", "y_slot")
    declare("y", "uint8_t ", address)
    write = f"DORY_SIM_WRITE({address}, {_tile_bytes(step.layer.output, v['y_h'], v['y_w'], v['y_c'])});"
    checks += [write] if is_last == "1" else [f"if ({is_last}) {{", INDENT + write, "}"]
    return lines, checks, names


def _header(plan: Plan, step: LayerStep) -> list[str]:
    """Return the lines of the header comment: tensors, tiles, memory, arithmetic."""
    schedule, tile, layer = step.schedule, step.tiling.tile, step.layer
    lines = []
    for transfer in step.inputs:
        lines.append(_tensor_line("input", transfer))
    lines.append(_tensor_line("output", step.output))
    if step.weights is not None:
        count = sum(len(outputs) for outputs in step.weights.tiles)
        lines.append(f"constants {len(step.weights.data)} B in L{step.weights.level}, {count} blocks")
    lines += [
        f"tile      {tile.c_out} x {tile.h} x {tile.w} (C x H x W), {tile.c_in} input channels",
        f"loop      {schedule.count} tiles: "
        + ", ".join(f"{n} {len(getattr(schedule, n))}" for n in schedule.order.split(",")),
        f"L1        {step.l1_bytes} of {plan.levels[0].budget} B: "
        + ", ".join(
            f"{b.name} {b.bytes} at {' and '.join(str(o) for o in b.offsets)}"
            for b in step.l1
        ),
        f"kernel    {step.kernel.symbol}",
        f"estimate  {step.estimate.cycles} cycles, bound by {step.estimate.bound}",
    ]
    ranges = layer.ranges
    if ranges.bits:
        lines.append(
            f"requant   {ranges.bits} bits: accumulator in [{ranges.acc_lo}, {ranges.acc_hi}], "
            f"mul * acc + add in [{ranges.value_lo}, {ranges.value_hi}]"
        )
    return lines


def _tensor_line(what: str, transfer: Transfer) -> str:
    tensor = transfer.place.tensor
    shape = " x ".join(str(n) for n in tensor.shape)
    return (
        f"{what:9} {tensor.name} {tensor.type_name} {shape} (C x H x W), "
        f"L{transfer.place.level} + {transfer.place.offset}, by {transfer.form}"
    )

