"""Random networks from ONNX to exact results of the generated C, judged by an evaluator of ONNX.

The goldens come from the reference evaluator of onnx, which shares no code with the import, and the
compiler checks the import against them before the generated application is checked layer by layer.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from dory_core.compiler import CompileOptions, CompileResult, compile_network
from dory_core.errors import DoesNotFit
from dory_core.plugins import Plugins, load_plugins
from dory_core.testing.apps import DMA_MODES, assert_exact
from tests.end_to_end.random_networks import FAMILIES, Family, Network, networks
from tests.onnx_eval import evaluate

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


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


def write_goldens(network: Network, folder: Path) -> tuple[Path, ...]:
    """Evaluate the ONNX graph for seeded random inputs; return the golden of each."""
    builder = network.builder
    model = builder.model()
    lo, hi = builder.bounds[builder.input]
    paths = []
    for seed in range(VECTORS):
        rng = np.random.default_rng(seed)
        image = rng.integers(lo, hi, builder.shapes[builder.input], endpoint=True)
        values = evaluate(model, image, builder.layer_values)
        arrays = {f"layer_{n:02d}": hwc(values[v]) for n, v in enumerate(builder.layer_values)}
        paths.append(folder / f"golden_{seed}.npz")
        np.savez(paths[-1], input=hwc(image), **arrays)
    return tuple(paths)


def hwc(values: np.ndarray) -> np.ndarray:
    """Flatten (C, H, W), (C, L) or (F,) in HWC order."""
    return np.moveaxis(values, 0, -1).reshape(-1).astype(np.int64)


def compile_in(
    network: Network, folder: Path, l1_bytes: int, objective: str, plugins: Plugins
) -> CompileResult:
    """Compile with ``l1_bytes`` of L1, or with the least that the errors say is needed."""
    onnx = network.builder.save(folder / "net.onnx")
    goldens = write_goldens(network, folder)
    for _ in range(1 + len(network.builder.layer_values)):
        options = CompileOptions(
            onnx,
            "gap8",
            "nemo",
            folder / "app",
            golden=goldens,
            input_signed=network.input_signed,
            budgets={1: l1_bytes, 2: L2},
            objective=objective,
        )
        try:
            return compile_network(options, plugins)
        except DoesNotFit as error:
            assert " L1" in error.message, error.message
            assert error.needed_bytes is not None and error.needed_bytes > l1_bytes
            l1_bytes = error.needed_bytes
            note(f"{error.message}")
    raise AssertionError(f"every layer was given the bytes it asks for, yet {l1_bytes} do not do")


def check(
    network: Network,
    l1_bytes: int,
    mode: str,
    seed: int,
    objective: str,
    plugins: Plugins,
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = compile_in(network, folder, l1_bytes, objective, plugins)
        assert result.golden_exact
        assert [s.index for s in result.plan.steps] == list(range(len(result.plan.steps)))
        assert_exact(folder / "app", plugins=plugins, dma=(mode,), repeat=2, seed=seed)


budgets = st.sampled_from([4096, 6000, 8192, 11111, 16384, 22528, 38236, 47700, 65536])
modes = st.sampled_from(DMA_MODES)
seeds = st.integers(1, 1000)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_random_network_is_exact(family: Family, plugins: Plugins) -> None:
    @settings(common, max_examples=10)
    @given(networks(family), budgets, modes, seeds)
    def property_(network: Network, l1_bytes: int, mode: str, seed: int) -> None:
        check(network, l1_bytes, mode, seed, "heuristic", plugins)

    property_()


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["heuristic", "latency"])
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_many_random_networks_are_exact(family: Family, objective: str, plugins: Plugins) -> None:
    @settings(common, max_examples=80 if objective == "heuristic" else 20)
    @given(networks(family), budgets, modes, seeds)
    def property_(network: Network, l1_bytes: int, mode: str, seed: int) -> None:
        check(network, l1_bytes, mode, seed, objective, plugins)

    property_()
