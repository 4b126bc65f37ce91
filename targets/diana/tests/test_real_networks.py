"""The networks of real quantisers on Diana: exact to the bit, or refused with numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from dory_core.api import DoesNotFit
from dory_core.testing import CompileResult, Plugins
from dory_core.testing.apps import assert_exact
from dory_core.tools import load_plugins
from tests.compiled import compiled as compile_for
from tests.nets import net, net_names

# Networks whose activations and constants together exceed L2, and what they need at least.
TOO_LARGE = {
    "nemo_mv1_100_128": 4_700_000,
}
IN_CI = ("nemo_small_cnn", "quantlab_mixed_conv", "quantlab_tcn1d_pad")


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


def compiled(
    name: str, directory: Path, plugins: Plugins, settings: Mapping[str, str] | None = None
) -> CompileResult:
    source = net(name)
    if source.frontend not in {f.name for f in plugins.frontends()}:
        pytest.skip(f"the plugin {source.frontend} is missing")
    return compile_for(name, directory, plugins, target="diana", settings=settings)


def names() -> list[object]:
    found = [
        pytest.param(name, marks=() if name in IN_CI else (pytest.mark.slow,))
        for name in net_names()
        if name not in TOO_LARGE
    ]
    return found or [pytest.param("", marks=pytest.mark.skip(reason="no networks"))]


@pytest.mark.parametrize("name", names())
def test_network_is_exact(name: str, plugins: Plugins, tmp_path: Path) -> None:
    result = compiled(name, tmp_path / "app", plugins)
    assert result.golden_exact
    assert result.plan.deployable
    assert len(result.plan.steps) == net(name).layers
    assert_exact(tmp_path / "app", plugins=plugins)


@pytest.mark.parametrize("name", TOO_LARGE)
def test_network_that_exceeds_l2_is_refused_with_numbers(
    name: str, plugins: Plugins, tmp_path: Path
) -> None:
    with pytest.raises(DoesNotFit) as caught:
        compiled(name, tmp_path / "app", plugins)
    assert caught.value.needed_bytes is not None
    assert caught.value.needed_bytes > TOO_LARGE[name]
    words = (f"{caught.value.needed_bytes} B of L2", "B are available", "constants", "activations")
    assert all(word in caught.value.message for word in words), caught.value.message
    assert "make the network smaller" in caught.value.hint
    assert not (tmp_path / "app").exists()


@pytest.mark.parametrize("name", ["quantlab_mv1_025_96_4b"])
def test_approximated_network_runs_on_the_digital_array_and_says_what_differs(
    name: str, plugins: Plugins, tmp_path: Path
) -> None:
    result = compiled(name, tmp_path / "app", plugins, {"requant": "approximate"})
    assert result.golden_exact, "the golden is compared with the network before"
    approximated = [note for note in result.plan.notes if "is approximated" in note]
    on_digital = [s for s in result.plan.steps if s.kernel.engine == "digital"]
    assert len(approximated) == len(on_digital) > 10
    assert all("differ on the test vectors" in note for note in approximated)
    assert any(note.startswith("network output") for note in result.plan.notes)
    assert_exact(tmp_path / "app", plugins=plugins, dma=("random",))
