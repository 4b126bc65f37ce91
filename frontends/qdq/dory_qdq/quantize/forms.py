"""Operators that torch writes and onnxruntime's quantiser leaves in reals, in a form that it takes.

Differences and quotients of constants, batch normalisations after no convolution, and the three
operands of an attention that are parts of one tensor; norms that are written out: ``norms``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dory_qdq.quantize.editor import Editor, attributes_of, made
from dory_qdq.quantize.norms import unit_length, written_norm

#: What a mask of an attention is at least: the share of an element is e^-32 of what it would be. A
#: mask of -3e38 would leave the scale of the sum no room for the scores.
_LEAST_MASK = -32.0
#: A constant before a Softmax is a mask where it is below.
_MASKED = -1e4
#: Of queries, keys and values in a tensor (1, steps, 3, heads, size), and what each is then.
_PARTS_FIRST, _HEADS_FIRST = [2, 0, 3, 1, 4], [0, 2, 1, 3]


def rewrite_forms(proto: Any) -> bool:
    """Rewrite all such operators of a model with known shapes, in place; True if there were any."""
    editor = Editor(proto.graph)
    rules = {
        "Sub": _difference,
        "Div": _quotient,
        "BatchNormalization": _batch_norm,
        "Gather": _attention_operands,
        "Slice": _attention_operands,
        "Split": _attention_operands,
        "Softmax": _mask,
        "ReduceL2": unit_length,
        "Sqrt": written_norm,
    }
    changed = False
    for output, kind in [(n.output[0], n.op_type) for n in proto.graph.node if n.op_type in rules]:
        node = editor.maker(output, kind)
        changed |= node is not None and rules[kind](editor, node)
    return changed


def _difference(editor: Editor, node: Any) -> bool:
    """Write x - constant as a sum."""
    values = editor.constant(node.input[1])
    if values is None or editor.constant(node.input[0]) is not None:
        return False
    other = editor.store(f"{node.output[0]}_negated", -values)
    editor.replace([node], [made("Add", [node.input[0], other], node.output[0])])
    return True


def _quotient(editor: Editor, node: Any) -> bool:
    """Write x / constant as a product."""
    values = editor.constant(node.input[1])
    real = values is not None and values.dtype == np.float32 and bool(np.all(values != 0))
    if values is None or not real or editor.constant(node.input[0]) is not None:
        return False
    other = editor.store(f"{node.output[0]}_inverse", (1 / values).astype(np.float32))
    editor.replace([node], [made("Mul", [node.input[0], other], node.output[0])])
    return True


def _batch_norm(editor: Editor, node: Any) -> bool:
    """Write a normalisation with constant statistics as a depthwise convolution."""
    shape = editor.shape(node.input[0])
    stored = [editor.constant(name) for name in node.input[1:5]]
    if len(shape) not in (3, 4) or any(values is None for values in stored):
        return False
    scale, bias, mean, variance = (np.asarray(values, np.float64) for values in stored)
    factors = scale / np.sqrt(variance + attributes_of(node).get("epsilon", 1e-5))
    kernel = [1] * (len(shape) - 2)
    output = node.output[0]
    weights = editor.store(f"{output}_weights", factors.astype(np.float32).reshape(-1, 1, *kernel))
    offsets = editor.store(f"{output}_bias", (bias - mean * factors).astype(np.float32))
    inputs = [node.input[0], weights, offsets]
    conv = made("Conv", inputs, output, group=shape[1], kernel_shape=kernel)
    editor.replace([node], [conv])
    return True


def _mask(editor: Editor, node: Any) -> bool:
    """Bound the constants that take elements out of a Softmax."""
    source = editor.maker(node.input[0], "Add", "Where")
    changed = False
    for position, name in enumerate(() if source is None else source.input):
        values = editor.constant(name)
        if values is not None and values.dtype == np.float32 and values.min() < _MASKED:
            bounded = np.maximum(values, np.float32(_LEAST_MASK))
            source.input[position] = editor.store(f"{source.output[0]}_mask", bounded)
            changed = True
    return changed


def _attention_operands(editor: Editor, node: Any) -> bool:
    """Take queries, keys and values from channels of (1, steps, 3 * heads * size) at once.

    torch makes five dimensions of them, (1, steps, 3, heads, size), turns those, and takes parts;
    onnxruntime has moved the Transpose after that.
    """
    whole, shape = editor.maker(node.input[0], "Reshape"), editor.shape(node.input[0])
    if whole is None or len(shape) != 5:
        return False
    _, steps, parts, heads, size = shape
    flat = (steps, parts * heads * size)
    source = editor.shape(whole.input[0])
    if source not in (flat, (1, *flat)):
        return False
    old, new = [node], []
    for part, name in _parts_of(editor, node):
        tail = [] if node.op_type == "Gather" else _tail_of(editor, name)
        if tail is None:
            return False
        output, wide = (tail[-1].output[0] if tail else name), heads * size
        ends = (part * wide,), ((part + 1) * wide,)
        numbers = (*ends, (len(source) - 1,), (1, steps, heads, size))
        names = [
            editor.store(f"{output}_{what}", np.array(values, np.int64))
            for what, values in zip(("from", "until", "axis", "shape"), numbers, strict=True)
        ]
        is_turned = len(tail) > 1
        apart = f"{output}_heads" if is_turned else output
        new += [
            made("Slice", [whole.input[0], *names[:3]], f"{output}_part"),
            made("Reshape", [f"{output}_part", names[3]], apart),
        ]
        new += [made("Transpose", [apart], output, perm=_HEADS_FIRST)] if is_turned else []
        old += tail
    if not new:
        return False
    is_last = len(editor.readers(whole.output[0])) == 1
    editor.replace([*old, *([whole] if is_last else [])], new, at=node)
    return True


def _parts_of(editor: Editor, node: Any) -> list[tuple[int, str]]:
    """Return the parts along dimension 2 that a node takes, each one deep, and their names."""
    if node.op_type == "Slice" and len(node.input) >= 4:
        begin, end, axis = (editor.scalar(name) for name in node.input[1:4])
        fits = axis == 2 and begin is not None and end == begin + 1
        return [(int(begin), node.output[0])] if fits and begin is not None else []
    if attributes_of(node).get("axis", 0) != 2:
        return []
    if node.op_type == "Gather":
        index = editor.constant(node.input[1])
        return [] if index is None or index.shape else [(int(index), node.output[0])]
    parts = editor.shape(node.input[0])[2]
    outputs = list(node.output)
    return list(enumerate(outputs)) if node.op_type == "Split" and len(outputs) == parts else []


def _tail_of(editor: Editor, part: str) -> list[Any] | None:
    """Return the nodes that remove the dimension of 1 of a part: Squeeze, maybe after Transpose."""
    turned = editor.reader(part, "Transpose")
    squeezed = editor.reader(part if turned is None else turned.output[0], "Squeeze")
    if squeezed is None or len(squeezed.input) < 2:
        return None
    if turned is None:
        return [squeezed] if editor.scalar(squeezed.input[1]) == 2 else None
    fits = attributes_of(turned).get("perm") == _PARTS_FIRST
    return [turned, squeezed] if fits and editor.scalar(squeezed.input[1]) == 0 else None
