"""Which kernels compute each layer, and how they have its tensors: Graph -> BoundGraph.

Kernels are asked here and nowhere else: ``Kernel.accepts`` by :func:`rejection_of`, everything
else by :class:`dory_core.kernels.bound_kernel.BoundKernel`. Passes ask before binding which kernel
a layer would have if it were stored otherwise: that is another layer, so its answers are no answers
about the layers that are bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from dory_core.errors import NotSupported
from dory_core.ir import Graph, Layer, Tensor
from dory_core.kernels.bound_kernel import BoundKernel, refusal
from dory_core.kernels.kernel import (
    Kernel,
    Rejection,
    Traits,
    kernel_error,
)

#: The candidate kernels of a layer, best first.
Candidates = Callable[[Layer], Sequence[Kernel]]

#: What stands for the empty name of an engine.
CORES = "cores"


@dataclass(frozen=True, slots=True)
class KernelRejection:
    """Why a candidate kernel was not taken.

    Attributes:
        kernel: Name of the kernel.
        reason: A sentence.
        engine: Engine of the kernel, empty for the cores.
        other_kind: Whether it computes other kinds of layers.
    """

    kernel: str
    reason: str
    engine: str = ""
    other_kind: bool = False

    @classmethod
    def of(cls, kernel: Kernel, rejection: Rejection | str) -> KernelRejection:
        """Return the record of a kernel that was not taken."""
        if isinstance(rejection, str):
            return cls(kernel.name, rejection, kernel.engine)
        return cls(kernel.name, rejection.reason, kernel.engine, rejection.other_kind)


@dataclass(frozen=True, slots=True)
class EngineRejection:
    """An engine that was preferred and does not compute a layer.

    Attributes:
        engine: Its name.
        reason: Why, in a sentence.
    """

    engine: str
    reason: str


@dataclass(frozen=True, slots=True)
class BoundLayer:
    """A layer with the kernels that accept it, best first.

    Attributes:
        layer: The layer.
        kernels: Those that accept it, best first.
        rejections: Of all other candidates, in order of preference.
        order: (kernel, engine) of every candidate, in order of preference.
    """

    layer: Layer
    kernels: tuple[BoundKernel, ...]
    rejections: tuple[KernelRejection, ...]
    order: tuple[tuple[str, str], ...]

    def sorted(self, rejections: Iterable[KernelRejection]) -> tuple[KernelRejection, ...]:
        """Return rejections in the order of preference of their kernels."""
        position = {name: n for n, (name, _) in enumerate(self.order)}
        return tuple(sorted(rejections, key=lambda r: position[r.kernel]))

    def part(self, layer: Layer, kernels: Iterable[BoundKernel]) -> BoundLayer:
        """Return a part of this layer on the kernels that accept it as well."""
        taken: list[BoundKernel] = []
        rejections = list(self.rejections)
        for bound in kernels:
            rejection = refusal(bound.kernel, layer)  # its layouts are those of the whole layer
            if rejection is None:
                taken.append(bound)
            else:
                rejections.append(KernelRejection.of(bound.kernel, rejection))
        return replace(self, layer=layer, kernels=tuple(taken), rejections=tuple(rejections))

    def passed_over(
        self, chosen: Kernel | None, rejections: Iterable[KernelRejection]
    ) -> tuple[EngineRejection, ...]:
        """Return each engine that was asked before the chosen kernel and is not that kernel's.

        The reason is that of the first kernel of the engine which computes layers of this kind.

        Args:
            chosen: The kernel; None when none computes the layer, and all were asked.
            rejections: Why kernels do not compute the layer.
        """
        asked = self.order
        if chosen is not None:
            asked = asked[: [name for name, _ in asked].index(chosen.name)]
        known = tuple(rejections)
        found = []
        for engine in dict.fromkeys(engine for _, engine in asked):
            mine = [r for r in known if r.engine == engine]
            if mine and (chosen is None or engine != chosen.engine):
                best = next((r for r in mine if not r.other_kind), mine[0])
                found.append(EngineRejection(engine or CORES, best.reason))
        return tuple(found)

    def not_supported(self) -> NotSupported:
        """Return the error of a layer that no kernel accepts."""
        reasons = "; ".join(f"{r.kernel}: {r.reason}" for r in self.rejections)
        return NotSupported(
            f"{self.layer.op.kind} '{self.layer.op.name}': no kernel computes it"
            + (f" ({reasons})" if reasons else ""),
            "change the layer so that one of the kernels accepts it, or add a kernel as a plugin",
        )


@dataclass(frozen=True, slots=True)
class BoundGraph:
    """A network with the kernels of its layers, in the order of execution.

    Attributes:
        graph: The network.
        layers: In the order of execution, with their kernels.
    """

    graph: Graph
    layers: tuple[BoundLayer, ...]


def bind(graph: Graph, candidates: Candidates) -> BoundGraph:
    """Return the network with the kernels that accept each layer, and why others do not.

    A layer may have no kernel: tiling it raises ``BoundLayer.not_supported``.
    """
    return BoundGraph(graph, tuple(bind_layer(one, candidates(one)) for one in graph.layers))


def bind_layer(layer: Layer, candidates: Sequence[Kernel]) -> BoundLayer:
    """Return one layer with those of ``candidates`` that accept it."""
    kernels: list[BoundKernel] = []
    rejections: list[KernelRejection] = []
    for kernel in candidates:
        answer = _ask(kernel, layer)
        if isinstance(answer, Rejection):
            rejections.append(KernelRejection.of(kernel, answer))
        else:
            kernels.append(answer)
    order = tuple((kernel.name, kernel.engine) for kernel in candidates)
    return BoundLayer(layer, tuple(kernels), tuple(rejections), order)


def first_accepting(kernels: Sequence[Kernel], layer: Layer) -> int:
    """Return the index of the first kernel that accepts a layer; their number when none does."""
    accepting = (n for n, kernel in enumerate(kernels) if rejection_of(kernel, layer) is None)
    return next(accepting, len(kernels))


def rejection_of(kernel: Kernel, layer: Layer) -> Rejection | None:
    """Return None when ``kernel`` computes ``layer`` and generated code can feed it, else why not.

    ``Kernel.accepts`` is the kernel's own half of the answer.
    """
    answer = _ask(kernel, layer)
    return answer if isinstance(answer, Rejection) else None


def bind_kernel(kernel: Kernel, layer: Layer) -> BoundKernel:
    """Return a kernel with how it handles a layer that it accepts."""
    traits: object = kernel.traits(layer)
    if not isinstance(traits, Traits):
        raise kernel_error(kernel, layer, f"answers {traits!r} to traits(), not Traits")
    return BoundKernel(kernel, replace(traits, inputs=traits.input_layouts(layer)), layer)


def _ask(kernel: Kernel, layer: Layer) -> BoundKernel | Rejection:
    found = refusal(kernel, layer)
    if found is not None:
        return found
    bound = bind_kernel(kernel, layer)
    return _storage_refusal(bound) or bound


def _storage_refusal(bound: BoundKernel) -> Rejection | None:
    """Return why copies cannot give a kernel the tensors of its layer in its layouts."""
    layer, traits = bound.layer, bound.traits
    tensors: tuple[Tensor, ...] = (*layer.inputs, layer.output)
    for tensor, layout in zip(tensors, (*traits.inputs, traits.output), strict=True):
        if not layout.is_hwc and tensor.bits != 8:
            return Rejection(
                f"layout {layout.name} takes elements of 8 bits, {tensor.name} has {tensor.bits}"
            )
    narrow = next((t for t in layer.inputs if t.bits < 8), None)
    if not traits.planar or narrow is None:
        return None
    return Rejection(
        f"it reads its input as CHW, but transfers move whole bytes and the channels of "
        f"{narrow.name} share them ({narrow.bits} bits each)"
    )


def bound_text(bound: BoundGraph) -> str:
    """Return the network as text: per layer its kernels, then why the others do not compute it."""
    lines = [f"network {bound.graph.name}"]
    for one in bound.layers:
        lines.append(f"{one.layer.output.name} = {one.layer.op.kind}  # {one.layer.op.name}")
        for number, found in enumerate(one.kernels, 1):
            lines.append(f"    {number}. {found.kernel.name}: {_layouts_text(one, found.traits)}")
        lines += [f"    not {r.kernel}: {r.reason}" for r in one.rejections]
    return "\n".join(lines) + "\n"


def _layouts_text(bound: BoundLayer, traits: Traits) -> str:
    tensors = zip(bound.layer.inputs, traits.inputs, strict=True)
    inputs = ", ".join(f"{tensor.name} as {layout.name}" for tensor, layout in tensors)
    tile = " (tiles as CHW)" if traits.planar else ""
    return f"{inputs}{tile} -> {bound.layer.output.name} as {traits.output.name}"
