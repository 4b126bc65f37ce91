"""Which kernels compute each layer, and how they have its tensors: Graph -> BoundGraph.

Kernels are asked here and nowhere else: ``Kernel.accepts`` by :func:`rejection_of`, everything
else by :class:`BoundKernel`, which asks about the whole layer, and each question once. Passes ask
before binding which kernel a layer would have if it were stored otherwise: that is another layer,
so its answers are no answers about the layers that are bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from dory_core.errors import NotSupported, PluginError
from dory_core.expr import Expr, Number
from dory_core.hardware.target import OutputFile
from dory_core.ir import Graph, Layer, Tensor
from dory_core.ir.features import Feature
from dory_core.ir.geometry import Tile
from dory_core.kernels.call import FunctionCall
from dory_core.kernels.kernel import (
    Access,
    Constraint,
    Kernel,
    MemoryAccesses,
    Rejection,
    Term,
    Traits,
    WeightBlock,
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
class BoundKernel:
    """A kernel that computes a layer, with what it answers about the layer.

    A part of a layer is computed by the same function on the same constants. So a kernel is asked
    about the whole layer only: what it answers for a tile follows from the layer and the sizes of
    the tile, whichever part the tile belongs to. Each question is asked once.

    Attributes:
        kernel: The kernel.
        traits: How it handles the layer; all inputs have their layouts.
        layer: The whole layer.
    """

    kernel: Kernel
    traits: Traits
    layer: Layer
    _answers: dict[tuple[Any, ...], Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Return the answer of a method of the kernel; it is kept where the tile has numbers."""
        ask = getattr(self.kernel, method)
        if any(isinstance(a, Tile) and not _is_known(a) for a in arguments):
            return ask(self.layer, *arguments)
        key = (method, *arguments)
        if key not in self._answers:
            self._answers[key] = ask(self.layer, *arguments)
        return self._answers[key]

    def takes(self, part: Layer) -> bool:
        """Return True when the kernel computes a part of the layer as well."""
        return _refusal(self.kernel, part) is None

    @property
    def symbol(self) -> str:
        """The C function."""
        symbol: str = self._ask("symbol")
        return symbol

    @property
    def headers(self) -> tuple[str, ...]:
        """The headers of the function.

        Raises:
            PluginError: When the kernel answers something else.
        """
        headers: object = self._ask("headers")
        if not isinstance(headers, tuple):  # the letters of a text are no headers
            raise self.error(f"answers {headers!r} to headers(), not a tuple")
        return headers

    @property
    def call(self) -> FunctionCall:
        """The call on one tile.

        Raises:
            PluginError: When the kernel answers something else.
        """
        call: object = self._ask("call")
        if not isinstance(call, FunctionCall):
            raise self.error(f"answers {call!r} to call(), not a FunctionCall")
        reason = call.reason_against()
        if reason is not None:
            raise self.error(reason)
        return call

    @property
    def sources(self) -> tuple[OutputFile, ...]:
        """The files that the call needs."""
        sources: tuple[OutputFile, ...] = self._ask("sources")
        return sources

    @property
    def code_bytes(self) -> int | None:
        """The bytes of the function; None: the kernel does not say.

        Raises:
            PluginError: When the kernel answers something else.
        """
        size = self._ask("code_bytes")
        return None if size is None else self._integer("code_bytes", size)

    @property
    def shared_code(self) -> dict[str, int]:
        """The bytes of functions that it shares with other kernels.

        Raises:
            PluginError: When the kernel answers something else.
        """
        shared = self.kernel.shared_code(self.layer)
        return {name: self._integer("shared_code", size) for name, size in shared.items()}

    def constraints(self, tile: Tile) -> tuple[Constraint, ...]:
        """Return the kernel's conditions on a tile.

        Raises:
            PluginError: When the kernel answers something else.
        """
        declared: object = self._ask("constraints", tile)
        if not isinstance(declared, (tuple, list)):
            raise self.error(f"answers {declared!r} to constraints(), not a tuple")
        return tuple(declared)

    def scratch_bytes(self, tile: Tile) -> Number:
        """Return the bytes of scratch memory of a call.

        Raises:
            PluginError: When the kernel answers something else.
        """
        return self._number("scratch_bytes", tile)

    def weight_bytes(self, tile: Tile) -> Number:
        """Return the size of the constants of a tile.

        Raises:
            PluginError: When the kernel answers something else.
        """
        return self._number("weight_bytes", tile)

    def weight_block(self, c_out: tuple[int, int], c_in: tuple[int, int]) -> WeightBlock:
        """Return the constants of ranges of channels.

        Raises:
            PluginError: When there are none.
        """
        block: WeightBlock | None = self._ask("weight_block", c_out, c_in)
        if block is None:
            raise self.error("has weight_bytes but no weight_block")
        return block

    def cycles(self, tile: Tile) -> Number:
        """Return the estimated cycles of one call.

        Raises:
            PluginError: When the kernel answers something else.
        """
        return self._number("cycles", tile)

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Return the kernel's objective terms for a tile and its border tile.

        Args:
            layer: What is tiled: the layer, or its largest part.
            tile: Sizes as expressions, with border tile.

        Raises:
            PluginError: The kernel does not answer with terms.
        """
        found = self._terms(layer, tile)
        if tile.last is not None:
            border = self._terms(layer, tile.last)
            found += tuple(replace(term, name=f"{term.name}_BORDER") for term in border)
        return found

    def _terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        stated: object = self.kernel.terms(layer, tile)
        if not isinstance(stated, (tuple, list)) or not all(isinstance(t, Term) for t in stated):
            raise self.error(f"answers {stated!r} to terms(), not a tuple of Term")
        return tuple(stated)

    def accesses(self, tile: Tile, line_bytes: int) -> tuple[Access, ...] | None:
        """Return how a call goes through its operands in place; None: the kernel does not say."""
        if isinstance(self.kernel, MemoryAccesses):
            accesses: tuple[Access, ...] = self._ask("accesses", tile, line_bytes)
            return accesses
        return None

    def error(self, what: str) -> PluginError:
        """Return the error of a kernel that does not keep to its contract."""
        return kernel_error(self.kernel, self.layer, what)

    def _number(self, what: str, tile: Tile) -> Number:
        """Return a number that follows from a tile: an integer where the sizes are known."""
        value = self._ask(what, tile)
        if _is_known(tile):
            return self._integer(what, value)
        if value is None or (isinstance(value, int) and value < 0):
            raise self.error(f"says that its {what} are {value}")
        return value

    def _integer(self, what: str, value: Any) -> int:
        number = -1
        with suppress(TypeError, ValueError, OverflowError):
            number = int(value)
        if number < 0:
            raise self.error(f"says that its {what} are {value!r}")
        return number


def _is_known(tile: Tile) -> bool:
    """Return True when the sizes of a tile are numbers."""
    return not any(isinstance(size, Expr) for size in (tile.c_out, tile.h, tile.w, tile.c_in))


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
            rejection = _refusal(bound.kernel, layer)  # its layouts are those of the whole layer
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
    refusal = _refusal(kernel, layer)
    if refusal is not None:
        return refusal
    bound = bind_kernel(kernel, layer)
    return _storage_refusal(bound) or bound


def _refusal(kernel: Kernel, layer: Layer) -> Rejection | None:
    """Return why a kernel does not compute a layer, by its features and its own answer."""
    missing = sorted(layer.features - kernel.features)
    if Feature.OTHER_OPERAND in missing:  # a kernel may take two tensors of one shape for granted
        return Rejection(f"it does not know {Feature.OTHER_OPERAND}", other_kind=True)
    rejection: object = kernel.accepts(layer)
    if isinstance(rejection, Rejection):
        return rejection
    if rejection is not None:
        raise kernel_error(
            kernel, layer, f"answers {rejection!r} to accepts(), not None or a Rejection"
        )
    return Rejection(f"it does not know {missing[0]}") if missing else None


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
