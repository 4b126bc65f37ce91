"""The networks of the examples: built, compiled by their command line, exact on the arrays."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from dory_diana import plugin

from dory_core.api import DoesNotFit, Kernel, Layer, NotSupported, TargetContext, hookimpl, ops
from dory_core.testing import (
    IMPORTED,
    CompileOptions,
    Plugins,
    check_network,
    compile_network,
    rejection_of,
    setup_for,
)
from dory_core.testing import parse_network as parse
from dory_core.testing import run_stages as run
from dory_core.testing.apps import assert_exact
from dory_core.tools import cli, load_plugins

MAKE = Path(__file__).resolve().parents[1] / "examples" / "make.py"
# Share of multiplications that each engine has to have, at least.
SHARES = {
    "mixed": {"analog": 0.95, "digital": 0.01},
    "mobile": {"digital": 0.99},
}


@pytest.fixture(scope="module")
def make() -> ModuleType:
    pytest.importorskip("dory_quantlab.testing", reason="the plugin quantlab is missing")
    spec = importlib.util.spec_from_file_location("diana_examples", MAKE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


@pytest.fixture(params=sorted(SHARES))
def options(
    request: pytest.FixtureRequest, make: ModuleType, tmp_path: Path
) -> tuple[str, CompileOptions]:
    file = make.NETWORKS[request.param]().save(tmp_path / f"{request.param}.onnx")
    return request.param, CompileOptions(
        file, "diana", "quantlab", tmp_path / "app", input_signed=True
    )


@pytest.mark.sample(2)
def test_example_is_exact_on_the_engines_that_it_is_made_for(
    options: tuple[str, CompileOptions], plugins: Plugins
) -> None:
    name, compiling = options
    result = compile_network(compiling, plugins)
    assert result.output is not None and result.plan.deployable
    macs: Counter[str] = Counter()
    for step in result.plan.steps:
        macs[step.kernel.engine] += step.layer.macs
        if isinstance(step.layer.op, (ops.AvgPool, ops.MaxPool)):
            assert step.kernel.engine == "host"
    for engine, share in SHARES[name].items():
        assert macs[engine] >= share * result.plan.macs, macs
    report = cli.engines_text(result.plan.to_json())
    assert re.search(r"digital \d+ layers, [^;]+ cycles, \d+\.\d of 256 MAC/cycle", report), report
    assert_exact(result.output, plugins=plugins)


def test_check_names_engines_and_reasons(
    options: tuple[str, CompileOptions], plugins: Plugins
) -> None:
    report = check_network(options[1], plugins)
    assert report.supported and report.fits
    last = report.layers[-1]
    assert last.kernel == "dory_portable_linear"
    reasons = {r.kernel: r.reason for r in last.rejections}
    assert "32-bit accumulators" in reasons["dory_diana_digital_linear"]
    assert "weights reach" in reasons["dory_diana_analog_linear"]


def on_next_engine(number: int) -> SimpleNamespace:
    """Return the plugin without the kernel that one layer has."""

    @hookimpl
    def dory_kernels(ctx: TargetContext, layer: Layer) -> list[Kernel]:
        kernels = plugin.dory_kernels(ctx, layer)
        if layer.op.index != number:
            return kernels
        chosen = next(k for k in kernels if rejection_of(k, layer) is None)
        return [k for k in kernels if k is not chosen]

    return SimpleNamespace(**{**vars(plugin), "dory_kernels": dory_kernels})


@pytest.mark.sample(2)
def test_no_layer_makes_the_network_faster_on_its_next_engine(
    options: tuple[str, CompileOptions], plugins: Plugins
) -> None:
    """The order of engines stands for what conversions cost: nothing else weighs them."""
    graph = parse(options[1].source, plugins)

    def cycles(chip: object) -> int:
        only = Plugins.from_objects(diana=chip)
        plan = run(graph, setup_for(only, "diana"), after=IMPORTED)
        return int(plan.to_json()["totals"]["cycles"])

    best, tried = cycles(plugin), 0
    for layer in graph.ops:
        try:
            assert cycles(on_next_engine(layer.index)) >= best, layer.name
            tried += 1
        except (NotSupported, DoesNotFit):
            continue
    assert tried > len(graph.ops) // 2


def test_activations_use_their_range(make: ModuleType, tmp_path: Path, plugins: Plugins) -> None:
    from dory_core.importing import FrontendOptions
    from dory_core.testing import reference

    for name, build in make.NETWORKS.items():
        file = build().save(tmp_path / f"{name}.onnx")
        graph = plugins.frontend("quantlab").parse(file, FrontendOptions(8, True))
        values = reference.run(graph, reference.random_inputs(graph))
        for layer in graph.ops:
            if isinstance(layer, ops.Conv):
                found = np.unique(values[layer.output])
                assert len(found) > 60, f"{name}: {layer.name} has {len(found)} different values"
