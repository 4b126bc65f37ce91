"""The extension points of dory: one typed function per hook.

A plugin is a module named by an entry point of group ``dory``. It implements any of these functions
under the same name, marked with ``dory_core.api.hookimpl``; it may leave out parameters that it
does not need. Hooks return frozen records, have no side effects, and may be called any number of
times. Where a hook receives a ``ctx``, ``@hookimpl(target="NAME")`` names the target that it
answers for, of its own or of another plugin: several plugins can contribute to one target, and one
plugin to several. A hook that has no answer returns ``[]`` (or ``None``). This is what the
functions here return, and it has the same effect as a plugin without the hook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import typer

    from dory_core.codegen.application_record import Application
    from dory_core.hardware.memories import MemoryHierarchy
    from dory_core.hardware.target import DmaHal, OutputFile, Target, TargetContext
    from dory_core.ir import Layer, Operator
    from dory_core.ir.geometry import Tile
    from dory_core.kernels.kernel import Kernel, Term
    from dory_core.passes import Pass
    from dory_core.plugins.frontend import Frontend
    from dory_core.simulate.runner import Runner

#: Name of dory among the programs that have plugins by pluggy.
PROJECT = "dory"
hookspec = pluggy.HookspecMarker(PROJECT)


@hookspec
def dory_frontends() -> list[Frontend]:
    """Return the file formats that this plugin can read.

    ``Frontend.name`` is what ``--frontend`` takes; ``reader`` turns a file into a Graph or raises
    NotSupported with the node and the reason. It is called only when the format is asked for, so
    import what it needs inside. Frontends of ONNX dialects share the package ``dory_onnx``.

    >>> from dory_core.api import hookimpl
    >>> from dory_core.importing import Frontend
    >>> def read(path, options):
    ...     from dory_core.api import NotSupported
    ...     raise NotSupported(f"{path.name}: this example reads nothing")
    >>> @hookimpl
    ... def dory_frontends():
    ...     return [Frontend("example", "a format of this example", read)]
    >>> [frontend.name for frontend in dory_frontends()]
    ['example']
    """
    return []


@hookspec
def dory_targets() -> list[Target]:
    """Return the chips that this plugin can generate applications for.

    Other hooks, of this plugin or another one, describe the target's memories and kernels.

    >>> from dory_core.api import Option, Target, hookimpl
    >>> @hookimpl
    ... def dory_targets():
    ...     cores = Option("cores", int, default=4, help="cores that run kernels")
    ...     return [Target("blinky", "a chip with four cores and an LED", options=(cores,))]
    >>> [target.name for target in dory_targets()]
    ['blinky']
    """
    return []


@hookspec
def dory_operators() -> list[type[Operator]]:
    """Return the kinds of layers that this plugin adds to those of the core.

    A kind is a frozen dataclass that derives from ``ops.Operator``: its fields, and in methods all
    that dory asks of a layer. Its frontend puts such layers into Graphs; kernels for them come from
    ``dory_kernels``, of a target's plugin or of this one (a hook that is marked without a target is
    asked for every target). The text of a Graph has the kind under the name of the class, with its
    fields; random layers and examples of the kit are those that the class draws.

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from dory_core.api import hookimpl, ops
    >>> @dataclass(frozen=True, slots=True, kw_only=True)
    ... class Magnitude(ops.Operator):
    ...     # the sum of the magnitudes of all channels of a pixel
    ...     def output_shape(self, sources):
    ...         return 1, sources[0].height, sources[0].width
    ...     def accumulator(self, sources, apply):
    ...         [x] = sources
    ...         most = max(abs(x.lo), abs(x.hi)) * x.channels
    ...         return ops.Accumulator.of(np.array([0]), np.array([most]))
    ...     def compute(self, inputs):
    ...         return abs(inputs[0]).sum(axis=0, keepdims=True)
    >>> @hookimpl
    ... def dory_operators():
    ...     return [Magnitude]
    >>> [kind.__name__ for kind in dory_operators()]
    ['Magnitude']
    """
    return []


@hookspec(firstresult=True)
def dory_memory_hierarchy(ctx: TargetContext) -> MemoryHierarchy | None:
    """Return the memories of target ``ctx.name`` and the links between them; first result wins.

    ``ctx`` has the options but no hierarchy yet. Solver, estimator and simulator all read sizes,
    timings and core count here, so an option that changes the chip takes effect here.
    ``storage_bits`` lists the widths of activations that the kernels profit from, by default 2, 4,
    8, 16 and 32. Each tensor is stored in the narrowest width that its layers' kernels accept.

    >>> from dory_core.api import Level, Link, Memory, MemoryHierarchy, TargetContext, hookimpl
    >>> @hookimpl(target="blinky")
    ... def dory_memory_hierarchy(ctx):
    ...     levels = (
    ...         Level(1, (Memory("TCDM", size_bytes=32 * 1024, reserved_bytes=4 * 1024),)),
    ...         Level(2, (Memory("SRAM", size_bytes=256 * 1024),)),
    ...     )
    ...     links = (Link(upper=1, lower=2, setup_cycles=30, bytes_per_cycle=4.0),)
    ...     return MemoryHierarchy(levels, links, cores=ctx.options["cores"])
    >>> hierarchy = dory_memory_hierarchy(TargetContext("blinky", {"cores": 2}))
    >>> hierarchy.cores, hierarchy.level(1).usable_bytes
    (2, 28672)
    """
    return None


@hookspec
def dory_objective_terms(
    ctx: TargetContext, layer: Layer, kernel: Kernel, tile: Tile
) -> list[Term]:
    """Return terms of the objective that rate a tile of ``kernel`` beyond the memory that it fills.

    A kernel states its own terms next to its code (``Kernel.terms``). The sizes of ``tile`` are
    expressions of the solver. Write terms with + - * // % and ``ceil_div``, ``minimum``,
    ``maximum``. The solver maximises the sum of weight * value over the terms of all plugins and
    those of the kernel.

    >>> from types import SimpleNamespace
    >>> from dory_core.api import Term, hookimpl
    >>> @hookimpl(target="blinky")
    ... def dory_objective_terms(tile):
    ...     return [Term("rows divide among 4 cores", 100.0, (tile.h - 1) % 4)]
    >>> [term] = dory_objective_terms(SimpleNamespace(h=8))
    >>> term.value
    3
    """
    return []


@hookspec(firstresult=True)
def dory_dma_hal(ctx: TargetContext) -> DmaHal | None:
    """Return the C files that implement ``dory_hal.h`` on the chip; first result wins.

    The host simulation has a HAL of its own and does not ask for this one.

    >>> from dory_core.api import DmaHal, OutputFile, hookimpl
    >>> @hookimpl(target="blinky")
    ... def dory_dma_hal():
    ...     source = OutputFile("hal/dory_hal_blinky.c", "/* dory_dma_start() and others */")
    ...     return DmaHal(files=(source,), any_core=False)
    >>> dory_dma_hal().files[0].path
    'hal/dory_hal_blinky.c'
    """
    return None


@hookspec
def dory_kernels(ctx: TargetContext, layer: Layer) -> list[Kernel]:
    """Return the kernels of the target that may compute ``layer``, best first.

    All plugins' kernels are candidates. Each kernel checks the layer itself (``Kernel.accepts``)
    and rejects it with a sentence. Return also the kernels that will reject the layer: the user
    sees the reason. Names are unique within a target. A kernel reads a layer that it has accepted
    as ``layer.of(ops.Conv)``; ``layer.weighted`` and ``layer.window`` serve several kinds.

    >>> from dory_core.api import FunctionCall, Kernel, Rejection, hookimpl, named, size
    >>> class AddKernel(Kernel):
    ...     name = "dory_blinky_add"
    ...     def accepts(self, layer):
    ...         return None if layer.op.kind == "Add" else Rejection("it only adds")
    ...     def cycles(self, layer, tile):
    ...         return tile.h * tile.w * tile.c_out
    ...     def symbol(self, layer):
    ...         return "dory_blinky_add_u8"
    ...     def call(self, layer):
    ...         elements = size("y_h") * size("y_w") * size("y_c")
    ...         return FunctionCall("dory_blinky_add_u8", {**named("x", "x2", "y"), "n": elements})
    ...     def headers(self, layer):
    ...         return ("dory_blinky_add.h",)
    ...     def sources(self, layer):
    ...         return ()
    >>> @hookimpl(target="blinky")
    ... def dory_kernels():
    ...     return [AddKernel()]
    >>> [kernel.name for kernel in dory_kernels()]
    ['dory_blinky_add']
    """
    return []


@hookspec
def dory_passes(ctx: TargetContext) -> list[Pass]:
    """Return graph passes of the target, run in the order given, before those of the core.

    The core's passes choose storage by the kernels of the layers, so they need the final layers.

    A pass keeps every value of the network. The exception is a pass with ``exact=False``, which an
    option of the target has to switch on. dory then computes the test vectors with and without it,
    and notes how many values differ and by how much.

    >>> from dory_core.api import Pass, hookimpl
    >>> def pad_channels(graph):
    ...     return graph
    >>> @hookimpl(target="blinky")
    ... def dory_passes():
    ...     return [Pass("blinky-pad", "pad channels to multiples of four", pad_channels)]
    >>> dory_passes()[0].name
    'blinky-pad'
    """
    return []


@hookspec
def dory_application(ctx: TargetContext, application: Application) -> list[OutputFile]:
    """Return every file of the application outside network, layers and weights.

    These are main, the SDK's Makefile, start-up code, linker script and weight containers. Paths
    are relative to the application directory. ``application`` describes layers, addresses of
    tensors, bytes of the arenas and the README to complete.

    >>> from dory_core.api import OutputFile, hookimpl
    >>> @hookimpl(target="blinky")
    ... def dory_application(application):
    ...     arena = f"static char l2[{application.l2_bytes}];"
    ...     return [OutputFile("board/arena.c", arena)]
    >>> from types import SimpleNamespace
    >>> [file.content for file in dory_application(SimpleNamespace(l2_bytes=4096))]
    ['static char l2[4096];']
    """
    return []


@hookspec
def dory_runners(ctx: TargetContext) -> list[Runner]:
    """Return ways to run an application of the target other than the host simulation.

    ``Runner.run`` executes an application and compares every layer with the expected values of
    a ``RunRequest``.

    >>> from dory_core.api import ToolMissing, hookimpl, simulate
    >>> def run_on_board(app_dir, request):
    ...     raise ToolMissing("no blinky board is connected", "connect one with USB")
    >>> @hookimpl(target="blinky")
    ... def dory_runners():
    ...     return [simulate.Runner("board", "a blinky board on USB", run_on_board)]
    >>> [runner.name for runner in dory_runners()]
    ['board']
    """
    return []


@hookspec
def dory_reports(plan: Mapping[str, Any], timeline: Mapping[str, Any]) -> list[OutputFile]:
    """Return files that explain an application to a person; they are written next to it.

    Every plugin is asked, for every target. The application builds and runs without these files:
    when a plugin fails here, dory warns and writes the application without them.

    Args:
        plan: The document of ``plan.json``.
        timeline: The document of ``timeline.json``.

    >>> from dory_core.api import OutputFile, hookimpl
    >>> @hookimpl
    ... def dory_reports(plan):
    ...     return [OutputFile("cycles.txt", f"{plan['totals']['cycles']} cycles")]
    >>> [file] = dory_reports({"totals": {"cycles": 1200}})
    >>> file.path, file.content
    ('cycles.txt', '1200 cycles')
    """
    return []


@hookspec
def dory_functions() -> list[Callable[..., Any]]:
    """Return functions that users of dory in Python find next to its own, in ``dory_core.tools``.

    A function is there under its own name. A command of the plugin calls the same function, so
    that both do the same. When two plugins offer a name, the first plugin keeps it. The function
    ``pictures(plan, timeline)`` returns charts as SVG by name, for ``CompiledNetwork.pictures``.

    >>> from dory_core.api import hookimpl
    >>> def flash(application):
    ...     \"\"\"Write an application to the board.\"\"\"
    ...     return f"{application} is on the board"
    >>> @hookimpl
    ... def dory_functions():
    ...     return [flash]
    >>> [function.__name__ for function in dory_functions()]
    ['flash']
    """
    return []


@hookspec
def dory_commands(app: typer.Typer) -> None:
    """Add commands to the command line.

    dory's own commands cannot be replaced. When two plugins add a command of the same name, the
    first plugin keeps it; `dory plugins` shows what is left out. ``dory --help`` lists the commands
    of plugins whose entry point is also in the group ``dory.commands``, and imports no other
    plugin: keep that module light. ``cli`` holds what commands share: options, console, messages.

    >>> import typer
    >>> from dory_core.api import hookimpl
    >>> from dory_core.tools import cli
    >>> @hookimpl
    ... def dory_commands(app):
    ...     @app.command()
    ...     def flash(directory: str, debug: cli.Debug = False):
    ...         \"\"\"Write an application to the board.\"\"\"
    ...         print("flashing", directory)
    >>> app = typer.Typer()
    >>> dory_commands(app)
    >>> [command.callback.__name__ for command in app.registered_commands]
    ['flash']
    """
