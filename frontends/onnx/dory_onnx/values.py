"""What an import begins with: values that stand for tensors, inputs, nodes that lead to layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dory_core.api import NotSupported, Tensor, UsageError
from dory_core.importing import FrontendOptions, ranges
from dory_onnx.arithmetic import Step
from dory_onnx.model import Node, OnnxModel
from dory_onnx.operators import Pads, chw_of

NO_PADS: Pads = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Value:
    """An ONNX value that stands for a tensor: zeros around it, arithmetic applied to it."""

    tensor: str
    pads: Pads = NO_PADS
    pad_node: Node | None = None
    steps: tuple[Step, ...] = ()


def input_tensors(model: OnnxModel, options: FrontendOptions) -> tuple[Tensor, ...]:
    """Return the inputs of a network. Raises UsageError or NotSupported."""
    bits, signed = options.input_bits, options.input_signed
    if not 1 <= bits <= 16:
        raise UsageError(f"an input of {bits} bits is not supported", "use 1 to 16 bits")
    lo, hi = ranges.value_range(bits, signed)
    storage, _ = ranges.storage_for(lo, hi)
    tensors = []
    for position, (name, shape) in enumerate(model.inputs.items()):
        chw = (shape[0], 1, 1) if len(shape) == 1 else chw_of(shape)
        if chw is None:
            raise NotSupported(
                f"input '{name}' has shape {list(shape)}: only [1, C, H, W], [1, C, L] and [1, F]"
                " are supported",
                "export the network for one image (batch 1)",
            )
        tensor = "input" if position == 0 else f"input_{position}"
        tensors.append(Tensor(tensor, *chw, lo, hi, storage, signed))
    return tuple(tensors)


def nodes_feeding_layers(model: OnnxModel, is_layer: Callable[[Node], bool]) -> frozenset[int]:
    """Return the positions of nodes that are a layer wherever they stand, or lead to one."""
    wanted: set[str] = set()
    feeding = set()
    for node in reversed(model.nodes):
        if is_layer(node) or wanted.intersection(node.outputs):
            feeding.add(node.position)
            wanted.update(i for i in node.inputs if not model.is_constant(i))
    return frozenset(feeding)
