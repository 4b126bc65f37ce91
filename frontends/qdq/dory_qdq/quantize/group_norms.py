"""Group normalisations written as torch.onnx writes them for opset 17: instances of groups.

onnxruntime puts the function of ONNX in their place, which computes its shapes in the network.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dory_core.api import NotSupported
from dory_qdq.quantize.editor import Editor, attributes_of, made

_OP = "GroupNormalization"


def rewrite_group_norms(name: str, proto: Any) -> None:
    """Put Reshape, InstanceNormalization, Reshape, Mul and Add in place of each, in place.

    Args:
        name: Of the file.
        proto: The model, of a batch of one.

    Raises:
        NotSupported: For one of an unknown shape, whose channels are no multiple of its groups, or
            whose scale or bias is computed.
    """
    from onnx import shape_inference

    editor = Editor(proto.graph)
    outputs = [node.output[0] for node in proto.graph.node if node.op_type == _OP]
    if not outputs:
        return
    inferred = Editor(shape_inference.infer_shapes(proto).graph)
    for output in outputs:
        node = editor.maker(output, _OP)
        editor.replace([node], _written_out(name, editor, node, inferred.shape(node.input[0])))


def _written_out(name: str, editor: Editor, node: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return the nodes of one normalisation; their constants are stored."""
    attributes = attributes_of(node)
    groups = attributes.get("num_groups", 0)
    where = f"{name}: {_OP} '{node.name or node.output[0]}'"
    if len(shape) < 3 or min(shape) < 1 or groups < 1 or shape[1] % groups:
        raise NotSupported(
            f"{where}: its input has shape {list(shape)}, in {groups} groups; supported are shapes"
            " (1, channels, ...) that are known, with a multiple of the groups as channels",
            "export with a fixed input size; only the batch may be open",
        )
    result = node.output[0]
    channels = shape[1]
    constants = {
        "groups": np.array((1, groups, -1), np.int64),
        "ones": np.ones(groups, np.float32),
        "zeros": np.zeros(groups, np.float32),
        "shape": np.array(shape, np.int64),
    }
    for part, source in zip(("scale", "bias"), node.input[1:], strict=True):
        stored = editor.constant(source)
        if stored is None or stored.size not in (groups, channels):
            found = "computed" if stored is None else f"of shape {list(stored.shape)}"
            raise NotSupported(
                f"{where}: its {part} is {found}; supported are constants of {channels} values",
                "export the network with constant weights",
            )
        # One value per group up to opset 20, one per channel since.
        spread = np.repeat(stored.reshape(-1), channels // stored.size)
        constants[part] = spread.reshape(channels, *(1 for _ in shape[2:]))
    names = {part: editor.store(f"{result}_{part}", v) for part, v in constants.items()}
    grouped, normal, image, scaled = (
        f"{result}_{part}" for part in ("grouped", "normal", "image", "scaled")
    )
    instance = [grouped, names["ones"], names["zeros"]]
    epsilon = attributes.get("epsilon", 1e-5)
    return [
        made("Reshape", [node.input[0], names["groups"]], grouped),
        made("InstanceNormalization", instance, normal, epsilon=epsilon),
        made("Reshape", [normal, names["shape"]], image),
        made("Mul", [image, names["scale"]], scaled),
        made("Add", [scaled, names["bias"]], result),
    ]
