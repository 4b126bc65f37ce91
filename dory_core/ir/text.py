"""The text form of a Graph: one line per tensor and layer, for people and for ``--dump-stages``."""

from __future__ import annotations

from dory_core.ir.graph import Graph, Layer, Tensor
from dory_core.ir.ops import Add, AvgPool, Conv, Linear, MaxPool, Window
from dory_core.ir.requant import Requant


def graph_text(graph: Graph) -> str:
    """Return the network as text.

    Each layer is one line ``output = Kind(inputs) parameters -> type (C, H, W) [lo, hi]``, followed
    by indented lines for its accumulator, each requantisation and the arithmetic that they need.
    """
    lines = [f"network {graph.name}"]
    lines += [f"note {note}" for note in graph.notes]
    lines += [f"input {name}: {_tensor(graph.tensors[name])}" for name in graph.inputs]
    for typed in graph.layers:
        lines += _layer(typed)
    lines.append(f"output {', '.join(graph.outputs)}")
    return "\n".join(lines) + "\n"


def _layer(typed: Layer) -> list[str]:
    layer, ranges = typed.op, typed.ranges
    words = [f"{layer.output} = {layer.kind}({', '.join(layer.inputs)})"]
    if isinstance(layer, Conv):
        words += [_window(layer.window), f"w{layer.weight_bits}"]
        if layer.groups > 1:
            words.append(f"groups {layer.groups}")
    elif isinstance(layer, MaxPool | AvgPool):
        words.append(_window(layer.window))
    elif isinstance(layer, Linear):
        words.append(f"w{layer.weight_bits}")
    if isinstance(layer, Conv | Linear) and layer.bias is not None:
        bias = layer.bias.values
        words.append(f"bias [{bias.min()}, {bias.max()}]")
    words.append(f"-> {_tensor(typed.output)}  # {layer.name}")
    lines = [" ".join(words)]
    lines.append(f"    acc [{ranges.acc_lo}, {ranges.acc_hi}]")
    if isinstance(layer, Add):
        for name, step in zip(layer.inputs, layer.operand_requants, strict=True):
            if step is not None:
                lines.append(f"    {name}: {requant_text(step)}")
    lines += [f"    {requant_text(step)}" for step in layer.requants]
    if ranges.bits:
        lines.append(f"    {ranges.bits} bit, values [{ranges.value_lo}, {ranges.value_hi}]")
    return lines


def requant_text(step: Requant) -> str:
    """Return a requantisation as one formula; per-channel constants as [lowest..highest]."""
    text = "acc" if step.mul == (1,) else f"acc * {_constants(step.mul)}"
    if step.add != (0,):
        text += f" + {_constants(step.add)}"
    if step.div != 1:
        text = f"({text})" if " " in text else text
        text += " / " + (str(step.div) if step.shift is None else f"2^{step.shift}")
    return text if step.lo is None else f"{text} clip [{step.lo}, {step.hi}]"


def _constants(values: tuple[int, ...]) -> str:
    return str(values[0]) if len(values) == 1 else f"[{min(values)}..{max(values)}]"


def _tensor(tensor: Tensor) -> str:
    return f"{tensor.type_name} {tensor.shape} [{tensor.lo}, {tensor.hi}]"


def _window(window: Window) -> str:
    words = ["x".join(str(k) for k in window.kernel)]
    if window.strides != (1, 1):
        words.append("stride " + "x".join(str(s) for s in window.strides))
    if window.dilations != (1, 1):
        words.append("dilation " + "x".join(str(d) for d in window.dilations))
    if any(window.pads):
        words.append("pads " + ",".join(str(p) for p in window.pads))
    return " ".join(words)
