"""Static shapes of all values, and folding of values that depend on shapes and constants only.

Only operators that occur around integer layers are known. A value of unknown shape is no error
here: it matters only when an integer layer reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import NotSupported, ops
from dory_onnx.broadcasting import broadcast, multiplied
from dory_onnx.folding import FOLDS, Fold
from dory_onnx.model import Node, OnnxModel, whole_numbers
from dory_onnx.movers import factors_of, parts_of, permutation_of, ranges_of

Shape = tuple[int, ...]

_ROUNDINGS = frozenset(["Cast", "Floor", "Ceil", "Round", "Clip", "Identity", "Dropout"])
_ACTIVATIONS = frozenset(["Relu", "LeakyRelu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh"])
_SAME_SHAPE = _ROUNDINGS | _ACTIVATIONS | frozenset(["Softmax", "LogSoftmax", "BatchNormalization"])
_BROADCAST = frozenset(["Add", "Mul", "Div", "Sub", "Pow", "Max", "Min"])
_POOLS = ("MaxPool", "AveragePool")


def infer_shapes(model: OnnxModel, keeping: Collection[str] = ()) -> dict[str, Shape]:
    """Return the shape of every value that follows from the inputs; fold shape arithmetic.

    keeping: operators of a dialect whose result has the shape of their first input. Folded values
    become constants of ``model``.
    """
    shapes: dict[str, Shape] = dict(model.inputs)
    for node in model.nodes:
        folded = _fold(model, node, shapes)
        if folded is not None:
            model.define_constant(node.outputs[0], folded)
            continue
        if node.op == "Split":
            shapes.update(_split(model, node, shapes))
            continue
        if node.op in keeping and node.op not in _RULES:
            shape = shapes.get(node.input(0))
        else:
            shape = _shape_of(model, node, shapes)
        if shape is not None:
            shapes[node.outputs[0]] = shape
    return shapes


def window_of(
    node: Node, kernel: Sequence[int], size: Sequence[int], ceil: bool = True
) -> ops.Window:
    """Return the window of a Conv or pool node over an input of spatial ``size``.

    Args:
        kernel, size: One element for 1-D data, (vertical, horizontal) for 2-D data. 1-D becomes H =
            1.
        ceil: The pads hold what ceil_mode adds after the image.

    Raises:
        NotSupported: For attributes that do not fit together.
    """
    rank = len(size)
    if rank not in (1, 2):
        raise NotSupported(
            f"{node.label}: {rank}-dimensional windows are not supported",
            "pool rows and columns, then the third dimension" if node.op.endswith(_POOLS) else "",
        )
    strides = _ints(node, "strides", rank, 1)
    dilations = _ints(node, "dilations", rank, 1)
    if len(kernel) != rank or min(*kernel, *strides, *dilations) < 1:
        raise NotSupported(
            f"{node.label}: kernel {list(kernel)}, strides {list(strides)} and dilations"
            f" {list(dilations)} do not describe a window over {rank}-dimensional data"
        )
    pads = _ints(node, "pads", 2 * rank, 0)
    auto = node.attributes.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        begin, end = [], []
        for extent, k, s, d in zip(size, kernel, strides, dilations, strict=True):
            total = max((-(-extent // s) - 1) * s + (k - 1) * d + 1 - extent, 0)
            small = total // 2
            begin.append(small if auto == "SAME_UPPER" else total - small)
            end.append(total - begin[-1])
        pads = (*begin, *end)
    elif auto == "VALID":
        pads = (0,) * (2 * rank)
    elif auto != "NOTSET":
        raise NotSupported(f"{node.label}: attribute auto_pad = '{auto}' is unknown")
    if min(pads) < 0:
        raise NotSupported(f"{node.label}: negative pads {list(pads)} are not supported")
    if ceil and node.op.endswith(_POOLS) and node.attributes.get("ceil_mode", 0):
        pads = _rounded_up(size, kernel, strides, dilations, pads)
    if rank == 1:
        return ops.Window(
            kernel=(1, kernel[0]),
            strides=(1, strides[0]),
            dilations=(1, dilations[0]),
            pads=(0, pads[0], 0, pads[1]),
        )
    return ops.Window(
        kernel=(kernel[0], kernel[1]),
        strides=(strides[0], strides[1]),
        dilations=(dilations[0], dilations[1]),
        pads=(pads[0], pads[1], pads[2], pads[3]),
    )


def _rounded_up(
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> tuple[int, ...]:
    """Return the pads with which a pool reads the windows that ceil_mode adds.

    A window that would begin after the input is not added, as in onnxruntime and PyTorch.
    """
    rank = len(size)
    begin, end = list(pads[:rank]), list(pads[rank:])
    for axis, extent in enumerate(size):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        steps, rest = divmod(begin[axis] + extent + end[axis] - reach, strides[axis])
        if rest and (steps + 1) * strides[axis] < begin[axis] + extent:
            end[axis] += strides[axis] - rest
    return (*begin, *end)


def integers_of(model: OnnxModel, node: Node, name: str) -> tuple[int, ...] | None:
    """Return an attribute that newer operators read as their second input; None when it is no
    constant of integers."""
    content = node.attributes.get(name)
    if content is None:
        content = model.constant(node.input(1))
    return None if content is None else whole_numbers(content)


def _ints(node: Node, name: str, count: int, default: int) -> tuple[int, ...]:
    values = node.attributes.get(name)
    if values is None or len(values) == 0:
        return (default,) * count
    if len(values) != count:
        raise NotSupported(
            f"{node.label}: attribute {name} has {len(values)} values, expected {count}"
        )
    return tuple(int(v) for v in values)


def _shape_of(model: OnnxModel, node: Node, shapes: Mapping[str, Shape]) -> Shape | None:
    if node.op in _BROADCAST:
        return broadcast(model, node, shapes)
    if node.op == "Concat":
        return _joined(node, [shapes.get(value) for value in node.inputs])
    if node.op == "MatMul" and not model.is_constant(node.input(1)):
        return multiplied(node, [shapes.get(value) for value in node.inputs])
    first = shapes.get(node.input(0))
    if first is None:
        return None
    if node.op in _SAME_SHAPE:
        return first
    rule = _RULES.get(node.op)
    try:
        return None if rule is None else rule(model, node, first)
    except (ValueError, IndexError, ZeroDivisionError) as error:
        raise NotSupported(
            f"{node.label}: its attributes do not fit an input of shape {list(first)} ({error})"
        ) from error


def _joined(node: Node, operands: Sequence[Shape | None]) -> Shape | None:
    known = [shape for shape in operands if shape is not None]
    axis = int(node.attributes.get("axis", 1))
    if not known or len(known) < len(operands) or not -len(known[0]) <= axis < len(known[0]):
        return None
    axis %= len(known[0])
    if len({(*shape[:axis], *shape[axis + 1 :]) for shape in known}) > 1:
        shown = " and ".join(str(list(s)) for s in known)
        raise NotSupported(f"{node.label}: operands of shapes {shown} cannot be joined")
    total = sum(shape[axis] for shape in known)
    return (*known[0][:axis], total, *known[0][axis + 1 :])


def _gathered(model: OnnxModel, node: Node, shape: Shape) -> Shape | None:
    indices = model.constant(node.input(1))
    if indices is None:
        return None
    axis = range(len(shape))[int(node.attributes.get("axis", 0))]
    return (*shape[:axis], *np.shape(indices), *shape[axis + 1 :])


def reduced_axes(model: OnnxModel, node: Node, shape: Shape) -> set[int] | None:
    """Return the axes of a reduction over a value of ``shape``; None when they are no constants."""
    axes = integers_of(model, node, "axes")
    if axes is None and node.input(1):
        return None
    if not axes:
        return set() if node.attributes.get("noop_with_empty_axes", 0) else set(range(len(shape)))
    return {axis % len(shape) for axis in axes if -len(shape) <= axis < len(shape)}


def _reduced(model: OnnxModel, node: Node, shape: Shape) -> Shape | None:
    axes = reduced_axes(model, node, shape)
    if axes is None:
        return None
    if node.attributes.get("keepdims", 1):
        return tuple(1 if axis in axes else d for axis, d in enumerate(shape))
    return tuple(d for axis, d in enumerate(shape) if axis not in axes)


def _transposed(model: OnnxModel, node: Node, shape: Shape) -> Shape | None:
    order = permutation_of(node, len(shape))
    return None if order is None else tuple(shape[axis] for axis in order)


def _sliced(model: OnnxModel, node: Node, shape: Shape) -> Shape | None:
    taken = ranges_of(model, node, shape)
    if taken is None or not all(map(len, taken)):
        return None
    return tuple(len(one) for one in taken)


def _split(model: OnnxModel, node: Node, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    shape = shapes.get(node.input(0))
    parts = None if shape is None else parts_of(model, node, shape)
    if shape is None or parts is None:
        return {}
    axis, sizes = parts
    return {
        output: (*shape[:axis], size, *shape[axis + 1 :])
        for output, size in zip(node.outputs, sizes, strict=False)
    }


def _resized(model: OnnxModel, node: Node, shape: Shape) -> Shape | None:
    try:
        factors = factors_of(model, node, shape)
    except NotSupported:  # told by the import where a layer reads it
        return None
    return None if factors is None else (*shape[:2], shape[2] * factors[0], shape[3] * factors[1])


def _conv(model: OnnxModel, node: Node, shape: Shape) -> Shape | None:
    weight = model.constant(node.input(1))
    if weight is None or weight.ndim != len(shape):
        return None
    return (shape[0], int(weight.shape[0]), *_slid(node, weight.shape[2:], shape[2:]))


def _pool(model: OnnxModel, node: Node, shape: Shape) -> Shape | None:
    kernel = node.attributes.get("kernel_shape")
    return None if kernel is None else (*shape[:2], *_slid(node, kernel, shape[2:]))


def _slid(node: Node, kernel: Sequence[int], size: Shape) -> Shape:
    out = window_of(node, kernel, size).output_size(*((1, *size) if len(size) == 1 else size))
    if min(out) < 1:
        raise NotSupported(
            f"{node.label}: its window {list(kernel)} does not fit into the input {list(size)}"
        )
    return out[-len(size) :]


def _matrix(model: OnnxModel, node: Node, shape: Shape) -> Shape | None:
    weight = model.constant(node.input(1))
    if weight is None or weight.ndim != 2:
        return None
    return (*shape[:-1], int(weight.shape[0 if node.attributes.get("transB", 0) else 1]))


def _pad(model: OnnxModel, node: Node, shape: Shape) -> Shape | None:
    pads = integers_of(model, node, "pads")
    if pads is None or len(pads) != 2 * len(shape):
        return None
    return tuple(
        d + b + e for d, b, e in zip(shape, pads[: len(shape)], pads[len(shape) :], strict=True)
    )


def _flatten(model: OnnxModel, node: Node, shape: Shape) -> Shape:
    axis = int(node.attributes.get("axis", 1))
    return (int(np.prod(shape[:axis], dtype=np.int64)), int(np.prod(shape[axis:], dtype=np.int64)))


def _reshape(model: OnnxModel, node: Node, shape: Shape) -> Shape | None:
    wanted = integers_of(model, node, "shape")
    if wanted is None:
        return None
    target = list(wanted)
    if not node.attributes.get("allowzero", 0):
        target = [shape[i] if d == 0 and i < len(shape) else d for i, d in enumerate(target)]
    total = int(np.prod(shape, dtype=np.int64))
    if target.count(-1) == 1:
        rest = int(np.prod([d for d in target if d != -1], dtype=np.int64))
        target = [total // rest if d == -1 and rest else d for d in target]
    if int(np.prod(target, dtype=np.int64)) != total:
        raise NotSupported(f"{node.label}: cannot reshape {list(shape)} to {target}")
    return tuple(target)


def _squeeze(model: OnnxModel, node: Node, shape: Shape) -> Shape | None:
    axes = integers_of(model, node, "axes")
    if axes is None:
        if node.input(1):
            return None
        return tuple(d for d in shape if d != 1)
    drop = {a % len(shape) for a in axes}
    return tuple(d for i, d in enumerate(shape) if i not in drop)


def _unsqueeze(model: OnnxModel, node: Node, shape: Shape) -> Shape | None:
    axes = integers_of(model, node, "axes")
    if axes is None:
        return None
    rank = len(shape) + len(axes)
    new = {a % rank for a in axes}
    rest = iter(shape)
    return tuple(1 if i in new else next(rest) for i in range(rank))


_RULES: Mapping[str, Callable[[OnnxModel, Node, Shape], Shape | None]] = {
    "Conv": _conv,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "GlobalMaxPool": lambda model, node, shape: (*shape[:2], *(1 for _ in shape[2:])),
    "GlobalAveragePool": lambda model, node, shape: (*shape[:2], *(1 for _ in shape[2:])),
    "Gemm": _matrix,
    "MatMul": _matrix,
    "Pad": _pad,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Upsample": _resized,
    "Resize": _resized,
    "Transpose": _transposed,
    "Slice": _sliced,
    "Gather": _gathered,
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "IntegerMean"), _reduced),
}


def _fold(model: OnnxModel, node: Node, shapes: Mapping[str, Shape]) -> npt.NDArray[Any] | None:
    """Return the content of a node whose result is known before the network runs."""
    if node.op == "Shape":
        shape = shapes.get(node.input(0))
        part = slice(node.attributes.get("start", 0), node.attributes.get("end"))
        return None if shape is None else np.array(shape[part], dtype=np.int64)
    rule = _FOLDS.get(node.op)
    given = [name for name in node.inputs if name]
    if rule is None or not node.input(0) or not all(map(model.is_constant, given)):
        return None
    contents = [model.constant(v) if v else None for v in node.inputs]
    try:
        return rule(model, node, contents)
    except (ValueError, IndexError, TypeError, KeyError):
        return None


def _fold_reshaped(
    rule: Callable[[OnnxModel, Node, Shape], Shape | None],
) -> Fold:
    def fold(model: OnnxModel, node: Node, inputs: list[Any]) -> npt.NDArray[Any] | None:
        shape = rule(model, node, tuple(inputs[0].shape))
        return None if shape is None else np.asarray(inputs[0]).reshape(shape)

    return fold


_FOLDS: Mapping[str, Fold] = {
    **FOLDS,
    "Reshape": _fold_reshaped(_reshape),
    "Squeeze": _fold_reshaped(_squeeze),
    "Unsqueeze": _fold_reshaped(_unsqueeze),
    "Flatten": _fold_reshaped(_flatten),
}
