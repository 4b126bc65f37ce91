"""The real networks from ONNX to exact results of the generated C on the simulated GAP8."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from dory_core.driver.application import run_application
from dory_core.driver.compiler import CompileOptions, CompileResult, compile_network
from dory_core.errors import DoesNotFit
from dory_core.plugins.manager import Plugins, load_plugins
from dory_core.testing.apps import assert_exact
from dory_core.testing.sanitizers import require_sanitizer
from tests.compiled import compiled
from tests.nets import net

L2 = 512 * 1024

TWO_LEVEL_NETS = (
    "nemo_small_cnn",
    "nemo_ds_cnn_kws",
    "nemo_resnet8",
    "nemo_mv1_025_96",
    "nemo_PenguiNet_32",
    "nemo_NAS_Frontnet",
    "nemo_Residual_connection_test_1",
    "nemo_eegnet_1d_8b_1xW",
    "nemo_TCN_T",
    "nemo_mv2_035_96",
)
THREE_LEVEL_NETS = ("nemo_dronet_complete", "nemo_proxylessnas_pulp_dronet", "nemo_mv1_100_128")
# The large ones with sanitizers and with other budgets are slow.
SMALL_FIRST = [
    *TWO_LEVEL_NETS,
    *(pytest.param(name, marks=pytest.mark.slow) for name in THREE_LEVEL_NETS),
]
# Budgets: two levels suffice with all of L2; the others stream with what the chip leaves.
BUDGETS: dict[str, dict[int, int]] = {
    **{name: {2: L2} for name in TWO_LEVEL_NETS},
    **{name: {} for name in THREE_LEVEL_NETS},
}


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


@dataclass(frozen=True)
class Application:
    """One network compiled with the default L1, shared by the tests that only run it."""

    name: str
    directory: Path
    result: CompileResult


@pytest.fixture(scope="module", params=TWO_LEVEL_NETS + THREE_LEVEL_NETS)
def application(
    request: pytest.FixtureRequest, plugins: Plugins, tmp_path_factory: pytest.TempPathFactory
) -> Application:
    directory = tmp_path_factory.mktemp(request.param) / "app"
    return Application(
        request.param,
        directory,
        compiled(request.param, directory, plugins, BUDGETS[request.param]),
    )


@pytest.mark.sample(14)
def test_network_is_exact_in_all_dma_modes_twice(
    application: Application, plugins: Plugins
) -> None:
    assert application.result.golden_exact
    assert application.result.plan.steps[-1].index + 1 == net(application.name).layers
    assert_exact(application.directory, plugins=plugins)


@pytest.mark.sample(26)
@pytest.mark.sanitizer
@pytest.mark.parametrize("sanitize", ["thread", "address,undefined"])
@pytest.mark.parametrize("application", SMALL_FIRST, indirect=True)
def test_network_is_clean_under_sanitizers(
    application: Application, sanitize: str, plugins: Plugins
) -> None:
    require_sanitizer(sanitize)
    assert_exact(application.directory, plugins=plugins, sanitize=sanitize)


@pytest.mark.sample(18)
@pytest.mark.parametrize("application", SMALL_FIRST, indirect=True)
@pytest.mark.parametrize(
    "l1",
    [22528, *(pytest.param(l1, marks=pytest.mark.slow) for l1 in (38236, 65536))],
)
def test_network_is_exact_with_other_l1_budgets_or_says_what_is_missing(
    application: Application, l1: int, plugins: Plugins, tmp_path: Path
) -> None:
    try:
        result = compiled(
            application.name,
            tmp_path / "app",
            plugins,
            {1: l1, **BUDGETS[application.name]},
        )
    except DoesNotFit as error:
        assert str(l1) in error.message and "L1" in error.message
        assert not (tmp_path / "app").exists()
        return
    assert all(step.l1_bytes <= l1 for step in result.plan.steps)
    l1_is_the_chips = l1 <= 56208
    assert l1_is_the_chips == ("L1 budget" not in result.plan.reason)
    assert not result.plan.deployable or l1_is_the_chips
    assert_exact(tmp_path / "app", plugins=plugins)


@pytest.mark.sample(7)
def test_constants_stay_in_l2_when_they_fit_and_are_streamed_otherwise(
    application: Application,
) -> None:
    plan = application.result.plan
    levels = {step.weights.level for step in plan.steps if step.weights is not None}
    assert levels == ({2} if application.name in TWO_LEVEL_NETS else {3})
    assert bool(plan.transfers) == (application.name in THREE_LEVEL_NETS)


@pytest.mark.slow
@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["nemo_mv1_025_96", "nemo_mv2_035_96", "nemo_PenguiNet_32"])
def test_network_is_exact_with_the_l2_that_the_chip_leaves(
    name: str, plugins: Plugins, tmp_path: Path
) -> None:
    result = compiled(name, tmp_path / "app", plugins, {})
    assert result.plan.deployable
    assert_exact(tmp_path / "app", plugins=plugins)


@pytest.mark.slow
def test_network_beyond_l3_is_refused_with_numbers(plugins: Plugins, tmp_path: Path) -> None:
    with pytest.raises(DoesNotFit) as caught:
        compiled("nemo_mv1_100_128", tmp_path / "app", plugins, {2: 196_608, 3: 32_768})
    assert "L3" in caught.value.message and "32768" in caught.value.message
    assert caught.value.needed_bytes is not None and caught.value.needed_bytes > 4_000_000
    assert not (tmp_path / "app").exists()


def test_text_golden_gives_the_same_application_vectors(plugins: Plugins, tmp_path: Path) -> None:
    source = net("nemo_small_cnn")
    for name, golden in (("npz", source.golden), ("txt", source.folder / "txt")):
        options = CompileOptions(
            source.onnx, "gap8", "nemo", tmp_path / name, golden=(golden,), budgets={2: L2}
        )
        compile_network(options, plugins)
    vectors = [
        {p.name: p.read_bytes() for p in (tmp_path / name / "vectors").glob("*.bin")}
        for name in ("npz", "txt")
    ]
    assert vectors[0] == vectors[1]


@pytest.mark.sample(3)
@pytest.mark.parametrize("index", [0, 1, 6])
def test_single_layer_is_a_callable_function_of_its_own(
    index: int, plugins: Plugins, tmp_path: Path
) -> None:
    source = net("nemo_small_cnn")
    options = CompileOptions(
        source.onnx,
        "gap8",
        "nemo",
        tmp_path / "app",
        golden=(source.golden,),
        budgets={2: L2},
        layer=index,
    )
    result = compile_network(options, plugins)
    assert [step.index for step in result.plan.steps] == [index]
    assert_exact(tmp_path / "app", plugins=plugins)


def test_single_residual_add_takes_both_inputs(plugins: Plugins, tmp_path: Path) -> None:
    source = net("nemo_resnet8")
    whole = compile_network(
        CompileOptions(source.onnx, "gap8", "nemo", plan_only=True, budgets={2: L2}), plugins
    )
    index = next(s.index for s in whole.plan.steps if s.layer.op.kind == "Add")
    options = CompileOptions(
        source.onnx, "gap8", "nemo", tmp_path / "app", golden=(source.golden,), layer=index
    )
    result = compile_network(options, plugins)
    assert len(result.plan.inputs) == 2
    assert_exact(tmp_path / "app", plugins=plugins)


def test_dump_holds_true_integers_in_hwc(plugins: Plugins, tmp_path: Path) -> None:
    import numpy as np

    source = net("nemo_small_cnn")
    compiled("nemo_small_cnn", tmp_path / "app", plugins, {2: L2})
    run_application(tmp_path / "app", plugins=plugins, dump=tmp_path / "dump")
    golden = np.load(source.golden)
    files = sorted((tmp_path / "dump").glob("layer_*.npy"))
    # A convolution that computes the pool after it has the pool's number.
    assert source.layers - 1 <= len(files) and files[-1].stem == f"layer_{source.layers - 1:02d}"
    for file in files:
        values = np.load(file)
        assert values.ndim == 3
        assert np.array_equal(values.reshape(-1), golden[file.stem])


def test_another_input_is_compared_with_the_reference(plugins: Plugins, tmp_path: Path) -> None:
    import numpy as np

    compiled("nemo_small_cnn", tmp_path / "app", plugins, {2: L2})
    rng = np.random.default_rng(5)
    np.save(tmp_path / "input.npy", rng.integers(0, 256, 32 * 32 * 3))
    result = run_application(
        tmp_path / "app", plugins=plugins, inputs=[tmp_path / "input.npy"], dma="random", seed=9
    )
    assert result.exact
    assert [run.input for run in result.runs] == [str(tmp_path / "input.npy")]
