"""Mutants of kernels against random tiles, as the kernels' own tests draw them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from unittest.mock import patch

from dory_core.errors import DoryError
from dory_core.ir import Layer
from dory_core.kernels.kernel import Kernel
from dory_core.testing import kernels as testing
from dory_core.testing.draws import Candidates, Draws, usual_layers
from dory_core.testing.kernel_cases import takes
from dory_core.testing.kernels import HostLibrary, KernelCase
from dory_core.testing.sources import write_sources
from tests.fuzz.cases import plugins

_TARGETS = ("gap8", "stm32h7", "diana")
_COUNT = 24  # cases of a kernel: as many as its own tests draw for a seed
_SEEDS = (0, 1)
_MOST = 12  # kernels that are tried for a header that many include
_SECONDS = 10  # that a call of a kernel may take


def _candidates(target: str) -> Candidates:
    """Return all kernels of a target for a layer, the portable ones among them."""
    found = plugins()
    ctx = found.context(target, {})

    def kernels(layer: Layer) -> Sequence[Kernel]:
        return found.kernels(ctx, layer)

    return kernels


@cache
def _names(target: str) -> dict[str, tuple[str, ...]]:
    """Return the names of the kernels that have a file, by its path, as usual layers show it."""
    candidates = _candidates(target)
    names: dict[str, dict[str, None]] = {}
    for layer in usual_layers():
        for kernel in candidates(layer):
            if takes(kernel, layer):
                for file in kernel.sources(layer):
                    names.setdefault(file.path, {})[kernel.name] = None
    return {path: tuple(found) for path, found in names.items()}


@cache
def _draws(target: str, name: str) -> Draws:
    return Draws(_candidates(target), name)


@cache
def _cases(target: str, name: str, seed: int) -> tuple[KernelCase, ...]:
    """Return random cases of a kernel; none where no layer of it can be drawn."""
    try:
        return tuple(_draws(target, name).cases(seed, _COUNT))
    except DoryError:
        return ()


@cache
def sources(target: str, name: str) -> dict[str, str]:
    """Return the files of a kernel in all of its cases."""
    return {
        file.path: str(file.content)
        for case in _cases(target, name, _SEEDS[0])
        for file in case.kernel.sources(case.layer)
    }


def _having(path: str, before: str, targets: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield target and name of the kernels that have a file with this content."""
    for target in targets:
        for name in _names(target).get(path, ()):
            if sources(target, name).get(path) == before:
                yield target, name


def is_found_by_tests(path: str, before: str, after: str, targets: Sequence[str] = _TARGETS) -> str:
    """Return which kernel's random tiles show a change of a file, empty when none does."""

    def written(cases: Sequence[KernelCase], folder: Path) -> list[str]:
        sources = write_sources(cases, folder)
        if (folder / path).is_file():
            (folder / path).write_text(after)
        return sources

    for count, (target, name) in enumerate(_having(path, before, targets)):
        if count == _MOST:
            break
        for seed in _SEEDS:
            with (
                patch.object(testing, "write_sources", written),
                patch.object(testing, "_SECONDS", _SECONDS),
            ):
                try:
                    HostLibrary(_cases(target, name, seed)).check()
                except AssertionError:
                    return f"{name} of {target}"
    return ""
