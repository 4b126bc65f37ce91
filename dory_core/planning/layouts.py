"""Where tensors change their layout: between a producer and the consumers that want another one.

A conversion runs on the cores before the first layer that needs it and makes a copy whose padding
is zero, so that it serves every later consumer of that layout. Network inputs and outputs are HWC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from dory_core.hardware.memories import MemoryHierarchy
from dory_core.ir import Graph, Layer, Tensor
from dory_core.ir.layout import HWC, Layout
from dory_core.kernels.kernel import Traits
from dory_core.plan import Conversion, Place
from dory_core.plan.block_ids import BlockId


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in one layout.

    Attributes:
        name: Of its block; of what a layer writes, that of the tensor.
        tensor: Its logical shape and the width of its elements.
        layout: The order of its elements in memory.
    """

    name: str
    tensor: Tensor
    layout: Layout

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes."""
        return self.layout.size_bytes(self.tensor)


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    """Which form of each tensor the layers read and write, in the order of execution.

    Attributes:
        forms: By name of the block, in the order in which they are made.
        reads: Forms of the operands of each layer.
        writes: Form of its output.
        before: (source, target) of the conversions that run before each layer; after the last one
            those of network outputs and state.
        inputs: Names of the network inputs, which are HWC.
        outputs: Forms of the network outputs.
        states: Forms in which each state is read and left.
    """

    forms: Mapping[str, StoredTensor]
    reads: tuple[tuple[str, ...], ...]
    writes: tuple[str, ...]
    before: tuple[tuple[tuple[str, str], ...], ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    states: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "forms", MappingProxyType(dict(self.forms)))

    @property
    def sources(self) -> tuple[str, ...]:
        """What is there when the network begins."""
        return (*self.inputs, *(read for read, _ in self.states))

    @property
    def sinks(self) -> tuple[str, ...]:
        """What must be there when it ends, as its layers left it."""
        return tuple(dict.fromkeys((*self.outputs, *(left for _, left in self.states))))

    def makers(self) -> dict[str, int]:
        """Return the number of the layer that makes each form, -1 for what is there from the start.

        A conversion counts to the layer after it, those after the last layer to that one.
        """
        makers, end = dict.fromkeys(self.sources, -1), len(self.writes) - 1
        for n, pairs in enumerate(self.before):
            makers.update((target, min(n, end)) for _, target in pairs)
            if n <= end:
                makers[self.writes[n]] = n
        return makers

    def readers(self) -> dict[str, list[int]]:
        """Return the numbers of the layers that read each form, in order.

        Conversions count as in :meth:`makers`.
        """
        readers: dict[str, list[int]] = {name: [] for name in self.forms}
        end = len(self.writes) - 1
        for n, pairs in enumerate(self.before):
            for source, _ in pairs:
                readers[source].append(min(n, end))
            for name in dict.fromkeys(self.reads[n] if n <= end else ()):
                readers[name].append(n)
        return readers


def plan_layouts(graph: Graph, bound: Sequence[tuple[Layer, Traits]]) -> LayoutPlan:
    """Return the forms of all tensors for layers in this order, with layouts of their kernels."""
    builder = _Builder(graph)
    return builder.run(bound)


@dataclass(slots=True)
class _Builder:
    graph: Graph
    forms: dict[str, StoredTensor] = field(default_factory=dict)
    of_tensor: dict[str, list[StoredTensor]] = field(default_factory=dict)

    def run(self, bound: Sequence[tuple[Layer, Traits]]) -> LayoutPlan:
        for name in self.graph.sources:
            self._add(StoredTensor(name, self.graph.tensors[name], HWC))
        reads, writes, before = [], [], []
        for layer, traits in bound:
            conversions: list[tuple[str, str]] = []
            operands = zip(layer.inputs, traits.inputs, strict=True)
            reads.append(tuple(self._form(t, wanted, conversions) for t, wanted in operands))
            before.append(tuple(conversions))
            self._add(StoredTensor(layer.output.name, layer.output, traits.output))
            writes.append(layer.output.name)
        conversions = []
        tensors = self.graph.tensors
        ends = {n: self._form(tensors[n], HWC, conversions) for n in self.graph.sinks}
        before.append(tuple(conversions))
        return LayoutPlan(
            self.forms,
            tuple(reads),
            tuple(writes),
            tuple(before),
            self.graph.inputs,
            tuple(ends[name] for name in self.graph.outputs),
            tuple((state.read, ends[state.written]) for state in self.graph.states),
        )

    def _add(self, form: StoredTensor) -> None:
        self.forms[form.name] = form
        self.of_tensor.setdefault(form.tensor.name, []).append(form)

    def _form(self, tensor: Tensor, wanted: Layout, conversions: list[tuple[str, str]]) -> str:
        """Return the form of a tensor that serves ``wanted``; make it by a conversion if needed."""
        known = self.of_tensor[tensor.name]
        for form in known:
            if form.layout.serves(wanted, tensor):
                return form.name
        name = f"{tensor.name} as {wanted.name}"
        while name in self.forms or name in self.graph.tensors:
            name += "'"
        conversions.append((known[0].name, name))
        self._add(StoredTensor(name, tensor, _clean(wanted)))
        return name


def _clean(layout: Layout) -> Layout:
    return Layout(
        layout.name,
        layout.channel_block,
        layout.channel_multiple,
        layout.width_multiple,
        layout.reversed_bytes,
    )


def conversions_before(
    flow: LayoutPlan, n: int, blocks: Mapping[BlockId, Place], hierarchy: MemoryHierarchy
) -> tuple[Conversion, ...]:
    """Return the conversions before a layer; at the end for the number of layers.

    Args:
        flow: The forms of all tensors.
        n: Number of the layer; the number of layers for the end.
        blocks: Places of the blocks of L2.
        hierarchy: The memories of the target.
    """
    return tuple(
        Conversion(
            blocks[BlockId(source)], blocks[BlockId(target)], _cycles(flow.forms[target], hierarchy)
        )
        for source, target in flow.before[n]
    )


def _cycles(form: StoredTensor, hierarchy: MemoryHierarchy) -> int:
    """Return the estimated cycles of the conversion that makes a form."""
    filled = form.size_bytes if form.layout.padding_bytes(form.tensor) else 0
    copied = form.tensor.elements * hierarchy.conversion_cycles
    return round(copied + filled)
