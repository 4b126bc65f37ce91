"""Random networks from ONNX to exact results of the generated C, judged by an evaluator of ONNX.

The goldens come from the reference evaluator of onnx, which shares no code with the import, and the
compiler checks the import against them before the generated application is checked layer by layer.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from dory_onnx.testing import write_golden
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from dory_core.driver.compiler import CompileOptions, CompileResult, compile_network
from dory_core.errors import DoesNotFit
from dory_core.plugins.manager import Plugins
from dory_core.testing.apps import DMA_MODES, assert_exact
from tests.system.random_networks import Family, Network, networks

L2 = 512 * 1024
VECTORS = 2

common = settings(
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),  # an example takes a second: too slow for shrinking
    report_multiple_bugs=False,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
        HealthCheck.function_scoped_fixture,
    ],
)


@dataclass(frozen=True)
class Way:
    """A target and a frontend that networks go through."""

    target: str
    frontend: str
    plugins: Plugins


def compile_in(
    way: Way, network: Network, folder: Path, l1_bytes: int, objective: str
) -> CompileResult:
    """Compile with ``l1_bytes`` of L1, or with the least that the errors say is needed."""
    onnx = network.builder.save(folder / "net.onnx")
    goldens = tuple(
        write_golden(network.builder, folder / f"golden_{seed}.npz", seed)
        for seed in range(VECTORS)
    )
    for _ in range(1 + len(network.builder.layer_values)):
        options = CompileOptions(
            onnx,
            way.target,
            way.frontend,
            folder / "app",
            golden=goldens,
            input_signed=network.input_signed,
            budgets={1: l1_bytes, 2: L2},
            objective=objective,
        )
        try:
            return compile_network(options, way.plugins)
        except DoesNotFit as error:
            assert " L1" in error.message, error.message
            assert error.needed_bytes is not None and error.needed_bytes > l1_bytes
            l1_bytes = error.needed_bytes
            note(f"{error.message}")
    raise AssertionError(f"every layer was given the bytes it asks for, yet {l1_bytes} do not do")


def check(way: Way, network: Network, l1_bytes: int, mode: str, seed: int, objective: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = compile_in(way, network, folder, l1_bytes, objective)
        assert result.golden_exact
        assert [s.index for s in result.plan.steps] == list(range(len(result.plan.steps)))
        assert_exact(folder / "app", plugins=way.plugins, dma=(mode,), repeat=2, seed=seed)


budgets = st.sampled_from([4096, 6000, 8192, 11111, 16384, 22528, 38236, 56208, 65536])
modes = st.sampled_from(DMA_MODES)
seeds = st.integers(1, 1000)


def check_family(way: Way, family: Family, examples: int, objective: str = "heuristic") -> None:
    """Check so many networks of a family, each with a random L1 and a random DMA mode."""

    @settings(common, max_examples=examples)
    @given(networks(family), budgets, modes, seeds)
    def property_(network: Network, l1_bytes: int, mode: str, seed: int) -> None:
        check(way, network, l1_bytes, mode, seed, objective)

    property_()
