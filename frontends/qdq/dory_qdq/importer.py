"""From a quantised ONNX file to a Graph: one walk over its operators.

DequantizeLinear, an operator and QuantizeLinear are one layer, as onnxruntime fuses them. So a real
operator waits (``Pending``) until a QuantizeLinear says what its result is rounded to; operators
that move elements are computed on stored integers at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from dory_onnx import Node, OnnxModel, clipped, load

from dory_core.api import Graph, NotSupported
from dory_core.importing import FrontendOptions, ranges
from dory_qdq.call import FIRST_HINT, QUANTISE_HINT, Call
from dory_qdq.decomposed import join_norms
from dory_qdq.double_pairs import join_pairs
from dory_qdq.forms import OPSETS, check_form, opset_of
from dory_qdq.fusion import MOVES, Fusion
from dory_qdq.host import SUMS, Outputs, after_integers, is_plain_sum
from dory_qdq.known import check_operators, check_stored, is_lowered, lower, move, moves
from dory_qdq.network import Network, input_axes
from dory_qdq.numerics import Quantisation, quantise
from dory_qdq.operators import choices, comparisons, movers
from dory_qdq.operators.tables import clip_bounds, clip_stored, requantised
from dory_qdq.parameters import constant_of, fold_clips, quantisation_of
from dory_qdq.qlinear import FORMS, quantised_form
from dory_qdq.values import (
    Constant,
    FloatInput,
    Mask,
    Pending,
    Place,
    QuantisedConstant,
    Real,
    Stored,
    Sums,
    Value,
)

REFERENCE = "onnxruntime"

_ACTIVATIONS = frozenset(["Relu", "Clip"])


@dataclass(frozen=True, slots=True)
class Imported:
    """A network and where values of the file lie in it, by name."""

    graph: Graph
    places: Mapping[str, Place]


def parse(path: Path, options: FrontendOptions) -> Graph:
    """Return the integer network of a quantised ONNX file.

    Raises: UsageError when the file is missing, NotSupported when it cannot be computed exactly.
    """
    return import_file(path).graph


def import_file(path: Path) -> Imported:
    """Return the network of a file with the places of its values; raises like :func:`parse`."""
    return _Import(join_norms(join_pairs(load(Path(path), check_form)))).run()


class _Import:
    """State of one import."""

    def __init__(self, model: OnnxModel) -> None:
        self.model = model
        self.network = Network(opset_of(model) or OPSETS[-1])
        fold_clips(model)
        self.fusion = Fusion(model)
        self.values: dict[str, Value] = {}
        self.places: dict[str, Place] = {}
        self.quantised: dict[tuple[str, Quantisation], Place] = {}
        self.after = after_integers(model.nodes)

    def run(self) -> Imported:
        """Walk over the operators and return the typed Graph."""
        check_operators(self.model, self.after)
        for name, shape in self.model.inputs.items():
            self.values[name] = FloatInput(name, shape)
        for node in self.model.nodes:
            if all(self.model.is_constant(output) for output in node.outputs):
                continue
            self._node(node)
        of_file = Outputs(
            self.network, self.values, lambda one, name: self._lowered(one, None, name)
        )
        found = [(name, one) for name in self.model.outputs for one in of_file.tensors(name)]
        network, outputs = self.network, [one for _, one in found]
        passed = all(name in network.inputs for name in outputs) and not of_file.left
        if not network.inputs or not (network.ops or passed):
            raise NotSupported(
                f"{self.model.path.name}: it holds no quantised layer", QUANTISE_HINT
            )
        network.notes.extend(of_file.note())
        network.notes.extend(ranges.shared_outputs([name for name, _ in found], outputs))
        graph = ranges.infer_types(
            self.model.path.stem,
            tuple(network.tensors[name] for name in network.inputs),
            tuple(network.ops),
            tuple(dict.fromkeys(outputs)),
            tuple(network.notes),
            REFERENCE,
            network.scales,
        )
        tensors = {
            name: replace(tensor, channel_scales=network.channel_scales.get(name, ()))
            for name, tensor in graph.tensors.items()
        }
        forms = {name: form for name, form in network.forms.items() if name in tensors}
        return Imported(replace(graph, tensors=tensors, forms=forms), dict(self.places))

    def _node(self, node: Node) -> None:
        op = node.op
        if op.endswith("DequantizeLinear"):
            self._dequantise(node)
        elif op.endswith("QuantizeLinear"):
            self._quantise(node)
        elif op.removeprefix("com.microsoft.") in FORMS:
            self._quantised_form(node)
        elif self._is_left(node):
            self._leave(node)
        elif moves(node):
            self._move(node)
        elif op == "Split":
            self._split(node)
        else:
            self._wait(node)

    def _is_left(self, node: Node) -> bool:
        """Return True for reals after the last integers, except sums of products."""
        if node not in self.after or node.op in SUMS:
            return False
        first = self._value(node, 0)
        if not moves(node) and node.op != "Split":
            return not (node.op == "Clip" and isinstance(first, Stored | Constant))
        return not isinstance(first, Real | Stored | FloatInput)

    def _leave(self, node: Node) -> None:
        """Leave an operator to the application, if an output of the network needs it."""
        inputs = tuple(self._value(node, n) for n in range(len(node.inputs)))
        if inputs and isinstance(inputs[0], Stored):
            check_stored(node)
        for name in node.outputs:
            self.values[name] = Pending(node, inputs)

    # --- quantisation -------------------------------------------------------------------------

    def _dequantise(self, node: Node) -> None:
        value = self._value(node, 0)
        if isinstance(value, Constant):
            self.values[node.outputs[0]] = constant_of(self.model, node, value.values)
            return
        x = quantisation_of(self.model, node, 1, 2)
        if isinstance(value, FloatInput):  # a network input of stored integers
            value = Stored(self._input(node.input(0), value, x), x.signed)
        if not isinstance(value, Stored):
            raise NotSupported(f"{node.label}: its input '{node.input(0)}' holds no integers")
        if value.signed != x.signed:
            raise NotSupported(
                f"{node.label}: its zero point has another type than '{node.input(0)}'"
            )
        self._scale(value.place, x)
        self.network.dequantised(value.place, node.outputs[0])
        self.values[node.outputs[0]] = Real(value.place, x)

    def _quantise(self, node: Node) -> None:
        value = self._value(node, 0)
        y = quantisation_of(self.model, node, 1, 2)
        name = node.outputs[0]
        if isinstance(value, Constant | QuantisedConstant):
            reals = value.reals if isinstance(value, QuantisedConstant) else value.values
            stored = quantise(reals, y.scale, y.zero_point, *y.bounds)
            kind = np.int8 if y.signed else np.uint8
            self.values[name] = Constant(stored.astype(kind))
            return
        known = self.quantised.get((node.input(0), y))
        place = known or self._rounded(node, value, y, name)
        self.quantised[node.input(0), y] = place
        self.values[name] = Stored(place, y.signed)
        self._keep(name, place)

    def _rounded(self, node: Node, value: Value | None, y: Quantisation, name: str) -> Place:
        """Return where the integers of a real value lie, computed by a new layer if need be."""
        if isinstance(value, FloatInput):
            return self._input(name, value, y)
        if isinstance(value, Pending):
            return self._lowered(value, y, name)
        if isinstance(value, Real):
            call = Call(node, self.network, (value,), y, name)
            source = requantised(call, value.place.tensor, value.x, y, y.bounds)
            return replace(value.place, tensor=source)
        if isinstance(value, Sums):
            raise NotSupported(f"{node.label}: the sums '{node.input(0)}' are quantised twice")
        raise NotSupported(f"{node.label}: its input '{node.input(0)}' holds integers already")

    def _input(self, name: str, value: FloatInput, x: Quantisation) -> Place:
        axes = input_axes(value)
        turned = any(node.op == "Transpose" for node, _ in value.moves)
        if turned and value.name not in self.network.tensors:
            name = value.name  # in the order of the reals
        place = self.network.add_input(name, value.shape, x, axes)
        if self.fusion.is_shared(value.name):
            self.network.shared.add(name)
        self.places[value.name] = place
        self.network.stands_for(place, value.name)
        for node, inputs in value.moves:
            call = Call(node, self.network, inputs, None, node.outputs[0])
            place = move(call, Real(place, x))
        return place

    def _lowered(self, pending: Pending, y: Quantisation | None, name: str) -> Place:
        """Append the layer of a waiting operator whose result is quantised to ``y``."""
        inputs = tuple(self._operand(pending, value) for value in pending.inputs)
        result = name if not pending.moves else ""
        node, lo, hi = pending.node, pending.lo, pending.hi
        integer = y is not None and self.fusion.is_integer(node, y, lo, hi)
        turned = y is not None and integer and self.fusion.is_turned(node, y)
        call = Call(node, self.network, inputs, y, result, lo, hi, turned, integer)
        place = lower(call)
        if isinstance(place, Sums):
            self.network.sums(place.place.tensor, place.scales, name)
            place = place.place
        elif y is not None:
            self._scale(place, y)
        if y is not None and not integer:
            self.network.is_apart(place.tensor)
        for node, others in pending.moves:
            assert y is not None
            place = move(Call(node, self.network, others, y, ""), Real(place, y))
        return place

    def _operand(self, pending: Pending, value: Value | None) -> Value | None:
        """Return an operand; sums that only an Add reads are computed as 32-bit numbers."""
        if pending.node.op != "Add" or not isinstance(value, Pending) or not is_plain_sum(value):
            return value
        call = Call(value.node, self.network, value.inputs, None, "")
        found = lower(call)
        assert isinstance(found, Sums)
        return found

    def _quantised_form(self, node: Node) -> None:
        inputs = tuple(self._value(node, n) for n in range(len(node.inputs)))
        form = quantised_form(self.model, node, inputs, self._dequantised)
        name = node.outputs[0]
        if form.y is None:
            self.values[name] = Pending(form.node, form.inputs)
            return
        call = Call(form.node, self.network, form.inputs, form.y, name)
        place = lower(call)
        assert isinstance(place, Place)
        self._scale(place, form.y)
        self.values[name] = Stored(place, form.y.signed)
        self._keep(name, place)

    def _dequantised(self, node: Node, position: int, value: Value | None, x: Quantisation) -> Real:
        """Return stored integers of an input of a QLinear operator with what they mean."""
        if isinstance(value, FloatInput):
            name = node.input(position)
            value = Stored(self._input(name, value, x), x.signed)
            self.values[name] = value
        if not isinstance(value, Stored) or value.signed != x.signed:
            raise NotSupported(
                f"{node.label}: its input '{node.input(position)}' holds no integers of the type"
                " of its zero point"
            )
        self._scale(value.place, x)
        return Real(value.place, x)

    def _move(self, node: Node) -> None:
        value = self._value(node, 0)
        others = (None, *(self._value(node, n) for n in range(1, len(node.inputs))))
        name = node.outputs[0]
        if isinstance(value, FloatInput):
            if node.op not in MOVES:
                raise NotSupported(
                    f"{node.label}: its input '{node.input(0)}' is not quantised", FIRST_HINT
                )
            self.values[name] = replace(value, moves=(*value.moves, (node, others)))
        elif isinstance(value, Pending):
            self.values[name] = replace(value, moves=(*value.moves, (node, others)))
        elif isinstance(value, Real | Stored | Mask):
            x = value.unscaled if isinstance(value, Stored) else value.x
            result = name if isinstance(value, Stored) else ""
            call = Call(node, self.network, (value, *others[1:]), None, result)
            place = move(call, Real(value.place, x))
            self._scaled_as(place, value.place)
            self.values[name] = replace(value, place=place)
            self._moved(name, value, place)
        elif value is None:
            raise NotSupported(f"{node.label}: it has no input")
        else:
            raise Call(node, self.network, (value,), None, name).unquantised(0)

    def _split(self, node: Node) -> None:
        value = self._value(node, 0)
        others = tuple(self._value(node, n) for n in range(1, len(node.inputs)))
        call = Call(node, self.network, (value, *others), None, "")
        if not isinstance(value, Real | Stored):
            raise call.unquantised(0)
        x = value.x if isinstance(value, Real) else value.unscaled
        for name, place in zip(node.outputs, movers.split(call, Real(value.place, x)), strict=True):
            self._scaled_as(place, value.place)
            self.values[name] = replace(value, place=place)
            self._moved(name, value, place)

    def _wait(self, node: Node) -> None:
        inputs = tuple(self._value(node, n) for n in range(len(node.inputs)))
        name = node.outputs[0]
        first = inputs[0] if inputs else None
        call = Call(node, self.network, inputs, None, name)
        if node.op == "Clip" and isinstance(first, Stored):
            place = clip_stored(call, first.place, first.unscaled)
            self._scaled_as(place, first.place)
            self.values[name] = replace(first, place=place)
            self._keep(name, place)
            return
        if node.op == "Clip" and isinstance(first, Constant):
            bounds = [value.values if isinstance(value, Constant) else None for value in inputs]
            self.values[name] = Constant(clipped(node, bounds))
            return
        if node.op in comparisons.READ_TRUTHS:
            inputs = (self._condition(node, first), *inputs[1:])
        known = choices.known_already(replace(call, inputs=inputs))
        if known is not None:
            self.values[name] = known
            return
        if isinstance(first, Stored):
            check_stored(node)
        if node.op in _ACTIVATIONS and isinstance(first, Pending) and is_lowered(first.node.op):
            lo, hi = clip_bounds(call)
            lows = [b for b in (lo, first.lo) if b is not None]
            highs = [b for b in (hi, first.hi) if b is not None]
            bounds = max(lows, default=None), min(highs, default=None)
            self.values[name] = replace(first, lo=bounds[0], hi=bounds[1])
            return
        for name in node.outputs:
            self.values[name] = Pending(node, inputs)

    def _condition(self, node: Node, value: Value | None) -> Value | None:
        """Return truth values that an operator reads, also those of a network input."""
        if not isinstance(value, FloatInput):
            return value
        if value.name in self.network.tensors:
            raise NotSupported(f"{node.label}: '{value.name}' is read in two forms", QUANTISE_HINT)
        mask = choices.mask_of_input(self.network, self._input(value.name, value, choices.TRUTH))
        self.values[node.input(0)] = mask
        return mask

    def _value(self, node: Node, position: int) -> Value | None:
        name = node.input(position)
        if not name:
            return None
        if name not in self.values:
            content = self.model.constant(name)
            if content is None:
                raise NotSupported(f"{node.label}: its input '{name}' is computed by no operator")
            self.values[name] = Constant(content)
        return self.values[name]

    def _moved(self, name: str, value: Real | Stored | Mask, place: Place) -> None:
        """Record where a moved value lies; reals get the name of what rounds them."""
        self.places[name] = place
        if isinstance(value, Stored):
            self.network.named(place, name)

    def _keep(self, name: str, place: Place) -> None:
        self.places[name] = place
        self.network.named(place, name)

    def _scale(self, place: Place, x: Quantisation) -> None:
        if place.tensor not in self.network.inputs:
            self.network.scales.setdefault(place.tensor, (x.scale, x.zero_point))

    def _scaled_as(self, place: Place, source: Place) -> None:
        found = self.network.scales.get(source.tensor)
        tensor = self.network.tensors[source.tensor]
        if found is None and tensor.scale is not None:
            found = tensor.scale, tensor.zero_point
        if found is not None and place.tensor != source.tensor:
            self.network.scales.setdefault(place.tensor, found)
