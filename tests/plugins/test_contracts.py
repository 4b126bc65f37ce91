"""What a plugin must not declare is its own error: it names the kernel, pass, term or file."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from dory_core.api import (
    Kernel,
    Level,
    Link,
    Memory,
    MemoryHierarchy,
    Option,
    OutputFile,
    Pass,
    Target,
    Term,
    hookimpl,
    ops,
    portable_kernels,
)
from dory_core.errors import PluginError
from dory_core.ir import Graph
from dory_core.kernels.call import Operand, Struct, size
from dory_core.kernels.kernel import WeightBlock
from dory_core.passes import run_passes
from dory_core.plugins.manager import Plugins
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


def call_with(value: Any) -> Any:
    def call(kernel: Any, layer: Any) -> Any:
        found = super(type(kernel), kernel).call(layer)
        return type(found)(found.function, {**found.arguments, "more": value})

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
            {"call": call_with(size("xx") + 1)},
            "gives argument 'more' the size 'xx', which is unknown; known are .*x_h",
        ),
        (
            {"call": call_with(Struct({"a": Operand("z")}, "more_t"))},
            r"gives argument 'more\.a' the operand 'z', which is unknown; known are x, y",
        ),
        ({"call": call_with("$x")}, r"gives argument 'more' the value '\$x', possible are an int"),
        ({"call": call_with(1.5)}, r"gives argument 'more' the value 1\.5"),
        (
            {"call": call_with(Operand("x2"))},
            "gives argument 'more' 'x2', which the layer does not have; it has .*x_pitch",
        ),
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


def test_a_pass_that_raises_is_named() -> None:
    def broken(_: Graph) -> Graph:
        raise ZeroDivisionError("by zero")

    with pytest.raises(PluginError, match=rf"pass 'mine' of {__name__} failed: ZeroDivisionError"):
        run_passes([Pass("mine", "divides", broken)], graph())


@pytest.mark.parametrize("value", [None, "x", 0.5, [1]])
def test_values_of_terms_are_expressions(value: Any) -> None:
    with pytest.raises(PluginError, match="term 'T' of the objective has the value"):
        Term("T", 1.0, value)


@pytest.mark.parametrize(
    ("hook", "answer", "message"),
    [
        ("dory_application", lambda: OutputFile("../evil.c", ""), "has no place for a file"),
        ("dory_objective_terms", lambda: Term("T", 0.3, 1), "term 'T'"),
        ("dory_passes", lambda: Pass("mine", "does nothing", nothing), "pass 'mine'"),
    ],
)
def test_the_plugin_of_a_wrong_record_is_named(
    hook: str, answer: Any, message: str, tmp_path: Path
) -> None:
    acme = type("Acme", (), {hook: hookimpl(target=NAME)(lambda self: [answer()])})()
    plugins = Plugins.from_objects(toy=ToyChip(), acme=acme)
    with pytest.raises(PluginError, match=message) as caught:
        build_app(graph(), NAME, tmp_path / "app", plugins=plugins)
    named = f"plugin acme failed in {hook}" in caught.value.message or hook == "dory_passes"
    assert named, caught.value.message


@pytest.mark.parametrize("count", [0, 5])
def test_a_chip_with_a_number_of_levels_that_cannot_be_is_named(count: int) -> None:
    def hierarchy(self: object) -> MemoryHierarchy:
        levels = tuple(Level(n, (Memory("M", 1 << 16),)) for n in range(1, count + 1))
        links = tuple(Link(n, n + 1, 10, 4.0) for n in range(1, count))
        return MemoryHierarchy(levels, links)

    hooks = {"dory_targets": hookimpl(lambda self: [Target("acme", "a chip")])}
    hooks["dory_memory_hierarchy"] = hookimpl(target="acme")(hierarchy)
    plugins = Plugins.from_objects(acme=type("Acme", (), hooks)())
    with pytest.raises(PluginError, match=r"plugin acme failed in dory_memory_hierarchy: .*levels"):
        plugins.context("acme", {})


def test_an_option_whose_default_is_none_of_its_choices_leaves_the_plugin_out() -> None:
    def targets(self: object) -> list[Target]:
        return [Target("acme", "a chip", options=(Option("n", str, "c", "x", ("a", "b")),))]

    plugins = Plugins.from_objects(acme=type("Acme", (), {"dory_targets": hookimpl(targets)})())
    [state] = plugins.states
    assert (state.state, state.entry) == ("failed", "acme")
    assert "option n: the default c is none of a, b" in state.reason


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("call", "answers None to call(), not a FunctionCall"),
        ("headers", "answers None to headers(), not a tuple"),
        ("traits", "answers None to traits(), not Traits"),
        ("constraints", "answers None to constraints(), not a tuple"),
        ("terms", "answers None to terms(), not a tuple of Term"),
        ("weight_bytes", "says that its weight_bytes are None"),
        ("scratch_bytes", "says that its scratch_bytes are None"),
        ("cycles", "says that its cycles are None"),
    ],
)
def test_methods_without_a_result_are_the_kernels_error(
    method: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(PluginError) as caught:
        build(tmp_path, **{method: lambda *_: None})
    assert said in caught.value.message and "of acme.kernels " in caught.value.message


@pytest.mark.parametrize("hook", ["dory_kernels", "dory_passes"])
def test_a_hook_that_forgets_its_list_is_the_plugins_error(hook: str, tmp_path: Path) -> None:
    class Forgetful(ToyChip):
        pass

    def nothing(self: object) -> None:
        return None

    nothing.__name__ = hook
    setattr(Forgetful, hook, hookimpl(target=NAME)(nothing))
    plugins = Plugins.from_objects(forgetful=Forgetful())
    with pytest.raises(PluginError, match=f"forgetful returned None from {hook}, not a list"):
        build_app(graph(), NAME, tmp_path / "app", plugins=plugins)


def test_a_plugin_that_forgets_its_targets_is_left_out() -> None:
    class Targetless:
        @hookimpl
        def dory_targets(self) -> None:
            return None

    [state] = Plugins.from_objects(targetless=Targetless()).states
    assert (state.state, state.reason) == ("failed", "dory_targets returned None, not a list")


def test_a_hook_says_nothing_about_targets_of_others(tmp_path: Path) -> None:
    class Other:
        @hookimpl(target="another")
        def dory_kernels(self) -> list[Kernel]:
            return [1]  # type: ignore[list-item]

        @hookimpl
        def dory_passes(self, ctx: Any) -> list[Pass] | None:
            return [] if ctx.name == "another" else None

    plugins = Plugins.from_objects(other=Other(), toy=ToyChip())
    build_app(graph(), NAME, tmp_path / "app", plugins=plugins)
    assert (tmp_path / "app" / "plan.json").exists()
