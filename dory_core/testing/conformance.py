"""The conformance kit: one test matrix that every target subclasses.

    class TestMyChip(TargetConformance):
        capabilities = Capabilities(target="mychip", l1_budgets=(16384, 65536))

Layer kinds x shapes x precisions x budgets x DMA modes, run twice each on the host simulation and
compared element by element, plus sanitizers, determinism and the description of the hardware. A
target declares unsupported cases in its Capabilities; the kit then tests that they are refused.

The fixture ``plugins`` returns every installed plugin; override it to test another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import pytest

from dory_core.driver.pipeline import IMPORTED, run
from dory_core.driver.setup import Setup
from dory_core.errors import DoesNotFit, NotSupported
from dory_core.hardware.options import STORAGE
from dory_core.plan import Plan
from dory_core.plan.budgets import resolve_budgets
from dory_core.plugins.manager import Plugins, load_plugins
from dory_core.testing.apps import DMA_MODES, assert_exact, build_app
from dory_core.testing.cases import Case, layer_cases, network_cases
from dory_core.testing.choices import choices_of
from dory_core.testing.precisions import precision_cases
from dory_core.testing.sanitizers import declared_mark, require_sanitizer

SANITIZERS = ("address,undefined", "thread")
_IDS = {"address,undefined": "asan_ubsan", "thread": "tsan"}


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The cases that a target claims to compute.

    Attributes:
        target: Name of the target as in ``--target``.
        settings: Target options to test with.
        refused: Tags of the cases (``cases.Case.tags``) that the target refuses with NotSupported.
        l1_budgets: Bytes of L1 to test with; the first must hold every layer case.
    """

    target: str
    settings: tuple[tuple[str, str], ...] = ()
    refused: frozenset[str] = frozenset()
    l1_budgets: tuple[int, ...] = (16384,)


class TargetConformance:
    """The test matrix of a target: subclass it and set ``capabilities``.

    cases: further layers of the target, for kernels that accept no layer of the matrix.
    """

    capabilities: ClassVar[Capabilities]
    cases: ClassVar[tuple[Case, ...]] = ()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Spread the matrix over the tests."""
        capabilities = self.capabilities
        slow = declared_mark(metafunc.config, "slow")
        if "layer_case" in metafunc.fixturenames:
            # Every layer with the first budget; each other budget with a share of the layers.
            budgets = capabilities.l1_budgets
            pairs = [
                pytest.param(
                    case, l1, id=f"{case}-{l1}", marks=slow if k and n % len(budgets) else ()
                )
                for n, case in enumerate((*layer_cases(), *self.cases))
                for k, l1 in enumerate(budgets)
            ]
            metafunc.parametrize(("layer_case", "l1_bytes"), pairs)
        elif "sanitizer" in metafunc.fixturenames:
            # Every network with one sanitizer; sanitizers alternate.
            marks = declared_mark(metafunc.config, "sanitizer")
            pairs = [
                pytest.param(
                    case, name, id=f"{case}-{_IDS[name]}", marks=marks + slow * (n + k & 1)
                )
                for n, case in enumerate(network_cases())
                for k, name in enumerate(SANITIZERS)
            ]
            metafunc.parametrize(("network_case", "sanitizer"), pairs)
        elif "network_case" in metafunc.fixturenames:
            metafunc.parametrize("network_case", network_cases(), ids=str)
        if "precision_case" in metafunc.fixturenames:
            cases = precision_cases(weights=[(-8, 7)], operands=[(-8, 7)])
            metafunc.parametrize("precision_case", cases, ids=str)

    @pytest.fixture
    def plugins(self) -> Plugins:
        """Every installed plugin."""
        return load_plugins()

    # -- the hardware -------------------------------------------------------------------------

    def test_hierarchy_has_levels_links_and_cores(self, plugins: Plugins) -> None:
        """The records of ``dory_core.hardware`` are sound, memory is left for networks."""
        memory = plugins.context(self.capabilities.target, self._settings).memory
        for level in memory.levels:
            assert level.usable_bytes > 0, f"nothing of {level.name} is left for networks"

    def test_target_can_be_found_by_name(self, plugins: Plugins) -> None:
        """The target is registered with a one-line summary."""
        target = plugins.target(self.capabilities.target)
        assert target.summary and "\n" not in target.summary

    # -- layers -------------------------------------------------------------------------------

    def test_layer_is_exact(
        self, layer_case: Case, l1_bytes: int, plugins: Plugins, tmp_path: Path
    ) -> None:
        """Every element, in every DMA mode, twice in a row; or refused where it is declared."""
        directory = tmp_path / "app"
        refused = layer_case.tags & self.capabilities.refused
        if refused:
            with pytest.raises(NotSupported) as caught:
                self._build(layer_case, directory, plugins, l1_bytes)
                tags = ", ".join(sorted(refused))
                pytest.fail(f"{layer_case} is declared as refused ({tags}) but accepted")
            assert layer_case.build().ops[0].name in caught.value.message
            assert not directory.exists()
            return
        try:
            self._build(layer_case, directory, plugins, l1_bytes)
        except DoesNotFit as error:
            first = self.capabilities.l1_budgets[0]
            assert l1_bytes != first, f"the first budget has to hold every layer: {error.message}"
            assert f"{l1_bytes} are available" in error.message and error.hint
            return
        assert_exact(directory, plugins=plugins)

    def test_network_is_exact(self, network_case: Case, plugins: Plugins, tmp_path: Path) -> None:
        """Residuals, branches, several consumers, several vectors in sequence.

        Activations of less than a byte are packed; other tests have them in bytes where those are
        faster.
        """
        if network_case.tags & self.capabilities.refused:
            pytest.skip(f"declared as refused: {network_case.tags & self.capabilities.refused}")
        packed = {STORAGE.name: "packed"}
        self._build(network_case, tmp_path / "app", plugins, None, (0, 1, 2), packed)
        assert_exact(tmp_path / "app", plugins=plugins)

    def test_all_pairs_of_precisions_are_exact(
        self, precision_case: Case, plugins: Plugins, tmp_path: Path
    ) -> None:
        """Inputs and outputs of 2, 4 and 8 bits, signed or not, with weights of 4 bits."""
        if precision_case.tags & self.capabilities.refused:
            pytest.skip(f"declared as refused: {precision_case.tags & self.capabilities.refused}")
        self._build(precision_case, tmp_path / "app", plugins, self.capabilities.l1_budgets[0])
        assert_exact(tmp_path / "app", plugins=plugins, dma=("random",))

    def test_sanitizers_find_nothing(
        self, network_case: Case, sanitizer: str, plugins: Plugins, tmp_path: Path
    ) -> None:
        """Address, undefined and thread sanitizers over whole networks."""
        if network_case.tags & self.capabilities.refused:
            pytest.skip(f"declared as refused: {network_case.tags & self.capabilities.refused}")
        require_sanitizer(sanitizer)
        self._build(network_case, tmp_path / "app", plugins, self.capabilities.l1_budgets[0])
        assert_exact(tmp_path / "app", plugins=plugins, sanitize=sanitizer)

    def test_every_kernel_of_the_plugins_is_chosen(self, plugins: Plugins, tmp_path: Path) -> None:
        """Each kernel is chosen for a layer of the matrix, or for a random layer that runs here.

        The message has the reason for each layer that was offered.
        """
        capabilities = self.capabilities
        precisions = precision_cases(weights=[(-8, 7)], operands=[(-8, 7)])
        cases = (*layer_cases(), *self.cases, *network_cases(), *precisions)
        names, choices = choices_of(
            plugins,
            capabilities.target,
            capabilities.settings,
            capabilities.l1_budgets,
            [case for case in cases if not case.tags & capabilities.refused],
        )
        never = [name for name in names if name not in choices.chosen]
        assert not never, (
            f"{len(never)} of {len(names)} kernels for {capabilities.target} were never chosen, so "
            f"that none of them ran. Why not, by number of layers:\n{choices.text(never)}\n"
            "Return such a kernel in front of those that go before it (dory_kernels: best first), "
            "let it accept more, or leave it out. Layers that only you know are `cases` of your "
            "TargetConformance."
        )
        for number, choice in enumerate(c for c in choices.chosen.values() if c.drawn):
            directory = tmp_path / f"drawn_{number}"
            build_app(
                choice.graph,
                capabilities.target,
                directory,
                budgets={1: choice.l1_bytes},
                settings=self._settings,
                plugins=plugins,
            )
            assert_exact(directory, plugins=plugins, dma=("late",))

    # -- properties of the generator ----------------------------------------------------------

    def test_same_network_gives_the_same_application(
        self, plugins: Plugins, tmp_path: Path
    ) -> None:
        """Byte for byte."""
        case = network_cases()[0]
        trees = []
        for name in ("first", "second"):
            self._build(case, tmp_path / name, plugins, None)
            files = sorted(p for p in (tmp_path / name).rglob("*") if p.is_file())
            trees.append({str(p.relative_to(tmp_path / name)): p.read_bytes() for p in files})
        assert list(trees[0]) == list(trees[1])
        differing = [name for name, content in trees[0].items() if content != trees[1][name]]
        assert not differing, f"files that differ: {', '.join(differing)}"

    def test_l1_that_is_too_small_is_refused_with_the_bytes_that_are_missing(
        self, plugins: Plugins
    ) -> None:
        """The message names layer, level, bytes and buffer; the smallest tile is the smallest."""
        if plugins.context(self.capabilities.target, self._settings).memory.in_place:
            pytest.skip("layers are computed in place, L1 holds scratch memory alone")
        ctx = plugins.context(self.capabilities.target, self._settings)
        cases = {case.name: case for case in layer_cases()}
        graph = cases["conv_3x3_odd_everything"].build()  # small: its smallest tiles are few

        def plan(l1_bytes: int) -> Plan:
            budgets = resolve_budgets(ctx.memory, {1: l1_bytes})
            result: Plan = run(graph, Setup(ctx, budgets, plugins), after=IMPORTED)
            return result

        if plan(self.capabilities.l1_budgets[0]).steps[0].in_place:
            pytest.skip("the layer is computed in place, its tensors do not come into L1")
        with pytest.raises(DoesNotFit) as caught:
            plan(24)
        needed, message = caught.value.needed_bytes, caught.value.message
        assert needed is not None
        words = (
            graph.ops[0].name,
            "L1",
            f"{needed} bytes",
            "24 are available",
            "largest buffer",
        )
        assert all(word in message for word in words), message
        assert str(needed) in caught.value.hint
        assert plan(needed).steps[0].l1_bytes <= needed
        with pytest.raises(DoesNotFit, match=f"{needed} bytes, {needed - 1} are available"):
            plan(needed - 1)

    # -- helpers ------------------------------------------------------------------------------

    @property
    def _settings(self) -> dict[str, str]:
        return dict(self.capabilities.settings)

    def _build(
        self,
        case: Case,
        directory: Path,
        plugins: Plugins,
        l1_bytes: int | None,
        seeds: tuple[int, ...] = (0,),
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        build_app(
            case.build(),
            self.capabilities.target,
            directory,
            budgets={} if l1_bytes is None else {1: l1_bytes},
            settings={**self._settings, **settings},
            plugins=plugins,
            seeds=seeds,
        )


__all__ = ["DMA_MODES", "SANITIZERS", "Capabilities", "TargetConformance"]
