"""A kernel with its answers about one layer: each question is asked once, about the whole layer."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from dory_core.errors import PluginError
from dory_core.expr import Expr, Number
from dory_core.hardware.target import OutputFile
from dory_core.ir import Layer
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
        far_constants: True when its constants lie in the second memory of their level.

    Raises:
        PluginError: From every question, when the kernel answers something else than it asks for.
    """

    kernel: Kernel
    traits: Traits
    layer: Layer
    far_constants: bool = False
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
        return refusal(self.kernel, part) is None

    @property
    def symbol(self) -> str:
        """The C function."""
        symbol: str = self._ask("symbol")
        return symbol

    @property
    def headers(self) -> tuple[str, ...]:
        """The headers of the function."""
        headers: object = self._ask("headers")
        if not isinstance(headers, tuple):  # the letters of a text are no headers
            raise self.error(f"answers {headers!r} to headers(), not a tuple")
        return headers

    @property
    def call(self) -> FunctionCall:
        """The call on one tile."""
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
        """The bytes of the function; None: the kernel does not say."""
        size = self._ask("code_bytes")
        return None if size is None else self._integer("code_bytes", size)

    @property
    def running_bytes(self) -> int | None:
        """The bytes of code that a call on a tile runs; None: the kernel does not say."""
        size = self._ask("running_bytes")
        return None if size is None else self._integer("running_bytes", size)

    @property
    def shared_code(self) -> dict[str, int]:
        """The bytes of functions that it shares with other kernels."""
        shared = self.kernel.shared_code(self.layer)
        return {name: self._integer("shared_code", size) for name, size in shared.items()}

    def constraints(self, tile: Tile) -> tuple[Constraint, ...]:
        """Return the kernel's conditions on a tile."""
        declared: object = self._ask("constraints", tile)
        if not isinstance(declared, (tuple, list)):
            raise self.error(f"answers {declared!r} to constraints(), not a tuple")
        return tuple(declared)

    def scratch_bytes(self, tile: Tile) -> Number:
        """Return the bytes of scratch memory of a call."""
        return self._number("scratch_bytes", tile)

    def weight_bytes(self, tile: Tile) -> Number:
        """Return the size of the constants of a tile."""
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
        """Return the estimated cycles of one call."""
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


def refusal(kernel: Kernel, layer: Layer) -> Rejection | None:
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
