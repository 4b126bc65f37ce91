"""The text form of a Graph: one line per tensor and layer, for people, tests and dumps.

``dory_core.ir.parse`` reads it back when it was printed with constants.
"""

from __future__ import annotations

import json
import re

from dory_core.ir import ops
from dory_core.ir.array import Array
from dory_core.ir.channels import removed_text
from dory_core.ir.graph import FileForm, Graph, Layer, State, Tensor
from dory_core.ir.ops import LSTM_STEPS, LogSoftmax, Lstm
from dory_core.ir.requant import Requant
from dory_core.quoting import visible

#: Arrays with more elements are printed as bytes in hexadecimal digits.
MOST_NUMBERS = 64

_PLAIN_NAME = re.compile(r"[\w./-]+")


def graph_text(graph: Graph, constants: bool = False) -> str:
    """Return the network as text.

    Each layer is one line ``output = Kind(inputs) parameters -> type (C, H, W) [lo, hi]``, followed
    by indented lines for its accumulator, each requantisation and the arithmetic that they need.
    constants: print them in full, not only their range; ``parse_graph`` then gives an equal Graph.
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
    if isinstance(layer, ops.Conv | ops.ConvTranspose | ops.MaxPool | ops.AvgPool):
        words.append(_window(layer.window))
    if isinstance(layer, ops.AvgPool) and not layer.counts_padding:
        words.append(f"inside origin {layer.origin}")
    if isinstance(layer, ops.AvgPool) and layer.real is not None:
        real = layer.real
        words.append(f"real {real.scale} {real.zero_point} to {real.out_scale} {real.out_zero}")
    if isinstance(layer, ops.Conv | ops.ConvTranspose | ops.Linear):
        words.append(f"w{layer.weight_bits}")
    words += _own_words(layer)
    if constants:
        values += [f"    {name} {array_text(array)}" for name, array in _arrays(layer).items()]
    if typed.bias is not None and not constants:
        words.append(f"bias [{typed.bias.values.min()}, {typed.bias.values.max()}]")
    words.append(f"-> {_tensor(typed.output)}  # {_line(layer.name)}")
    lines = [" ".join(words), *values]
    lines += [f"    tensor {_name(layer.tensor)}"] if layer.tensor else []
    lines.append(f"    acc [{ranges.acc_lo}, {ranges.acc_hi}]")
    if isinstance(layer, ops.Pairwise):
        for operand, step in zip(("x", "x2"), layer.operand_requants, strict=True):
            if step is not None:
                lines.append(f"    {operand}: {requant_text(step, constants)}")
    if isinstance(layer, Lstm):
        named = zip(LSTM_STEPS, layer.gates, strict=True)
        lines += [f"    {name}: {requant_text(step, constants)}" for name, step in named]
    lines += [f"    {requant_text(step, constants)}" for step in layer.requants]
    if ranges.bits:
        lines.append(f"    {ranges.bits} bit, values [{ranges.value_lo}, {ranges.value_hi}]")
    return lines


def _own_words(layer: ops.Op) -> list[str]:
    """Return the parameters that only the kind of the layer has, each with its name."""
    words: list[tuple[str, int | tuple[int, ...]]] = []
    if isinstance(layer, ops.Conv) and layer.groups > 1:
        words = [("groups", layer.groups)]
    elif isinstance(layer, ops.ConvTranspose) and layer.zero_point:
        words = [("zero", layer.zero_point)]
    elif isinstance(layer, ops.Softmax):
        words = [("factor", layer.factor)] if layer.factor else []
        words += [("share_bits", layer.share_bits)] if layer.share_bits != 8 else []
    elif isinstance(layer, Lstm) and layer.clip:
        words = [("clip", layer.clip)]
    elif isinstance(layer, ops.Concat):
        words = [("axis", layer.axis)]
    elif isinstance(layer, ops.Slice):
        words = [("begin", layer.begin), ("size", layer.size)]
        words += [("step", layer.step)] if layer.step != (1, 1, 1) else []
    elif isinstance(layer, ops.Pad):
        words = [("before", layer.before), ("after", layer.after), ("value", layer.value)]
    elif isinstance(layer, ops.Transpose):
        words = [("perm", layer.perm)]
    elif isinstance(layer, ops.Reshape):
        words = [("shape", layer.shape)]
    return [
        f"{name} {value if isinstance(value, int) else ','.join(str(one) for one in value)}"
        for name, value in words
    ]


def _arrays(layer: ops.Op) -> dict[str, Array]:
    """Return the constants of a layer by name."""
    found: dict[str, Array | None] = {}
    if isinstance(layer, ops.Conv | ops.ConvTranspose | ops.Linear):
        found = {"weights": layer.weights, "bias": layer.bias}
    elif isinstance(layer, Lstm):
        found = {"weights": layer.weights, "bias": layer.bias, "table": layer.table}
    elif isinstance(layer, ops.Pairwise):
        found = {"constant": layer.constant}
    elif isinstance(layer, ops.Lut | ops.Softmax | LogSoftmax):
        found = {"table": layer.table}
    elif isinstance(layer, ops.Resize):
        found = {"rows": layer.rows, "columns": layer.columns}
    return {name: array for name, array in found.items() if array is not None}


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


def _window(window: ops.Window) -> str:
    words = ["x".join(str(k) for k in window.kernel)]
    if window.strides != (1, 1):
        words.append("stride " + "x".join(str(s) for s in window.strides))
    if window.dilations != (1, 1):
        words.append("dilation " + "x".join(str(d) for d in window.dilations))
    if any(window.pads):
        words.append("pads " + ",".join(str(p) for p in window.pads))
    if window.pad_value:
        words.append(f"of {window.pad_value}")
    return " ".join(words)
