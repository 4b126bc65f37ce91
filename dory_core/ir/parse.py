"""Reads the text form of a Graph: what ``graph_text`` prints with constants, or a person writes.

What follows from the rest may be left out: the type of an output, the lines of the accumulator and
of the arithmetic. Range analysis then gives them. Constants may be written as
``random(SEED, LO, HI)``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dory_core.ir.array import Array
from dory_core.ir.channels import parse_removed
from dory_core.ir.graph import FileForm, Graph, LayerRanges, State, check_states
from dory_core.ir.kinds import by_name
from dory_core.ir.kinds.fields import read_fields, read_word
from dory_core.ir.kinds.operator import Operator
from dory_core.ir.ranges import infer_layer
from dory_core.ir.requant import Requant
from dory_core.ir.tensor import HALVES, Tensor

_NAME = r'(?:"(?:[^"\\]|\\.)*"|[\w./-]+)'
_NAMES = re.compile(rf"{_NAME}(?:, {_NAME})*")
_INPUT = re.compile(rf"input (?P<name>{_NAME}): (?P<type>.*)")
_STATE = re.compile(
    rf"state (?P<name>{_NAME}): (?P<type>.*) from (?P<written>{_NAME})(?:  # ?(?P<title>.*))?"
)
_LAYER = re.compile(
    rf"(?P<output>{_NAME}) = (?P<kind>\w+)\((?P<inputs>{_NAMES.pattern})\)"
    r"(?P<words>.*?)(?: -> (?P<type>.*))?"
)
_REMOVED = r"\d+(?:-\d+)?=(?:-?\d+|\?)"
_TENSOR = re.compile(
    rf"({HALVES}|[ui]\d+) \((\d+), (\d+), (\d+)\) \[(-?\d+), (-?\d+)\]"
    r"(?: scales? (?P<scale>[\d.e+,-]+) zero (?P<zero>-?\d+))?(?: offset (?P<offset>-?\d+))?"
    rf"(?: without (?P<removed>{_REMOVED}(?:,{_REMOVED})*))?"
)
_FORM = re.compile(
    rf"form (?P<name>{_NAME}): order (?P<order>[CHW]{{3}})(?: source (?P<source>{_NAME}))?"
    r"(?P<even> even)?(?: apart (?P<apart>\d+))?"
)
_FILE = re.compile(rf"tensor (?P<name>{_NAME})")
_ARRAY = re.compile(r"(?P<name>\w+) \((?P<shape>[\d, ]+)\) = (?P<values>.*)")
_RANDOM = re.compile(r"random\((\d+), (-?\d+), (-?\d+)\)")
_HEX = re.compile(r"hex i(8|16|32|64) ")
_ACC = re.compile(r"acc \[(-?\d+), (-?\d+)\]")
_BITS = re.compile(r"(\d+) bit, values \[(-?\d+), (-?\d+)\]")
_C = r"-?\d+|\[-?\d+(?:, -?\d+)*\]"
_REQUANT = re.compile(
    rf"(?:(?P<operand>\w+): )?(?P<float32>f32 )?\(?acc(?: \* (?P<mul>{_C}))?"
    rf"(?: \+ (?P<add>{_C})(?: \| (?P<negative>{_C}))?)?(?: below (?P<turn>-?\d+))?\)?"
    r"(?: / (?P<div>\d+|2\^\d+))?(?: clip \[(?P<lo>-?\d+), (?P<hi>-?\d+)\])?"
)
_INDEX = re.compile(r"index (\d+)(?= |$)")


@dataclass(slots=True)
class _Lines:
    """What the lines of one layer say so far."""

    number: int
    head: re.Match[str]
    name: str
    tensor: str = ""
    arrays: dict[str, Array] = field(default_factory=dict)
    operands: dict[str, Requant] = field(default_factory=dict)
    requants: list[Requant] = field(default_factory=list)
    acc: tuple[int, int] | None = None
    bits: tuple[int, int, int] | None = None


def parse_graph(text: str, operators: Iterable[type[Operator]] = ()) -> Graph:
    """Return the Graph of a text.

    Args:
        text: What ``graph_text`` prints with constants, or a person writes.
        operators: Kinds of layers beyond those of the core.

    Raises:
        ValueError: Naming the line that is not understood, or without a layer or its output.
        NotSupported: As range analysis does.
    """
    name = reference = ""
    notes: list[str] = []
    tensors: dict[str, Tensor] = {}
    inputs: list[str] = []
    outputs: tuple[str, ...] = ()
    layers: list[_Lines] = []
    states: list[State] = []
    forms: dict[str, FileForm] = {}
    for number, line in enumerate(text.splitlines(), 1):
        found = line.strip()
        if not found:
            continue
        head, _, rest = found.partition(" ")
        if line[:1].isspace() and layers:
            _detail(layers[-1], found, number)
        elif line[:1].isspace() and states:
            states[-1] = _with_initial(states[-1], found, number)
        elif head == "network":
            name = rest
        elif head == "reference":
            reference = rest
        elif head == "note":
            notes.append(rest)
        elif head == "output":
            outputs = _names(rest, number)
        elif match := _INPUT.fullmatch(found):
            key = _name(match["name"])
            tensors[key] = _tensor(key, match["type"], number)
            inputs.append(key)
        elif match := _STATE.fullmatch(found):
            key = _name(match["name"])
            tensors[key] = _tensor(key, match["type"], number)
            title, zeros = match["title"] or key, Array(np.zeros(tensors[key].shape, np.int8))
            states.append(State(title, key, _name(match["written"]), zeros))
        elif match := _FORM.fullmatch(found):
            forms[_name(match["name"])] = _form(match, number)
        else:
            body, node = [*re.split(r"  # ?", found, maxsplit=1), ""][:2]
            layer = _LAYER.fullmatch(body)
            if layer is None:
                raise _wrong(number, f"{found!r} is no input, layer or output")
            layers.append(_Lines(number, layer, node))
    ops, ranges = _typed(layers, tensors, by_name(*operators))
    if not ops or not outputs or not set(outputs) <= set(tensors):
        raise ValueError("no layers, or no output that one of them computes")
    graph = Graph(
        name,
        tuple(inputs),
        outputs,
        ops,
        tensors,
        ranges,
        tuple(notes),
        reference,
        tuple(states),
        forms,
    )
    check_states(graph)
    return graph


def _typed(
    layers: Iterable[_Lines], tensors: dict[str, Tensor], kinds: Mapping[str, type[Operator]]
) -> tuple[tuple[Operator, ...], tuple[LayerRanges, ...]]:
    """Return the operators and what is proven about each; their outputs join the tensors."""
    ops, ranges = list[Operator](), list[LayerRanges]()
    for position, lines in enumerate(layers):
        op, output, proven = _layer(lines, tensors, position, kinds)
        tensors[output.name] = output
        ops.append(op)
        ranges.append(proven)
    return tuple(ops), tuple(ranges)


def _form(match: re.Match[str], number: int) -> FileForm:
    """Return how a tensor stands in the file."""
    first, second, third = ("CHW".index(axis) for axis in match["order"])
    if len({first, second, third}) < 3:
        raise _wrong(number, f"{match['order']!r} is no order of C, H and W")
    source = _name(match["source"]) if match["source"] else ""
    order = (first, second, third)
    return FileForm(order, source, match["even"] is not None, int(match["apart"] or 0))


def _with_initial(state: State, text: str, number: int) -> State:
    """Return a state with the initial values of its second line; without one they are 0."""
    match = _ARRAY.fullmatch(text)
    if match is None or match["name"] != "initial":
        raise _wrong(number, f"{text!r} are no initial values of a state")
    return replace(state, initial=_array(match["shape"], match["values"], number))


def _wrong(number: int, text: str) -> ValueError:
    return ValueError(f"line {number}: {text}")


def _name(text: str) -> str:
    return str(json.loads(text)) if text.startswith('"') else text


def _names(text: str, number: int) -> tuple[str, ...]:
    if not _NAMES.fullmatch(text):
        raise _wrong(number, f"{text!r} are no names")
    return tuple(_name(one) for one in re.findall(_NAME, text))


def _tensor(name: str, text: str, number: int) -> Tensor:
    match = _TENSOR.fullmatch(text)
    if match is None:
        raise _wrong(number, f"{text!r} is no type, such as 'u8 (3, 32, 32) [0, 255]'")
    c, h, w, lo, hi = (int(value) for value in match.groups()[1:6])
    halves = match[1] == HALVES
    bits, signed = (16, False) if halves else (int(match[1][1:]), match[1][0] == "i")
    scales = tuple(map(float, match["scale"].split(","))) if match["scale"] else ()
    scale, several = (scales[0], ()) if len(scales) == 1 else (None, scales)
    zero, offset = int(match["zero"] or 0), int(match["offset"] or 0)
    removed = parse_removed(match["removed"]) if match["removed"] else ()
    return Tensor(
        name, c, h, w, lo, hi, bits, signed, scale, zero, offset, removed, halves, several
    )


def _detail(lines: _Lines, text: str, number: int) -> None:
    if match := _ARRAY.fullmatch(text):
        lines.arrays[match["name"]] = _array(match["shape"], match["values"], number)
    elif match := _FILE.fullmatch(text):
        lines.tensor = _name(match["name"])
    elif match := _ACC.fullmatch(text):
        lines.acc = (int(match[1]), int(match[2]))
    elif match := _BITS.fullmatch(text):
        lines.bits = (int(match[1]), int(match[2]), int(match[3]))
    elif match := _REQUANT.fullmatch(text):
        if match["operand"]:
            lines.operands[match["operand"]] = _requant(match)
        else:
            lines.requants.append(_requant(match))
    else:
        hint = "; constants are left out, print them" if ".." in text else ""
        raise _wrong(number, f"{text!r} is nothing that a layer has{hint}")


def _requant(match: re.Match[str]) -> Requant:
    def constants(text: str | None, default: int) -> tuple[int, ...]:
        return (default,) if text is None else tuple(int(v) for v in text.strip("[]").split(","))

    div = match["div"] or "1"
    divisor = 1 << int(div[2:]) if div.startswith("2^") else int(div)
    lo, hi = (None if match[key] is None else int(match[key]) for key in ("lo", "hi"))
    negative = None if match["negative"] is None else constants(match["negative"], 0)
    mul, add = constants(match["mul"], 1), constants(match["add"], 0)
    turn, float32 = int(match["turn"] or 0), match["float32"] is not None
    return Requant(mul, add, divisor, lo, hi, negative, turn, float32)


def _array(shape_text: str, text: str, number: int) -> Array:
    shape = tuple(int(size) for size in shape_text.split(",") if size.strip())
    count = int(np.prod(shape))
    values: Any
    if match := _RANDOM.fullmatch(text):
        seed, lo, hi = (int(value) for value in match.groups())
        values = np.random.default_rng(seed).integers(lo, hi, count, endpoint=True)
    elif match := _HEX.match(text):
        data = bytes.fromhex(text[match.end() :])
        values = np.frombuffer(data, f"<i{int(match[1]) // 8}")
    else:
        values = np.array([int(value) for value in text.split()], np.int64)
        if values.size == 1:
            values = np.full(count, values[0])
    if values.size != count:
        raise _wrong(number, f"{values.size} values for the shape ({shape_text})")
    return Array(values.reshape(shape))


def _layer(
    lines: _Lines,
    tensors: dict[str, Tensor],
    position: int,
    kinds: Mapping[str, type[Operator]],
) -> tuple[Operator, Tensor, LayerRanges]:
    """Return the operator with its output and ranges, those that are left out inferred."""
    op = _operator(lines, position, kinds)
    unknown = [name for name in op.inputs if name not in tensors]
    if unknown:
        raise _wrong(lines.number, f"no line before it computes the input {unknown[0]!r}")
    said = lines.head["type"]
    tensor = None if said is None else _tensor(op.output, said, lines.number)
    ranges = None if lines.acc is None else LayerRanges(*lines.acc, *(lines.bits or (0, 0, 0)))
    if tensor is None or ranges is None:
        inferred = infer_layer(op, tensors)
        tensor, ranges = tensor or inferred[0], ranges or inferred[1]
    return op, tensor, ranges


def _operator(lines: _Lines, position: int, kinds: Mapping[str, type[Operator]]) -> Operator:
    """Return the operator that the lines of a layer describe."""
    output, name = _name(lines.head["output"]), lines.head["kind"]
    numbered = re.fullmatch(r"layer_(\d+)", output)
    fields: dict[str, Any] = {
        "index": int(numbered[1]) if numbered else position,
        "name": lines.name or output,
        "inputs": _names(lines.head["inputs"], lines.number),
        "output": output,
        "requants": tuple(lines.requants),
        "tensor": lines.tensor,
    }
    if name not in kinds:
        raise _wrong(lines.number, f"{name} is no kind of layer")
    kind = kinds[name]
    words = _words(lines, kind)
    fields["index"] = words.pop("index", fields["index"])
    try:
        own = read_fields(kind, words, lines.arrays, lines.operands)
    except KeyError as error:
        raise _wrong(lines.number, f"{name} without or of unknown {error}") from None
    return kind(**fields, **own)


def _words(lines: _Lines, kind: type[Operator]) -> dict[str, Any]:
    """Return the fields that stand in the first line."""
    text, at = lines.head["words"].strip(), 0
    fields: dict[str, Any] = {}
    while at < len(text):
        if match := _INDEX.match(text, at):
            fields["index"], at = int(match[1]), match.end()
        elif found := read_word(kind, text, at):
            name, fields[name], at = found
        else:
            raise _wrong(lines.number, f"{text[at:]!r} is not understood")
        while text[at : at + 1] == " ":
            at += 1
    return fields
