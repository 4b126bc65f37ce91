"""Goldens of a user's own file: onnxruntime runs it and every stored tensor is kept.

The meaning of a file is what onnxruntime computes at ORT_ENABLE_EXTENDED: it makes another network
of the file, whose integer operators give the tensors. They are named as the file names them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import NotSupported, UsageError
from dory_core.importing import GoldenRequest, load_arrays
from dory_qdq.importer import Imported, import_file
from dory_qdq.runtime import need_onnxruntime, quiet_session, reason_of, runtime_errors, silent
from dory_qdq.wide_sums import with_wide_sums

Array = npt.NDArray[Any]

#: Transposes stay where they are, so that tensors have the shapes of the file.
_KEPT = ("TransposeOptimizer", "TransposeOptimizer_CPUExecutionProvider")
_TURNED = "qdq_s8_to_u8_quant"
_INT8 = 3
_TRUTH = "tensor(bool)"
#: Operators of reals: what a QuantizeLinear after them stores is no result of one before them.
_NEVER_FUSED = frozenset(
    [
        *("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"),
        *("InstanceNormalization", "LpNormalization", "Div"),
        *("ReduceMin", "ReduceMax", "ReduceMean", "ReduceSum"),
    ]
)
_HINT = "check that onnxruntime runs the file: `dory golden` needs what it computes"


def golden_of(path: Path, request: GoldenRequest) -> dict[str, Array]:
    """Return the arrays of a golden; raises ToolMissing, NotSupported and UsageError."""
    need_onnxruntime()
    imported = import_file(path)
    fused = fuse(path, imported)
    if request.inputs:
        given: Iterator[dict[str, Array]] = (fused.read(file) for file in request.inputs)
    else:
        random = np.random.default_rng(request.seed)
        given = (fused.random(random) for _ in range(request.runs))
    return golden_arrays(fused, given)


@dataclass(frozen=True, slots=True, eq=False)
class Fused:
    """What onnxruntime made of a file.

    Attributes:
        made: The fused network, an onnx.ModelProto.
        session: Session of this network, with all stored tensors as outputs.
        stored: Name in the file and True for int8 there, by name in the session.
        shapes: Shapes of the inputs.
        imported: The network as it is read here.
    """

    name: str
    imported: Imported
    made: Any
    session: Any
    stored: Mapping[str, tuple[str, bool]]
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def truths(self) -> frozenset[str]:
        """Names of inputs that are truth values."""
        return frozenset(one.name for one in self.session.get_inputs() if one.type == _TRUTH)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return stored tensors by their names in the file."""
        try:
            with silent():
                found = self.session.run(list(self.stored), dict(inputs))
        except (*runtime_errors(), RuntimeError, ValueError) as error:
            raise NotSupported(
                f"{self.name}: onnxruntime does not run it ({reason_of(error)})", _HINT
            ) from error
        results = {}
        for (name, signed), values in zip(self.stored.values(), found, strict=True):
            turned = signed and values.dtype == np.uint8
            results[name] = (values.astype(np.int16) - 128).astype(np.int8) if turned else values
        return {name: values for name, values in results.items() if values.dtype.kind in "iu"}

    def random(self, random: np.random.Generator) -> dict[str, Array]:
        """Return network inputs over the whole range of what they are quantised to.

        Those that nothing reads are zero.
        """
        found = {}
        for name, kind in self._types().items():
            if name not in self.imported.places:
                found[name] = np.zeros(self.shapes[name], kind)
                continue
            tensor = self.imported.graph.tensors[self.imported.places[name].tensor]
            if kind != np.float32:
                found[name] = random.integers(
                    tensor.lo, tensor.hi, self.shapes[name], endpoint=True
                ).astype(kind)
                continue
            scale = tensor.scale or 1.0
            ends = [(end - tensor.zero_point) * scale for end in (tensor.lo, tensor.hi)]
            found[name] = random.uniform(*ends, self.shapes[name]).astype(np.float32)
        return found

    def read(self, path: Path) -> dict[str, Array]:
        """Return the network inputs of one inference; raises UsageError."""
        arrays = load_arrays(path, "")
        found = {}
        for name, kind in self._types().items():
            shape = self.shapes[name]
            names = [f"in0__{name}", name, *(["", "input"] if len(self.shapes) == 1 else [])]
            array = next((arrays[known] for known in names if known in arrays), None)
            if array is None and name not in self.imported.places:
                array = np.zeros(shape, kind)  # nothing reads it
            if array is None or array.size != np.prod(shape):
                raise UsageError(
                    f"{path}: no array '{name}' of {np.prod(shape)} values for the network input",
                    "write it with numpy.savez, in the shape of the file",
                )
            found[name] = array.astype(kind).reshape(shape)
        return found

    def _types(self) -> dict[str, Any]:
        kinds = {
            "tensor(float)": np.float32,
            "tensor(int8)": np.int8,
            "tensor(uint8)": np.uint8,
            _TRUTH: np.bool_,
        }
        given = {one.name: one.type for one in self.session.get_inputs()}
        other = next((name for name, kind in given.items() if kind not in kinds), None)
        if other is not None:
            raise NotSupported(f"{self.name}: network input '{other}' is {given[other]}")
        return {name: kinds[kind] for name, kind in given.items()}


def fuse(path: Path, imported: Imported) -> Fused:
    """Return the network of a file after onnxruntime's fusions; raises NotSupported."""
    import onnx

    proto = onnx.load(str(path))
    for node in proto.graph.node:
        node.name = node.name or node.output[0]  # onnxruntime hands names to what it makes
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "fused.onnx"
        quiet_session(proto, path.name, optimised=written, kept=_KEPT, hint=_HINT)
        made = with_wide_sums(onnx.load(str(written)))
    graph = imported.graph
    wanted = {op.tensor for op in graph.ops if graph.form(op.output).source != op.tensor}
    stored = stored_tensors(proto, made, wanted)
    session = quiet_session(
        made, path.name, level="none", outputs=tuple(stored), kept=_KEPT, hint=_HINT
    )
    return Fused(path.name, imported, made, session, stored, _shapes(session))


def golden_arrays(
    fused: Fused, inferences: Sequence[Mapping[str, Array]] | Iterator[Mapping[str, Array]]
) -> dict[str, Array]:
    """Return the arrays of a golden, one inference after the other."""
    arrays: dict[str, Array] = {}
    for run, inputs in enumerate(inferences):
        arrays |= {f"in{run}__{name}": _as_numbers(values) for name, values in inputs.items()}
        arrays |= {f"run{run}__{name}": values for name, values in fused.run(inputs).items()}
    return arrays


def _as_numbers(values: Array) -> Array:
    """Return truth values as bytes, and others as they are."""
    return values.astype(np.uint8) if values.dtype == np.bool_ else values


def _shapes(session: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs; a dimension without a size is the batch of 1."""
    return {
        one.name: tuple(size if isinstance(size, int) else 1 for size in one.shape)
        for one in session.get_inputs()
    }


def stored_tensors(model: Any, made: Any, wanted: set[str]) -> dict[str, tuple[str, bool]]:
    """Return (name in the file, whether it is int8 there) of stored tensors of a fused network.

    onnxruntime gives tensors that become uint8 other names, and keeps those of operators. wanted:
    tensors of the file that keep their names.
    """
    nodes = {node.name: node for node in model.graph.node}
    readers = {name: node for node in model.graph.node for name in node.input}
    zeros = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    found = {
        name: (name, False) for node in made.graph.node for name in node.output if name in wanted
    }
    for one in made.graph.node:
        node = nodes.get(one.name)
        while node is not None and node.op_type != "QuantizeLinear":
            node = readers.get(node.output[0]) if node.output[0] != one.output[0] else None
            node = None if node is not None and node.op_type in _NEVER_FUSED else node
        if node is not None and _is_stored(one.output[0], node):
            signed = len(node.input) > 2 and zeros.get(node.input[2]) == _INT8
            found[one.output[0]] = node.output[0], signed
    return found


def _is_stored(name: str, rounding: Any) -> bool:
    """Return True when a tensor of the fused network is what a QuantizeLinear of the file gave."""
    return bool(name == rounding.output[0] or name.startswith(_TURNED))
