"""onnxruntime as the reference: what it computes of a file, as a golden, and in which form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import Graph

#: Operators of a fused network that compute no reals ...
_EXACT = ("QLinear", "QGemm", "QuantizeLinear", "DequantizeLinear")
#: ... and that move elements.
_MOVES = frozenset(
    ["MaxPool", "Reshape", "Transpose", "Slice", "Resize", "Pad", "Flatten", "Squeeze"]
)

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Inference:
    """What onnxruntime made of a network at ORT_ENABLE_EXTENDED.

    golden: its inputs and stored tensors, named as in a golden. reals: names of the operators that
    it computed in reals.
    """

    golden: Arrays
    reals: frozenset[str]

    def unexpected(self, graph: Graph) -> frozenset[str]:
        """Return the layers of which the import is wrong about who computes them in reals."""
        apart = {op.name for op in graph.ops if graph.form(op.output).apart}
        found = apart ^ (self.reals & {op.name for op in graph.ops})
        return frozenset(name for name in found if not _is_no_answer(name, graph))


def _is_no_answer(name: str, graph: Graph) -> bool:
    """Return whether the names of fused operators do not tell who computed a layer in reals.

    HardSwish is split into others there, a Clip may be one of stored integers, and layers that no
    integers reproduce have a note.
    """
    return name.startswith(("Clip", "HardSwish")) or any(
        f"'{name}'" in note for note in graph.notes
    )


def infer(model: bytes, folder: Path, seed: int = 0, inferences: int = 1) -> Inference:
    """Run a file with onnxruntime on random inputs. folder: for the network that it makes of it."""
    import onnx
    import onnxruntime as ort

    fused = folder / "fused.onnx"
    _session(ort, model, fused)
    made = onnx.load(str(fused))
    names = _stored_names(onnx.load_from_string(model), made)
    outputs = {output.name for output in made.graph.output}
    made.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in names if name not in outputs
    )
    session = _session(ort, made.SerializeToString())
    rng = np.random.default_rng(seed)
    golden: Arrays = {}
    for run in range(inferences):
        inputs = {
            i.name: rng.uniform(-1.5, 1.5, i.shape).astype(np.float32) for i in session.get_inputs()
        }
        golden |= {f"in{run}__{name}": values for name, values in inputs.items()}
        for name, values in zip(names, session.run(list(names), inputs), strict=True):
            stored, signed = names[name]
            turned = signed and values.dtype == np.uint8
            golden[f"run{run}__{stored}"] = values.astype(np.int64) - 128 if turned else values
    return Inference(golden, _reals(made))


def _session(ort: Any, model: bytes, fused: Path | None = None) -> Any:
    """Return a session of one thread; one that fuses writes what it made of the network.

    Transposes stay where they are, so that tensors have the shapes of the file.
    """
    options = ort.SessionOptions()
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_DISABLE_ALL
    if fused is not None:
        options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(fused)
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    kept = ["TransposeOptimizer", "TransposeOptimizer_CPUExecutionProvider"]
    return ort.InferenceSession(model, options, providers=providers, disabled_optimizers=kept)


def _stored_names(model: Any, made: Any) -> dict[str, tuple[str, bool]]:
    """Return (name in the file, whether it is int8 there) of stored tensors of a fused network.

    onnxruntime gives tensors that become uint8 other names, and keeps those of operators.
    """
    nodes = {node.name: node for node in model.graph.node}
    readers = {name: node for node in model.graph.node for name in node.input}
    zeros = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    found = {}
    for one in made.graph.node:
        node = nodes.get(one.name)
        while node is not None and node.op_type != "QuantizeLinear":
            node = readers.get(node.output[0]) if node.output[0] != one.output[0] else None
        if node is not None and _is_stored(one.output[0], node):
            signed = len(node.input) > 2 and zeros[node.input[2]] == 3  # INT8
            found[one.output[0]] = node.output[0], signed
    return found


def _is_stored(name: str, rounding: Any) -> bool:
    """Return whether a tensor of the fused network is what a QuantizeLinear of the file gave."""
    return name == rounding.output[0] or name.startswith("qdq_s8_to_u8_quant")


def _reals(made: Any) -> frozenset[str]:
    return frozenset(
        node.name.removeprefix("fused ")
        for node in made.graph.node
        if not node.op_type.startswith(_EXACT)
        and (node.op_type not in _MOVES or any(a.s == b"linear" for a in node.attribute))
    )


def write_golden(golden: Mapping[str, npt.NDArray[Any]], path: Path) -> Path:
    """Write a golden and return its path."""
    np.savez(path, **dict(golden))
    return path
