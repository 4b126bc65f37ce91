"""Options, contexts and the hooks of a target, through the Plugins object."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dory_core.errors import NotSupported, UsageError
from dory_core.hardware.links import Link
from dory_core.hardware.memories import Level, Memory, MemoryHierarchy
from dory_core.hardware.target import DmaHal, OperatingPoint, Option, OutputFile, Target
from dory_core.kernels.call import FunctionCall
from dory_core.kernels.kernel import Kernel, Rejection, Term
from dory_core.passes import Pass
from dory_core.plugins.hooks import hookimpl
from dory_core.plugins.manager import PluginError, Plugins

OPTIONS = (
    Option("cores", int, 4, "cores that run kernels"),
    Option("fast", bool, False, "run fast"),
    Option("kernels", str, "own", "kernel library", ("own", "vendor")),
)
POINTS = (
    OperatingPoint("low", 1e6, 1e6, 1e-12, "data sheet"),
    OperatingPoint("high", 2e6, 1e6, 2e-12, "data sheet"),
)


class NamedKernel(Kernel):
    def __init__(self, name: str) -> None:
        self.name = name

    def accepts(self, layer: Any) -> Rejection | None:
        return None

    def cycles(self, layer: Any, tile: Any) -> int:
        return 1

    def symbol(self, layer: Any) -> str:
        return self.name

    def call(self, layer: Any) -> FunctionCall:
        return FunctionCall(self.name, {})

    def headers(self, layer: Any) -> tuple[str, ...]:
        return ()

    def sources(self, layer: Any) -> tuple[OutputFile, ...]:
        return ()


def memories(cores: int) -> MemoryHierarchy:
    levels = (Level(1, (Memory("TCM", 4096),)), Level(2, (Memory("SRAM", 65536),)))
    return MemoryHierarchy(levels, (Link(1, 2, setup_cycles=10, bytes_per_cycle=4.0),), cores)


class Chip:
    """A plugin as an object: each hook is a bound method."""

    @hookimpl
    def dory_targets(self) -> list[Target]:
        return [Target("chip", "a chip", OPTIONS, operating_points=POINTS)]

    @hookimpl(target="chip")
    def dory_memory_hierarchy(self, ctx: Any) -> MemoryHierarchy:
        assert ctx.hierarchy is None
        return memories(ctx.options["cores"])

    @hookimpl
    def dory_kernels(self, ctx: Any) -> list[Kernel]:
        return [NamedKernel("first"), NamedKernel("second")]

    @hookimpl
    def dory_objective_terms(self, tile: Any) -> list[Term]:
        return [Term("rows", 1.0, tile.h * 2)]

    @hookimpl
    def dory_passes(self, ctx: Any) -> list[Pass]:
        return [Pass("nothing", "does nothing", lambda graph: graph)]

    @hookimpl
    def dory_application(self, ctx: Any, application: Any) -> list[OutputFile]:
        return [OutputFile("main.c", "int main(void) { return 0; }")]

    @hookimpl(target=("chip", "another chip"))
    def dory_dma_hal(self, ctx: Any) -> DmaHal:
        return DmaHal(tickets=len(ctx.name))


@pytest.fixture
def plugins() -> Plugins:
    return Plugins.from_objects(chip=Chip())


def test_defaults_of_options_and_operating_point(plugins: Plugins) -> None:
    ctx = plugins.context("chip")
    assert dict(ctx.options) == {
        "cores": 4,
        "fast": False,
        "input_rows": False,
        "kernels": "own",
        "keep_constant_channels": False,
        "moves": "",
        "output_rows": False,
        "operating_point": "low",
        "storage": "fast",
    }
    assert ctx.operating_point == POINTS[0]
    assert ctx.memory.cores == 4


def test_settings_are_typed_and_reach_the_hierarchy(plugins: Plugins) -> None:
    settings = {"cores": "8", "fast": "on", "kernels": "vendor", "operating_point": "high"}
    ctx = plugins.context("chip", settings)
    assert (ctx.options["cores"], ctx.options["fast"]) == (8, True)
    assert ctx.options["kernels"] == "vendor"
    assert ctx.operating_point == POINTS[1]
    assert ctx.memory.cores == 8


class Family(Chip):
    """Two chips with a clock of their own, and one that both have."""

    @hookimpl
    def dory_targets(self) -> list[Target]:
        only = {name: ("kernels", (name,)) for name in ("own", "vendor")}
        points = (
            OperatingPoint("fast", 9e6, 1e6, 0.0, "data sheet of one", only["own"]),
            OperatingPoint("fast", 7e6, 1e6, 0.0, "data sheet of the other", only["vendor"]),
            OperatingPoint("turbo", 8e6, 1e6, 0.0, "data sheet of the other", only["vendor"]),
            POINTS[0],
        )
        return [Target("chip", "a chip", OPTIONS, operating_points=points)]


def test_operating_points_may_depend_on_an_option() -> None:
    plugins = Plugins.from_objects(chip=Family())

    def clock(**settings: str) -> tuple[str, float]:
        ctx = plugins.context("chip", settings)
        assert ctx.operating_point is not None
        assert ctx.options["operating_point"] == ctx.operating_point.name
        return ctx.operating_point.name, ctx.operating_point.core_hz

    assert clock() == ("fast", 9e6)
    assert clock(kernels="vendor") == ("fast", 7e6)
    assert clock(kernels="vendor", operating_point="turbo") == ("turbo", 8e6)
    assert clock(operating_point="low") == ("low", 1e6)
    with pytest.raises(UsageError, match="turbo does not go with the other options") as caught:
        clock(operating_point="turbo")
    assert caught.value.hint == "there is: fast, low"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"colour": "red"},
            [
                "'colour'",
                "cores, fast, kernels, keep_constant_channels, storage, moves, input_rows",
            ],
        ),
        ({"core": "8"}, ["no option 'core'; did you mean 'cores'?"]),
        ({"cores": "many"}, ["cores", "an integer", "'many'"]),
        ({"fast": "maybe"}, ["fast", "on or off", "'maybe'"]),
        ({"kernels": "theirs"}, ["kernels", "'theirs'", "own, vendor"]),
        ({"operating_point": "warp"}, ["operating_point", "'warp'", "low, high"]),
    ],
)
def test_wrong_setting_is_a_usage_error_that_says_what_is_right(
    plugins: Plugins, settings: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(UsageError) as caught:
        plugins.context("chip", settings)
    for word in words:
        assert word in caught.value.message + " " + caught.value.hint


def test_unknown_names_list_the_known_ones(plugins: Plugins) -> None:
    with pytest.raises(UsageError, match=r"unknown target 'chop'; known: chip"):
        plugins.target("chop")
    with pytest.raises(UsageError, match=r"unknown frontend 'x'; known: none is installed"):
        plugins.frontend("x")


def test_hooks_may_leave_out_parameters(plugins: Plugins) -> None:
    ctx = plugins.context("chip")
    layer: Any = SimpleNamespace()
    tile: Any = SimpleNamespace(h=3)
    kernels = plugins.kernels(ctx, layer)
    assert [kernel.name for kernel in kernels] == ["first", "second"]
    assert plugins.objective_terms(ctx, layer, kernels[0], tile) == (Term("rows", 1.0, 6),)
    assert [step.name for step in plugins.passes(ctx)] == ["nothing"]
    assert plugins.dma_hal(ctx) == DmaHal(tickets=len("chip"))
    assert [file.path for file in plugins.application(ctx, layer)] == ["main.c"]
    assert plugins.runners(ctx) == ()


def test_third_party_adds_kernels_and_terms_to_a_target() -> None:
    class Extra:
        @hookimpl(target="chip")
        def dory_kernels(self) -> list[Kernel]:
            return [NamedKernel("third")]

        @hookimpl
        def dory_objective_terms(self, ctx: Any) -> list[Term]:
            return [Term("extra", 2.0, 1)]

    plugins = Plugins.from_objects(chip=Chip(), extra=Extra())
    ctx = plugins.context("chip")
    layer: Any = None
    names = [kernel.name for kernel in plugins.kernels(ctx, layer)]
    assert names == ["first", "second", "third"]
    terms = plugins.objective_terms(ctx, layer, NamedKernel("k"), SimpleNamespace(h=5))  # type: ignore[arg-type]
    assert [(term.name, term.value) for term in terms] == [("rows", 10), ("extra", 1)]


def test_a_hook_is_called_for_its_targets_alone() -> None:
    plugins = Plugins.from_objects(chip=Chip())
    ctx = plugins.context("chip")
    other, third = (replace(ctx, name=name, options={}) for name in ("another chip", "third"))
    assert plugins.dma_hal(ctx) == DmaHal(tickets=len("chip"))
    assert plugins.dma_hal(other) == DmaHal(tickets=len("another chip"))
    assert plugins.dma_hal(third) is None
    assert [p.name for p in plugins.passes(third)] == ["nothing"], "it names no target"


def test_kernel_clash_keeps_the_first_and_names_both() -> None:
    class Rival:
        @hookimpl
        def dory_kernels(self) -> list[Kernel]:
            return [NamedKernel("second"), NamedKernel("fourth")]

    plugins = Plugins.from_objects(chip=Chip(), rival=Rival())
    ctx = plugins.context("chip")
    layer: Any = None
    for _ in range(2):
        names = [kernel.name for kernel in plugins.kernels(ctx, layer)]
        assert names == ["first", "second", "fourth"]
    rival = plugins.states[1]
    assert rival.reason == (
        "kernel 'second' is provided by both chip and rival; the first one is used"
    )


def test_the_plugin_of_the_target_is_asked_before_others_unless_these_declare_it() -> None:
    """Whatever the order of their names is."""

    class Behind:
        @hookimpl
        def dory_memory_hierarchy(self) -> MemoryHierarchy:
            return memories(cores=98)

        @hookimpl(target="chip")
        def dory_kernels(self) -> list[Kernel]:
            return [NamedKernel("theirs")]

    class Before:
        @hookimpl(first=True)
        def dory_memory_hierarchy(self) -> MemoryHierarchy:
            return memories(cores=99)

        @hookimpl(target="chip", first=True)
        def dory_kernels(self) -> list[Kernel]:
            return [NamedKernel("theirs")]

    layer: Any = None
    for other, cores, names in (
        (Behind(), 4, ["first", "second", "theirs"]),
        (Before(), 99, ["theirs", "first", "second"]),
    ):
        for objects in ({"a": Chip(), "b": other}, {"a": other, "b": Chip()}):
            plugins = Plugins.from_objects(**objects)
            ctx = plugins.context("chip")
            assert ctx.memory.cores == cores
            assert [kernel.name for kernel in plugins.kernels(ctx, layer)] == names
            (owner,) = plugins.foreign_kernels("chip").values()
            assert objects[owner] is other


def test_a_wrapper_sees_the_answers_of_all_and_may_change_them() -> None:
    class Without:
        """Leaves a kernel of another plugin out, and gives the chip a core less."""

        @hookimpl(target="chip", wrapper=True)
        def dory_kernels(self) -> Any:
            answers = yield
            kept = [[k for k in answer if k.name != "second"] for answer in answers]
            return [*kept, [NamedKernel("more")]]

        @hookimpl(target="chip", wrapper=True)
        def dory_memory_hierarchy(self, ctx: Any) -> Any:
            hierarchy = yield
            return replace(hierarchy, cores=hierarchy.cores - 1)

    plugins = Plugins.from_objects(without=Without(), chip=Chip())
    ctx = plugins.context("chip")
    layer: Any = None
    assert ctx.memory.cores == 3
    assert [kernel.name for kernel in plugins.kernels(ctx, layer)] == ["first", "more"]
    third = Plugins.from_objects(chip=Chip(), without=Without()).context("chip")
    assert third.memory.cores == 3, "whatever the order of their names is"


@pytest.mark.parametrize("returned", [None, 3, ["text"], [["text"]]])
def test_a_wrapper_that_returns_something_else_is_reported(returned: object) -> None:
    class Wrong:
        @hookimpl(target="chip", wrapper=True)
        def dory_passes(self) -> Any:
            yield
            return returned

    plugins = Plugins.from_objects(chip=Chip(), wrong=Wrong())
    with pytest.raises(PluginError, match=r"plugin wrong returned .* from dory_passes"):
        plugins.passes(plugins.context("chip"))


def test_an_error_passes_through_a_wrapper_and_names_the_plugin_that_failed() -> None:
    class Around:
        @hookimpl(target="chip", wrapper=True)
        def dory_passes(self) -> Any:
            return (yield)

    class Broken:
        @hookimpl
        def dory_passes(self) -> list[Pass]:
            raise ZeroDivisionError("oops")

    plugins = Plugins.from_objects(chip=Chip(), around=Around(), broken=Broken())
    said = r"^plugin broken failed in dory_passes: ZeroDivisionError: oops$"
    with pytest.raises(PluginError, match=said):
        plugins.passes(plugins.context("chip"))


def test_target_without_memories_names_the_hook_and_the_plugin() -> None:
    class Bare:
        @hookimpl
        def dory_targets(self) -> list[Target]:
            return [Target("bare", "nothing but a name")]

    with pytest.raises(PluginError, match="dory_memory_hierarchy"):
        Plugins.from_objects(bare=Bare()).context("bare")


def test_hook_that_raises_is_reported_with_its_plugin() -> None:
    class Broken:
        @hookimpl
        def dory_kernels(self) -> list[Kernel]:
            raise ZeroDivisionError("oops")

    plugins = Plugins.from_objects(chip=Chip(), broken=Broken())
    layer: Any = None
    with pytest.raises(
        PluginError, match=r"plugin broken failed in dory_kernels: ZeroDivisionError: oops"
    ) as caught:
        plugins.kernels(plugins.context("chip"), layer)
    assert "DORY_PLUGINS" in caught.value.hint


def test_hook_that_explains_itself_is_left_alone() -> None:
    class Strict:
        @hookimpl
        def dory_passes(self) -> list[Pass]:
            raise NotSupported("node 'conv1' has 3 groups", "use 4")

    plugins = Plugins.from_objects(chip=Chip(), strict=Strict())
    with pytest.raises(NotSupported, match="3 groups"):
        plugins.passes(plugins.context("chip"))


@pytest.mark.parametrize("returned", ["text", {"a": 1}, ["text"], 3])
def test_hook_that_returns_something_else_is_reported(returned: object) -> None:
    class Wrong:
        @hookimpl
        def dory_passes(self) -> object:
            return returned

    plugins = Plugins.from_objects(chip=Chip(), wrong=Wrong())
    with pytest.raises(PluginError, match=r"plugin wrong returned .* from dory_passes"):
        plugins.passes(plugins.context("chip"))


def test_two_plugins_may_not_write_the_same_file() -> None:
    class Other:
        @hookimpl
        def dory_application(self) -> list[OutputFile]:
            return [OutputFile("main.c", "")]

    plugins = Plugins.from_objects(chip=Chip(), other=Other())
    application: Any = None
    with pytest.raises(PluginError, match=r"'main\.c' comes from both chip and other"):
        plugins.application(plugins.context("chip"), application)
