"""Group normalisations written as torch.onnx writes them for opset 17: instances of groups.

onnxruntime puts the function of ONNX in their place, which computes its shapes in the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dory_core.api import NotSupported

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
    from onnx import numpy_helper, shape_inference

    graph = proto.graph
    if not any(node.op_type == _OP for node in graph.node):
        return
    inferred = shape_inference.infer_shapes(proto).graph
    shapes = {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in (*inferred.input, *inferred.value_info, *inferred.output)
    }
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    nodes = []
    for node in graph.node:
        if node.op_type == _OP:
            shape = shapes.get(node.input[0], ())
            added, values = _written_out(name, node, shape, constants)
            nodes += added
            graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in values.items())
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def _written_out(
    name: str, node: Any, shape: tuple[int, ...], constants: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the nodes of one normalisation, and their constants by name."""
    from onnx import helper

    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
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
    values = {
        f"{result}_groups": np.array((1, groups, -1), np.int64),
        f"{result}_ones": np.ones(groups, np.float32),
        f"{result}_zeros": np.zeros(groups, np.float32),
        f"{result}_shape": np.array(shape, np.int64),
    }
    for part, source in zip(("scale", "bias"), node.input[1:], strict=True):
        stored = constants.get(source)
        if stored is None or stored.size not in (groups, channels):
            found = "computed" if stored is None else f"of shape {list(stored.shape)}"
            raise NotSupported(
                f"{where}: its {part} is {found}; supported are constants of {channels} values",
                "export the network with constant weights",
            )
        # One value per group up to opset 20, one per channel since.
        spread = np.repeat(stored.reshape(-1), channels // stored.size)
        values[f"{result}_{part}"] = spread.reshape(channels, *(1 for _ in shape[2:]))

    names = [f"{result}_{part}" for part in ("grouped", "normal", "image", "scaled")]
    grouped, normal, image, scaled = names
    _, ones, zeros, _, scale, bias = values
    calls = (
        ("Reshape", [node.input[0], f"{result}_groups"], grouped, {}),
        (
            "InstanceNormalization",
            [grouped, ones, zeros],
            normal,
            {"epsilon": attributes.get("epsilon", 1e-5)},
        ),
        ("Reshape", [normal, f"{result}_shape"], image, {}),
        ("Mul", [image, scale], scaled, {}),
        ("Add", [scaled, bias], result, {}),
    )
    nodes = [
        helper.make_node(op, inputs, [output], f"{output}_{op}", **options)
        for op, inputs, output, options in calls
    ]
    return nodes, values
