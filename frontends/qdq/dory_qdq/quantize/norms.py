"""Norms that a network writes out, as one operator each, which onnxruntime's quantiser takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_qdq.quantize.editor import Editor, attributes_of, made


def written_norm(editor: Editor, node: Any) -> bool:
    """Write x / sqrt(mean(x * x) + epsilon) * weights, over the last dimension, as one operator.

    Where x is a difference from its mean it is a LayerNormalization, whose bias may follow, also
    over the channels of an image.

    Args:
        editor: The graph.
        node: The square root.
    """
    added = editor.maker(node.input[0], "Add")
    sums = () if added is None else tuple(added.input)
    mean = next((m for m in (editor.maker(n, "ReduceMean") for n in sums) if m is not None), None)
    if mean is None:
        return False
    epsilon = next((editor.scalar(name) for name in sums if name != mean.output[0]), None)
    square, x = _squared(editor, mean.input[0])
    shape, axis = editor.shape(x), _axis_of(editor, mean, x)
    quotient = None if axis is None else _quotient(editor, node, x, axis, shape[axis])
    if axis is None or quotient is None or epsilon is None:
        return False
    parts, weights = quotient
    chain = [square, mean, added, node, *parts]
    difference = editor.maker(x, "Sub")
    first = None if difference is None else editor.maker(difference.input[1], "ReduceMean")
    if first is None or first.input[0] != difference.input[0] or _axis_of(editor, first, x) != axis:
        return axis == len(shape) - 1 and _as_root_mean_square(editor, chain, x, weights, epsilon)
    end = parts[-1].output[0]
    moved = editor.reader(end, "Add")
    bias = _per_channel(editor, moved, end, axis, shape[axis])
    chain = [first, difference, *chain, *([] if bias is None else [moved])]
    if axis not in (1, len(shape) - 1) or not _is_closed(editor, chain):
        return False
    last = chain[-1].output[0]
    zeros = np.zeros(shape[axis], np.float32)
    values = {"weights": weights, "bias": zeros if bias is None else bias}
    constants = [editor.store(f"{last}_{part}", value) for part, value in values.items()]
    new = _normalised(editor, last, difference.input[0], axis, constants, epsilon)
    editor.replace(chain, new)
    return True


def axes_of(editor: Editor, node: Any) -> list[int]:
    """Return the axes of a reduction, an attribute or an input."""
    given = attributes_of(node).get("axes", [])
    values = editor.constant(node.input[1]) if len(node.input) > 1 else None
    return [int(axis) for axis in (given if values is None else values.reshape(-1))]


def _axis_of(editor: Editor, node: Any, x: str) -> int | None:
    """Return the axis of a mean of a tensor shaped like x, if it is over one and keeps it."""
    rank, axes = len(editor.shape(x)), axes_of(editor, node)
    keeps = attributes_of(node).get("keepdims", 1) == 1
    return axes[0] % rank if keeps and rank > 0 and len(axes) == 1 else None


def _as_root_mean_square(
    editor: Editor, chain: Sequence[Any], x: str, weights: npt.NDArray[Any], epsilon: float
) -> bool:
    if not _is_closed(editor, chain):
        return False
    output = chain[-1].output[0]
    inputs = [x, editor.store(f"{output}_weights", weights)]
    options = {"axis": -1, "epsilon": epsilon, "stash_type": 1}
    editor.replace(chain, [made("SimplifiedLayerNormalization", inputs, output, **options)])
    return True


def _is_closed(editor: Editor, chain: Sequence[Any]) -> bool:
    """Return True when nothing but the last of some nodes is read by others, or is an output."""
    made_here = {name for node in chain for name in node.output}
    inside = made_here - set(chain[-1].output)
    read = {r.output[0] for name in inside for r in editor.readers(name)}
    return read <= made_here and inside.isdisjoint(value.name for value in editor.graph.output)


def _quotient(
    editor: Editor, root: Any, x: str, axis: int, size: int
) -> tuple[list[Any], npt.NDArray[Any]] | None:
    """Return the nodes from a root on that make x / root * weights, and the weights."""
    inverse = editor.reader(root.output[0], "Reciprocal")
    last = root if inverse is None else inverse
    normal = editor.reader(last.output[0], "Div" if inverse is None else "Mul")
    if normal is None or (inverse is None and normal.input[1] != root.output[0]):
        return None
    parts = [*([] if inverse is None else [inverse]), normal]
    above = next((name for name in normal.input if name != last.output[0]), "")
    if above != x:  # weights * x / root
        scaled = editor.maker(above, "Mul")
        weights = _per_channel(editor, scaled, x, axis, size)
        return None if weights is None else ([scaled, *parts], weights)
    scaled = editor.reader(normal.output[0], "Mul")
    weights = _per_channel(editor, scaled, normal.output[0], axis, size)
    if weights is None:
        return parts, np.ones(size, np.float32)
    return [*parts, scaled], weights


def _per_channel(
    editor: Editor, node: Any, name: str, axis: int, size: int
) -> npt.NDArray[Any] | None:
    """Return the constant operand of a node that has a value for each place along an axis."""
    if node is None or name not in node.input or len(set(node.input)) < 2:
        return None
    values = editor.constant(next(other for other in node.input if other != name))
    if values is None or values.size != size:
        return None
    behind = len(editor.shape(name)) - axis - 1
    shape = values.shape[: values.ndim - behind]
    fits = values.ndim > behind and shape[-1] == size
    return values.reshape(-1).astype(np.float32) if fits else None


def _normalised(
    editor: Editor,
    output: str,
    x: str,
    axis: int,
    constants: Sequence[str],
    epsilon: float,
) -> list[Any]:
    """Return a LayerNormalization, between transposes where its axis is not the last one."""
    shape, options = editor.shape(x), {"axis": -1, "epsilon": epsilon}
    rank = len(shape)
    if axis == rank - 1:
        return [made("LayerNormalization", [x, *constants], output, **options)]
    there, back = [0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)]
    last, normal = f"{output}_last", f"{output}_normal"
    for name in (last, normal):
        editor.describe(name, [shape[n] for n in there])
    return [
        made("Transpose", [x], last, perm=there),
        made("LayerNormalization", [last, *constants], normal, **options),
        made("Transpose", [normal], output, perm=back),
    ]


def _squared(editor: Editor, name: str) -> tuple[Any, str]:
    """Return the node that makes a tensor and what it squares; (None, "") for another node."""
    node = editor.maker(name, "Pow", "Mul")
    if node is None:
        return None, ""
    x, other = node.input
    fits = x == other if node.op_type == "Mul" else editor.scalar(other) == 2
    return (node, x) if fits else (None, "")


def unit_length(editor: Editor, node: Any) -> bool:
    """Write x / max(its length, a tiny bound), as torch normalises, as one operator."""
    x, axes = node.input[0], axes_of(editor, node)
    if len(axes) != 1 or attributes_of(node).get("keepdims", 1) != 1:
        return False
    chain = [node]
    for kind in ("Clip", "Expand"):
        following = editor.reader(chain[-1].output[0], kind)
        chain += [] if following is None else [following]
    quotient = editor.reader(chain[-1].output[0], "Div")
    clips = [one for one in chain if one.op_type == "Clip"]
    bounds = [editor.scalar(clip.input[1]) for clip in clips]
    if quotient is None or quotient.input[0] != x or any(b is None or b > 1e-6 for b in bounds):
        return False
    normal = made("LpNormalization", [x], quotient.output[0], axis=axes[0], p=2)
    editor.replace([*chain, quotient], [normal])
    return True
