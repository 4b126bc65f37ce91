"""The text form of a Graph: one line per tensor and layer, for people, tests and dumps.

``dory_core.ir.parse`` reads it back when it was printed with constants.
"""

from __future__ import annotations

import json
import re

from dory_core.ir.array import Array
from dory_core.ir.channels import removed_text
from dory_core.ir.graph import FileForm, Graph, Layer, State
from dory_core.ir.kinds.fields import constants_of, steps_of, words_of
from dory_core.ir.requant import Requant
from dory_core.ir.tensor import Tensor
from dory_core.quoting import visible

#: Arrays with more elements are printed as bytes in hexadecimal digits.
MOST_NUMBERS = 64

_PLAIN_NAME = re.compile(r"[\w./-]+")


def graph_text(graph: Graph, constants: bool = False) -> str:
    """Return the network as text.

    Each layer is one line ``output = Kind(inputs) parameters -> type (C, H, W) [lo, hi]``, followed
    by indented lines for its accumulator, each requantisation and the arithmetic that they need.

    Args:
        graph: The network.
        constants: Whether they are printed in full, not only their range; ``parse_graph`` then
            gives an equal Graph.
    """
    lines = [f"network {_line(graph.name)}"]
    lines += [f"reference {_line(graph.reference)}"] if graph.reference else []
    lines += [f"note {_line(note)}" for note in graph.notes]
    lines += [f"input {_name(name)}: {_tensor(graph.tensors[name])}" for name in graph.inputs]
    for state in graph.states:
        lines += _state(state, graph.tensors[state.read], constants)
    for typed in graph.layers:
        lines += _layer(typed, constants)
    lines += [f"form {_name(name)}: {_form(form)}" for name, form in graph.forms.items()]
    lines.append(f"output {_names(graph.outputs)}")
    return "\n".join(lines) + "\n"


def _state(state: State, tensor: Tensor, constants: bool) -> list[str]:
    """Return the tensor that is read, the one that is left for the next inference, and the name."""
    head = f"state {_name(state.read)}: {_tensor(tensor)} from {_name(state.written)}"
    values = state.initial.values
    short = constants or values.min() == values.max()
    initial = array_text(state.initial) if short else f"[{values.min()}, {values.max()}]"
    return [f"{head}  # {_line(state.name)}", f"    initial {initial}"]


def _form(form: FileForm) -> str:
    """Return how a tensor stands in the file: order, name of its source, steps apart."""
    words = ["order " + "".join("CHW"[axis] for axis in form.order)]
    words += [f"source {_name(form.source)}"] if form.source else []
    words += ["even"] if form.ties_even else []
    words += [f"apart {form.apart}"] if form.apart else []
    return " ".join(words)


def _layer(typed: Layer, constants: bool) -> list[str]:
    layer, ranges = typed.op, typed.ranges
    words = [f"{_name(layer.output)} = {layer.kind}({_names(layer.inputs)})"]
    if layer.output != f"layer_{layer.index:02d}":
        words.append(f"index {layer.index}")
    values = []
    words += words_of(layer)
    if constants:
        values += [f"    {name} {array_text(array)}" for name, array in constants_of(layer).items()]
    if typed.bias is not None and not constants:
        words.append(f"bias [{typed.bias.values.min()}, {typed.bias.values.max()}]")
    words.append(f"-> {_tensor(typed.output)}  # {_line(layer.name)}")
    lines = [" ".join(words), *values]
    lines += [f"    tensor {_name(layer.tensor)}"] if layer.tensor else []
    lines.append(f"    acc [{ranges.acc_lo}, {ranges.acc_hi}]")
    named = steps_of(layer).items()
    lines += [f"    {name}: {requant_text(step, constants)}" for name, step in named]
    lines += [f"    {requant_text(step, constants)}" for step in layer.requants]
    if ranges.bits:
        lines.append(f"    {ranges.bits} bit, values [{ranges.value_lo}, {ranges.value_hi}]")
    return lines


def array_text(array: Array) -> str:
    """Return an array with its shape: one value for all, numbers in row-major order, or bytes.

    Bytes are little-endian elements of the named type, as hexadecimal digits.
    """
    values = array.values.reshape(-1)
    shape = ", ".join(str(size) for size in array.shape)
    if (values == values[0]).all():
        text = str(values[0])
    elif values.size <= MOST_NUMBERS:
        text = " ".join(str(value) for value in values.tolist())
    else:
        little = values.astype(values.dtype.newbyteorder("<"))
        text = f"hex i{8 * values.itemsize} {little.tobytes().hex()}"
    return f"({shape}) = {text}"


def requant_text(step: Requant, constants: bool = False) -> str:
    """Return a requantisation as one formula.

    Constants of channels are printed as [lowest..highest], or all of them; two addends as
    ``acc + ADD | ADD``, the second one for acc below 0, or below N where ``below N`` follows. Steps
    in binary32 are marked ``f32``, and there N is subtracted from acc first.
    """
    text = "acc" if step.mul == (1,) else f"acc * {_constants(step.mul, constants)}"
    if step.addends != ((0,),):
        text += " + " + " | ".join(_constants(add, constants) for add in step.addends)
    if step.turn:
        text += f" below {step.turn}"
    if step.div != 1:
        text = f"({text})" if " " in text else text
        text += " / " + (str(step.div) if step.shift is None else f"2^{step.shift}")
    text = f"f32 {text}" if step.float32 else text
    return text if step.lo is None else f"{text} clip [{step.lo}, {step.hi}]"


def _constants(values: tuple[int, ...], every: bool) -> str:
    if len(values) == 1:
        return str(values[0])
    if every:
        return f"[{', '.join(str(value) for value in values)}]"
    return f"[{min(values)}..{max(values)}]"


def _line(text: str) -> str:
    return visible(" ".join(text.split()))


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name)


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(_name(name) for name in names)


def _tensor(tensor: Tensor) -> str:
    words = [f"{tensor.type_name} {tensor.shape} [{tensor.lo}, {tensor.hi}]"]
    if tensor.scale is not None:
        words.append(f"scale {tensor.scale!r} zero {tensor.zero_point}")
    elif tensor.channel_scales:
        scales = ",".join(map(repr, tensor.channel_scales))
        words.append(f"scales {scales} zero {tensor.zero_point}")
    if tensor.offset:
        words.append(f"offset {tensor.offset}")
    if tensor.removed:
        words.append(f"without {removed_text(tensor.removed)}")
    return " ".join(words)
