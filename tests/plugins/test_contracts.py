"""What a plugin must not declare is its own error: it names the kernel, pass, term or file."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from dory_core.api import Kernel, OutputFile, Pass, Term, ops, portable_kernels
from dory_core.errors import PluginError
from dory_core.ir import Graph
from dory_core.kernel import WeightBlock
from dory_core.passes import run_passes
from dory_core.plugins import Plugins
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from tests.toy.chip import NAME, ToyChip


def graph() -> Graph:
    builder = GraphBuilder((8, 6, 6))
    builder.conv(8, ops.Window(kernel=(1, 1)))
    return builder.graph()


def build(directory: Path, **methods: Any) -> None:
    """Compile a network with portable kernels of which some methods are others."""

    def odd(kernel: Any) -> Kernel:
        mine: Any = type("Odd", (type(kernel),), {**methods, "__module__": "acme.kernels"})
        return mine(**{field.name: getattr(kernel, field.name) for field in fields(kernel)})

    kernels = [odd(kernel) for kernel in portable_kernels(1)]
    plugins = Plugins.from_objects(toy=ToyChip(kernels=kernels))
    build_app(graph(), NAME, directory / "app", plugins=plugins)


def larger(kernel: Any, layer: Any, tile: Any) -> Any:
    return super(type(kernel), kernel).weight_bytes(layer, tile) + 64


def call_with(name: str) -> Any:
    def call(kernel: Any, layer: Any) -> Any:
        found = super(type(kernel), kernel).call(layer)
        return type(found)(found.function, {**found.arguments, "more": name})

    return call


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"accepts": lambda *_: False}, r"answers False to accepts\(\), not None or a Rejection"),
        ({"accepts": lambda *_: "no"}, r"answers 'no' to accepts\(\)"),
        ({"cycles": lambda *_: -5}, "says that its cycles are -5"),
        ({"cycles": lambda *_: float("nan")}, "says that its cycles are nan"),
        ({"weight_bytes": lambda *_: -8}, "says that its weight_bytes are -8"),
        ({"scratch_bytes": lambda *_: -8}, "says that its scratch_bytes are -8"),
        ({"weight_bytes": larger}, "has a weight_block of .* bytes, its weight_bytes says"),
        ({"weight_block": lambda *_: WeightBlock(bytes(9999))}, "has a weight_block of 9999 bytes"),
        ({"weight_block": lambda *_: None}, "has weight_bytes but no weight_block"),
        (
            {"call": call_with("$xx + 1")},
            r"is called with \$xx, which is unknown; known are .*\$x",
        ),
        ({"call": call_with("$5")}, r"is called with \$5"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_kernel_that_breaks_its_contract_is_named(
    methods: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(PluginError, match=message) as caught:
        build(tmp_path, **methods)
    assert "Conv 'Conv_0': kernel dory_" in caught.value.message
    assert "call" in methods or "of acme.kernels" in caught.value.message
    assert "authors of the kernel" in caught.value.hint


@pytest.mark.parametrize(
    "path",
    [
        *("../../evil.c", "/etc/passwd", "", ".", "..", "src/../../x", "a//b", "./a", "a/", "-rf"),
        *("a\nb.c", "a\x1b.c", "a\\b.c", "src/\u202ec.c"),
    ],
)
def test_files_stay_in_the_application(path: str) -> None:
    with pytest.raises(PluginError, match="has no place for a file called"):
        OutputFile(path, "")


def test_files_are_text_or_bytes() -> None:
    assert OutputFile("src/a b.c", b"").path == "src/a b.c"
    content: Any = None
    with pytest.raises(PluginError, match=r"content of file 'a\.c' is NoneType"):
        OutputFile("a.c", content)


@pytest.mark.parametrize("weight", [0.3, float("nan"), float("inf"), "1", None, True])
def test_weights_of_terms_are_multiples_of_a_half(weight: Any) -> None:
    assert Term("T", 1e6, 1).weight + Term("T", -0.5, 1).weight == 999999.5
    with pytest.raises(PluginError, match="term 'T' of the objective has the weight"):
        Term("T", weight, 1)


def nothing(_: Graph) -> Any:
    return None


def test_a_pass_that_returns_nothing_is_named() -> None:
    with pytest.raises(
        PluginError, match=rf"pass 'mine' of {__name__} returned NoneType"
    ) as caught:
        run_passes([Pass("mine", "does nothing", nothing)], graph())
    assert "authors of the pass" in caught.value.hint
