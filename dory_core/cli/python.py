"""dory from Python: the commands as functions, whose results a notebook can show.

    import dory_core.tools as dory

    network = dory.compile("model.tflite", target="gap8", output="app")
    network.report()
    network.run().exact

A notebook shows the results as tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dory_core.cli.files import existing_file
from dory_core.cli.html import html_page
from dory_core.cli.requests import compile_options, given_budgets
from dory_core.cli.results import ApplicationRun, CheckedNetwork, LeastRam
from dory_core.errors import UsageError
from dory_core.hardware.options import INPUT_ROWS, OUTPUT_ROWS
from dory_core.plan import DEFAULT_PREFIX

if TYPE_CHECKING:
    from dory_core.driver.compiler import CompileOptions
    from dory_core.golden.desktop import DesktopReport
    from dory_core.golden.layers import GoldenReport
    from dory_core.plugins.manager import Plugins

PathName = str | Path
#: Called with (stage, steps done, steps in all).
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class CompiledNetwork:
    """A compiled network.

    Attributes:
        plan: The document plan.json, which docs/json.md describes.
        path: Directory of the application, None when the network was only planned.
        golden: Layers that goldens confirmed, None without a golden.
        passes: Names of the passes over the graph, in order.
    """

    plan: Mapping[str, Any]
    path: Path | None
    golden: GoldenReport | None
    passes: tuple[str, ...] = ()

    @property
    def cycles(self) -> int:
        """Estimated cycles of one inference."""
        return int(self.plan["totals"]["cycles"])

    def report(self, *, details: int = 0) -> None:
        """Print layers, memory and totals.

        details: 1 adds rejections by kernels for the kind of each layer; 2 adds all kernels.
        """
        from dory_core.cli.common import console
        from dory_core.cli.tables.plan import print_plan

        print_plan(self.plan, console(), details=details)

    def run(self, **options: Any) -> ApplicationRun:
        """Run the application as :func:`run` does. Raises UsageError when it was only planned."""
        if self.path is None:
            raise UsageError(
                "the network was only planned, there is no application to run",
                "compile it with output= a directory",
            )
        return run(self.path, **options)

    def _repr_html_(self) -> str:
        from dory_core.cli.tables.plan import print_plan

        return html_page(lambda out: print_plan(self.plan, out))


def compile(
    network: PathName,
    target: str,
    *,
    output: PathName | None = None,
    frontend: str | None = None,
    golden: Sequence[PathName] = (),
    input: PathName | None = None,
    input_layout: str = "",
    input_bits: int = 8,
    input_signed: bool = False,
    l1: int | None = None,
    l2: int | None = None,
    l3: int | None = None,
    l2_reserve: int = 0,
    settings: Mapping[str, str] | None = None,
    objective: str = "heuristic",
    layer: int | None = None,
    prefix: str = DEFAULT_PREFIX,
    float_io: bool = False,
    input_rows: bool = False,
    output_rows: bool = False,
    not_deployable_ok: bool = False,
    dump_stages: PathName | None = None,
    progress: Progress | None = None,
    plugins: Plugins | None = None,
) -> CompiledNetwork:
    """Compile a network for a target as ``dory`` does, and write the application to ``output``.

    Args:
        network: File of the network.
        target: Name of the target.
        output: Directory of the application; None plans and writes nothing.
        frontend: Name of the frontend; None takes the one that recognises the file.
        golden: Files or folders of test vectors.
        input: File with one test input, in place of a golden.
        input_layout: Layout of the input, ``hwc`` or ``chw``.
        input_bits: Bits of the network input where the file does not state them.
        input_signed: Signedness of the network input where the file does not state it.
        l1: Bytes of L1 for the network.
        l2: Bytes of L2.
        l3: Bytes of L3.
        l2_reserve: Bytes of L2 that the surrounding program needs.
        settings: Options of the target.
        objective: What is made best: ``cycles`` (or ``heuristic``), ``latency`` (with tiles of the
            fewest cycles) or ``ram`` (the fewest bytes of L2, of such plans the fastest).
        layer: Index of a layer to emit as a function of its own; None for the whole network.
        prefix: Prefix of all public names in C.
        float_io: Add functions that convert float input and output.
        input_rows: Inputs come by rows; the same as the setting ``input_rows=on``.
        output_rows: Outputs go by rows; the same as the setting ``output_rows=on``.
        not_deployable_ok: Write an application even when it cannot run on the chip.
        dump_stages: Directory for the result of each stage.
        progress: Function called with (stage, steps done, total steps).
        plugins: Plugins to use; None for the installed ones.

    Raises:
        DoryError: The errors of each stage; see docs/errors.md.
    """
    from dory_core.driver.compiler import compile_network

    path = existing_file(Path(network), "network")
    by_rows = {INPUT_ROWS.name: input_rows, OUTPUT_ROWS.name: output_rows}
    settings = {**(settings or {}), **{name: "on" for name, given in by_rows.items() if given}}
    if input is not None and golden:
        raise UsageError(
            "--golden brings its own input; --input would be ignored", "leave one of them out"
        )
    plugins = plugins or _plugins()
    options = compile_options(
        path,
        target,
        plugins,
        frontend=frontend,
        input_bits=input_bits,
        input_signed=input_signed,
        budgets=given_budgets(l1, l2, l3),
        l2_reserve=l2_reserve,
        settings=settings,
        output=None if output is None else Path(output),
        golden=tuple(Path(path) for path in golden),
        input=None if input is None else existing_file(Path(input), "input"),
        input_layout=input_layout,
        objective=objective,
        layer=layer,
        plan_only=output is None,
        prefix=prefix,
        float_io=float_io,
        dump_stages=None if dump_stages is None else Path(dump_stages),
        deployable_only=not not_deployable_ok,
    )
    result = compile_network(options, plugins, progress)
    plan = result.plan.to_json()
    return CompiledNetwork(plan, result.output, result.golden, result.passes)


def run(
    application: PathName,
    *,
    inputs: Sequence[PathName] = (),
    input_layout: str = "",
    golden: Sequence[PathName] = (),
    dump: PathName | None = None,
    dma: str | None = "early",
    seed: int = 1,
    repeat: int = 1,
    sanitize: str | None = None,
    runner: str | None = None,
    plugins: Plugins | None = None,
) -> ApplicationRun:
    """Build and run an application as ``dory run`` does, and compare every element of every layer.

    Args:
        application: Directory of the application.
        inputs: Files with test inputs, in place of the embedded ones. State passes from one input
            to the next.
        input_layout: Layout of the inputs, ``hwc`` or ``chw``.
        golden: Files or folders of test vectors, in place of the embedded ones.
        dump: Directory for ``layer_NN.npy``.
        dma: When simulated transfers move their bytes: ``early``, ``late``, ``random``, or None to
            run all three modes if that is quick.
        seed: Seed of ``random``.
        repeat: Number of executions of each input.
        sanitize: Sanitizers of the C compiler, ``address,undefined`` or ``thread``.
        runner: Name of the runner; None for the one that the target prefers.
        plugins: Plugins to use; None for the installed ones.

    Raises:
        UsageError: For invalid arguments.
        ToolMissing: When a compiler or a tool of the runner is missing.
        VerificationFailed: When the program was stopped. Values that differ are in the result.
    """
    from dory_core.driver.application import run_application

    return ApplicationRun(
        run_application(
            Path(application),
            plugins=plugins or _plugins(),
            inputs=tuple(Path(path) for path in inputs),
            input_layout=input_layout,
            golden=tuple(Path(path) for path in golden),
            dump=None if dump is None else Path(dump),
            dma=dma,
            seed=seed,
            repeat=repeat,
            sanitize=sanitize,
            runner=runner,
        )
    )


def check(  # noqa: D417  the others are those of compile
    network: PathName,
    target: str = "",
    *,
    frontend: str | None = None,
    golden: Sequence[PathName] = (),
    input_bits: int = 8,
    input_signed: bool = False,
    l1: int | None = None,
    l2: int | None = None,
    l3: int | None = None,
    l2_reserve: int = 0,
    settings: Mapping[str, str] | None = None,
    compare_desktop: bool = False,
    plugins: Plugins | None = None,
) -> CheckedNetwork:
    """Check layer by layer that a network is supported and fits; write nothing.

    Arguments that are not listed are those of :func:`compile`.

    Args:
        network: File of the network.
        target: Name of the target. An empty name checks only the import, without budgets and
            settings.
        compare_desktop: Also run the desktop interpreters of the format.

    Raises:
        UsageError: For invalid arguments.
        ToolMissing: When a desktop interpreter is missing.
        VerificationFailed: When the network differs from a golden.
    """
    from dory_core.driver.check import check_network

    budgets = given_budgets(l1, l2, l3)
    path = existing_file(Path(network), "network")
    if not target and (settings or budgets or l2_reserve):
        raise UsageError(
            "budgets and settings are those of a target, and none is named",
            "name one with --target NAME; `dory targets` lists them",
        )
    plugins = plugins or _plugins()
    options = compile_options(
        path,
        target,
        plugins,
        frontend=frontend,
        golden=tuple(Path(file) for file in golden),
        input_bits=input_bits,
        input_signed=input_signed,
        budgets=budgets,
        l2_reserve=l2_reserve,
        settings=settings,
    )
    report = check_network(options, plugins)
    if compare_desktop and report.supported:
        report = replace(report, desktop=_desktop(options, plugins))
    return CheckedNetwork(report)


def least_ram(  # noqa: D417  the others are those of compile
    network: PathName,
    target: str,
    *,
    frontend: str | None = None,
    input_bits: int = 8,
    input_signed: bool = False,
    l1: int | None = None,
    l2: int | None = None,
    l3: int | None = None,
    l2_reserve: int = 0,
    settings: Mapping[str, str] | None = None,
    plugins: Plugins | None = None,
) -> LeastRam:
    """Plan a network with ever fewer bytes of L2; write nothing.

    Arguments that are not listed are those of :func:`compile`.

    Args:
        network: File of the network.
        target: Name of the target.
        l2: The bytes of L2 that a plan is wanted for.

    Raises:
        UsageError: For invalid arguments.
        NotSupported: When the network cannot be computed.
        DoesNotFit: When no plan fits the target.
    """
    from dory_core.driver.front import front_network

    plugins = plugins or _plugins()
    options = compile_options(
        network,
        target,
        plugins,
        frontend=frontend,
        input_bits=input_bits,
        input_signed=input_signed,
        budgets=given_budgets(l1, l2, l3),
        l2_reserve=l2_reserve,
        settings=settings,
    )
    return LeastRam(front_network(options, plugins))


def _desktop(options: CompileOptions, plugins: Plugins) -> DesktopReport:
    from dory_core.golden.desktop import compare_desktop

    frontend = plugins.frontend(options.frontend)
    if frontend.desktop is None:
        raise UsageError(
            f"frontend {frontend.name} knows no desktop interpreter to compare with",
            "leave --compare-desktop out",
        )
    return compare_desktop(frontend.desktop(options.network))


def _plugins() -> Plugins:
    from dory_core.plugins.manager import load_plugins

    return load_plugins()
