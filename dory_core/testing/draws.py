"""Generated cases for kernels: random layers that each kernel accepts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from typing import Any

import numpy as np

from dory_core.errors import UsageError
from dory_core.ir import Layer, Operator
from dory_core.kernels.kernel import Kernel
from dory_core.plugins.manager import Plugins, load_plugins
from dory_core.testing.cases import layer_cases, network_cases
from dory_core.testing.kernel_cases import KernelCase, longest_case, make_case, takes
from dory_core.testing.kind_cases import example_layers
from dory_core.testing.random_layers import OTHER_KINDS, LayerSpace, RandomLayers
from dory_core.testing.recipes import LARGE, LONG, OPTIONS, RECIPE_KINDS, Recipe, layer_of, starts

__all__ = ["Candidates", "Draws", "core_counts", "kernels_of_target", "names_of", "usual_layers"]

#: The candidate kernels of a layer.
Candidates = Callable[[Layer], Sequence[Kernel]]

_CORE = "dory_core."
_TRIES = 60  # of random layers of a kind without recipes
_EVERY = 5  # of recipes with three changes, which are many
_FORCED = 3  # properties of a layer that are taken from those not yet tested
_WIDE = 9  # bits of a weight that does not fit a byte
_BYTES = LayerSpace(inputs=((0, 255), (-128, 127)), outputs=((0, 255), (-128, 127)))


def kernels_of_target(
    target: str, settings: Iterable[tuple[str, str]] = (), plugins: Plugins | None = None
) -> Candidates:
    """Return the candidates of a target without the portable kernels of the core."""
    found = plugins or load_plugins()
    ctx = found.context(target, dict(settings))

    def candidates(layer: Layer) -> list[Kernel]:
        kernels = found.kernels(ctx, layer)
        return [k for k in kernels if not type(k).__module__.startswith(_CORE)]

    return candidates


def core_counts(target: str, settings: Iterable[tuple[str, str]] = ()) -> tuple[int, ...]:
    """Return the numbers of cores of a target besides those of the settings, ascending.

    They are values of its option ``cores``: up to its cores with the settings. Empty without one.
    """
    plugins = load_plugins()
    if not target or all(o.name != "cores" for o in plugins.target(target).options):
        return ()
    found = []
    for cores in range(1, plugins.context(target, dict(settings)).memory.cores):
        with suppress(UsageError):  # a number that it does not have
            plugins.context(target, {**dict(settings), "cores": str(cores)})
            found.append(cores)
    return tuple(found)


def _has_wide(layer: Layer) -> bool:
    weights = getattr(layer.op, "weights", None)
    return weights is not None and not -128 <= weights.bounds[0] <= weights.bounds[1] <= 127


@cache
def _samples() -> tuple[Layer, ...]:
    """Return the layers of the conformance matrix."""
    cases = (*layer_cases(), *network_cases())
    return tuple(layer for case in cases for layer in case.build().layers)


def _examples(operators: Iterable[type[Operator]]) -> tuple[Layer, ...]:
    """Return the examples of operators that plugins add."""
    return tuple(layer for _, build in example_layers(operators) for layer in build().layers)


def usual_layers(operators: Iterable[type[Operator]] = ()) -> tuple[Layer, ...]:
    """Return a layer of each kind and those of the conformance matrix.

    operators: kinds of layers that plugins add.
    """
    usual = (layer_of(Recipe(kind)) for kind in RECIPE_KINDS)
    found = (layer for layer in usual if layer is not None)
    return (*found, *_samples(), *_examples(operators))


def names_of(candidates: Candidates, operators: Iterable[type[Operator]] = ()) -> tuple[str, ...]:
    """Return the names of all kernels, in the order of preference.

    operators: kinds of layers that plugins add.
    """
    layers = usual_layers(operators)
    return tuple(dict.fromkeys(k.name for layer in layers for k in candidates(layer)))


@dataclass(slots=True)
class Draws:
    """Layers that a kernel accepts.

    Attributes:
        name: Name of the kernel among the candidates.
        operators: Kinds of layers that plugins add.
        recipes: The first of each kind that it accepts.
        fixed: Layers of the conformance matrix, of kinds without recipes, or where it accepts none
            of them.
    """

    candidates: Candidates
    name: str
    operators: tuple[type[Operator], ...] = ()
    recipes: dict[str, Recipe] = field(init=False)
    makers: tuple[str, ...] = field(init=False, default=())
    fixed: tuple[Layer, ...] = field(init=False, default=())

    _known: dict[Recipe, Layer | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.recipes = self._search(1) or self._search(2)
        if not self.recipes:
            own = (name for kind in self.operators for name in kind.samples)
            kinds = (*OTHER_KINDS, *own)
            self.makers = tuple(kind for kind in kinds if self._random(kind, 3) is not None)
            layers = (*_samples(), *_examples(self.operators))
            self.fixed = tuple(layer for layer in layers if self.kernel_for(layer) is not None)
        if not (self.recipes or self.makers or self.fixed):
            self.recipes = self._search(3)

    def kernel_for(self, layer: Layer) -> Kernel | None:
        """Return the kernel for a layer; None when it rejects the layer."""
        kernel = next((k for k in self.candidates(layer) if k.name == self.name), None)
        return kernel if kernel is not None and takes(kernel, layer) else None

    def cases(self, seed: int, count: int) -> list[KernelCase]:
        """Return ``count`` cases with tiles that the kernel's constraints allow.

        A case for each kind of layers that the kernel accepts with weights of 9 bits follows, and
        cases whose tiles are long. Raises UsageError for a kernel that accepts no random layer.
        """
        random = np.random.default_rng(seed)
        layers = (*self.layers(seed, count, random), *self._wide())
        drawn = [make_case(self._sure(layer), layer, random) for layer in layers]
        return drawn + self._long(seed, random)

    def _long(self, seed: int, random: np.random.Generator) -> list[KernelCase]:
        """Return a case for each form of LONG, of one of the kinds that the kernel accepts.

        The tile is the whole layer where constraints allow it. Tensors that only a kernel in place
        reads in one piece are left out for others.
        """
        cases = []
        for number, change in enumerate(LONG):
            kinds = np.roll(sorted(self.recipes), -(seed + number)).tolist()
            tried = (self.accepted(replace(self.recipes[kind], **change)) for kind in kinds)
            for layer in (layer for layer in tried if layer is not None):
                kernel = self._sure(layer)
                if change is LARGE and not kernel.traits(layer).in_place:
                    continue
                cases.append(longest_case(kernel, layer, random))
                break
        return cases

    def _wide(self) -> list[Layer]:
        """Return layers with weights of 9 bits, like uint8 weights minus their zero point."""
        wide = (replace(recipe, weight_bits=_WIDE) for recipe in self.recipes.values())
        return [
            layer for layer in map(self.accepted, wide) if layer is not None and _has_wide(layer)
        ]

    def _sure(self, layer: Layer) -> Kernel:
        kernel = self.kernel_for(layer)
        assert kernel is not None
        return kernel

    def layers(self, seed: int, count: int, random: np.random.Generator) -> list[Layer]:
        """Return at most ``count`` layers that the kernel accepts; raises UsageError."""
        kinds = (*self.recipes, *self.makers)
        if not kinds and not self.fixed:
            raise UsageError(
                f"kernel {self.name} never ran: it accepts no layer of the kit",
                "draw layers of its own for it: set `cases` of your KernelConformance",
            )
        walks = {kind: _Walk(self, recipe, random) for kind, recipe in self.recipes.items()}
        layers: list[Layer] = []
        for number in range(count):
            if not kinds or (self.fixed and number % 2):
                layers.append(self.fixed[int(random.integers(len(self.fixed)))])
                continue
            kind = kinds[number % len(kinds)]
            if kind in walks:
                layers.append(walks[kind].step())
                continue
            layer = self._random(kind, 1000 * seed + number)
            if layer is not None:
                layers.append(layer)
        return layers

    def _random(self, kind: str, seed: int) -> Layer | None:
        random = RandomLayers(_BYTES, seed, self.operators)
        layers = (random.layer(kind) for _ in range(_TRIES))
        return next((layer for layer in layers if self.kernel_for(layer) is not None), None)

    def accepted(self, recipe: Recipe) -> Layer | None:
        """Return the layer of a recipe if the kernel accepts it."""
        if recipe not in self._known:
            layer = layer_of(recipe)
            taken = layer is not None and self.kernel_for(layer) is not None
            self._known[recipe] = layer if taken else None
        return self._known[recipe]

    def _search(self, changes: int) -> dict[str, Recipe]:
        found = {}
        for kind in RECIPE_KINDS:
            if not self._other_kind(kind):
                tried = islice(starts(kind, changes), 0, None, _EVERY if changes > 2 else 1)
                first = next((r for r in tried if self.accepted(r) is not None), None)
                if first is not None:
                    found[kind] = first
        return found

    def _other_kind(self, kind: str) -> bool:
        """Return True when the kernel says that it computes other kinds of layers."""
        layer = layer_of(Recipe(kind))
        assert layer is not None
        kernel = next((k for k in self.candidates(layer) if k.name == self.name), None)
        rejection = None if kernel is None else kernel.accepts(layer)
        return rejection is not None and bool(getattr(rejection, "other_kind", False))


class _Walk:
    """A walk from one accepted layer to the next, a property at a time."""

    def __init__(self, draws: Draws, recipe: Recipe, random: np.random.Generator) -> None:
        self.draws, self.recipe, self.random = draws, recipe, random
        others = [
            (name, option)
            for name, options in OPTIONS.items()
            for option in options
            if option != getattr(recipe, name)
        ]
        some = [others[n] for n in random.permutation(len(others))]
        wanted = [(n, o) for n, o in some if draws.accepted(replace(recipe, **{n: o})) is not None]
        # Options that the first layer does not have come first, each once; options of the same
        # property are spread.
        seen = Counter[str]()
        turns: list[tuple[int, tuple[str, Any]]] = []
        for name, option in wanted:
            seen[name] += 1
            turns.append((seen[name], (name, option)))
        self.wanted = [one for _, one in sorted(turns, key=lambda turn: turn[0])]
        self.rest = dict[str, list[Any]]()
        for name, option in wanted:
            self.rest.setdefault(name, [getattr(recipe, name)]).append(option)

    def step(self) -> Layer:
        """Return the next layer."""
        recipe = self._seeded(self.recipe)
        changes: list[tuple[str, Any]] = []
        for name in self.random.permutation(sorted(self.rest)):
            options = self.rest[str(name)]
            if self.random.random() < 0.5:
                changes.append((str(name), options[int(self.random.integers(len(options)))]))
        forced, self.wanted = self.wanted[:_FORCED], self.wanted[_FORCED:]
        for name, option in (*changes, *forced):
            changed = replace(recipe, **{name: option})
            if self.draws.accepted(changed) is not None:
                recipe = changed
        self.recipe = recipe
        layer = self.draws.accepted(recipe)
        assert layer is not None
        return layer

    def _seeded(self, recipe: Recipe) -> Recipe:
        """Return the recipe with other values, where acceptance does not depend on them."""
        other = replace(recipe, seed=int(self.random.integers(1 << 30)))
        return recipe if self.draws.accepted(other) is None else other
