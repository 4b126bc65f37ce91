"""dory from Python: the commands as functions, whose results a notebook can show.

    import dory_core.tools as dory

    network = dory.compile("model.tflite", target="gap8", output="app")
    network.report()
    network.run().exact

A notebook shows the results as tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dory_core.cli.files import existing_file
from dory_core.cli.progress import Progress, shown_progress
from dory_core.cli.requests import (
    compile_options,
    given_budgets,
    input_sources,
    listed_paths,
    row_settings,
)
from dory_core.cli.results import ApplicationRun, CheckedNetwork, CompiledNetwork, LeastRam
from dory_core.errors import UsageError
from dory_core.plan import DEFAULT_PREFIX

if TYPE_CHECKING:
    from dory_core.cli.evaluation import EvaluatedNetwork
    from dory_core.driver.compiler import CompileOptions
    from dory_core.golden.desktop import DesktopReport
    from dory_core.plugins.manager import Plugins

PathName = str | Path
PathNames = PathName | Sequence[PathName]
#: Bytes, or a text such as ``32k``.
Size = int | str


def compile(
    network: PathName,
    target: str,
    *,
    output: PathName | None = None,
    frontend: str | None = None,
    golden: PathNames = (),
    input: PathName | None = None,
    input_layout: str = "",
    input_bits: int = 8,
    input_signed: bool = False,
    l1: Size | None = None,
    l2: Size | None = None,
    l3: Size | None = None,
    l2_reserve: Size = 0,
    settings: Mapping[str, object] | None = None,
    objective: str = "heuristic",
    layer: int | None = None,
    prefix: str = DEFAULT_PREFIX,
    float_io: bool = False,
    input_rows: bool = False,
    output_rows: bool = False,
    not_deployable_ok: bool = False,
    dump_stages: PathName | None = None,
    progress: Progress | bool | None = None,
    plugins: Plugins | None = None,
) -> CompiledNetwork:
    """Compile a network for a target as ``dory`` does, and write the application to ``output``.

    Args:
        network: File of the network.
        target: Name of the target.
        output: Directory of the application; None plans and writes nothing.
        frontend: Name of the frontend; None takes the one that recognises the file.
        golden: A file or folder of test vectors, or several.
        input: File with one test input, in place of a golden.
        input_layout: Layout of the input, ``hwc`` or ``chw``.
        input_bits: Bits of the network input where the file does not state them.
        input_signed: Signedness of the network input where the file does not state it.
        l1: Bytes of L1 for the network, or a text such as ``32k``.
        l2: Bytes of L2.
        l3: Bytes of L3.
        l2_reserve: Bytes of L2 that the surrounding program needs.
        settings: Options of the target: texts, numbers or truth values.
        objective: What is made best: ``cycles`` (or ``heuristic``), ``latency`` (with tiles of the
            fewest cycles) or ``ram`` (the fewest bytes of L2, of such plans the fastest).
        layer: Index of a layer to emit as a function of its own; None for the whole network.
        prefix: Prefix of all public names in C.
        float_io: Add functions that convert float input and output.
        input_rows: Inputs come by rows; the same as the setting ``input_rows=on``.
        output_rows: Outputs go by rows; the same as the setting ``output_rows=on``.
        not_deployable_ok: Write an application even when it cannot run on the chip.
        dump_stages: Directory for the result of each stage.
        progress: Function called with (stage, steps done, total steps); None draws a bar on
            terminals and in notebooks, False none.
        plugins: Plugins to use; None for the installed ones.

    Raises:
        DoryError: The errors of each stage; see docs/errors.md.
    """
    from dory_core.driver.compiler import compile_network

    path = existing_file(Path(network), "network")
    settings = {**(settings or {}), **row_settings(input_rows, output_rows)}
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
        golden=listed_paths(golden),
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
    with shown_progress(progress) as shown:
        result = compile_network(options, plugins, shown)
    plan, timeline = result.plan.to_json(), result.plan.timeline_json()
    return CompiledNetwork(plan, result.output, result.golden, result.passes, timeline)


def run(
    application: PathName,
    *,
    inputs: Any = (),
    input_layout: str = "",
    input_reals: bool = False,
    golden: PathNames = (),
    dump: PathName | None = None,
    dma: str | None = "early",
    seed: int = 1,
    repeat: int = 1,
    sanitize: str | None = None,
    runner: str | None = None,
    all_layers: bool = False,
    progress: Progress | bool | None = None,
    plugins: Plugins | None = None,
) -> ApplicationRun:
    """Build and run an application as ``dory run`` does, and compare every element of every layer.

    Args:
        application: Directory of the application.
        inputs: Inputs in place of the embedded ones: an array (H, W, C) or a batch (N, H, W, C), a
            mapping of such arrays by the name of the input, a file, or a list of these. Arrays of
            floats are real numbers where the input has a scale. State passes from one input to
            the next.
        input_layout: Layout of the inputs, ``hwc`` or ``chw``.
        input_reals: True when floats in files are also real numbers.
        golden: A file or folder of test vectors, or several, in place of the embedded ones.
        dump: Directory for ``layer_NN.npy``.
        dma: When simulated transfers move their bytes: ``early``, ``late``, ``random``, or None to
            run all three modes if that is quick.
        seed: Seed of ``random``.
        repeat: Number of executions of each input.
        sanitize: Sanitizers of the C compiler, ``address,undefined`` or ``thread``.
        runner: Name of the runner; None for the one that the target prefers.
        all_layers: True to keep the values of every layer.
        progress: Function called with (stage, steps done, total steps); None draws a bar on
            terminals and in notebooks, False none.
        plugins: Plugins to use; None for the installed ones.

    Raises:
        UsageError: For invalid arguments.
        ToolMissing: When a compiler or a tool of the runner is missing.
        VerificationFailed: When the program was stopped. Values that differ are in the result.
    """
    from dory_core.driver.application import run_application

    sources = input_sources(inputs)
    with shown_progress(progress) as shown:
        result = run_application(
            Path(application),
            plugins=plugins or _plugins(),
            inputs=sources,
            input_layout=input_layout,
            input_reals=input_reals,
            golden=listed_paths(golden),
            dump=None if dump is None else Path(dump),
            dma=dma,
            seed=seed,
            repeat=repeat,
            sanitize=sanitize,
            runner=runner,
            all_layers=all_layers,
            progress=shown,
        )
    return ApplicationRun(result, given=bool(sources))


def evaluate(
    application: PathName,
    samples: Any,
    labels: Any = None,
    *,
    input_layout: str = "",
    dma: str = "early",
    runner: str | None = None,
    progress: Progress | bool | None = None,
    plugins: Plugins | None = None,
) -> EvaluatedNetwork:
    """Run an application on labelled samples as ``dory evaluate`` does, and count right classes.

    The class of a sample is the channel of the largest output. Each layer of each inference is
    also compared with the reference.

    Args:
        application: Directory of the application.
        samples: An array (N, H, W, C), arrays by the name of the input, or a file with them
            (.npz, .npy). Floats are real numbers where the input has a scale.
        labels: The class of each sample, an array or an .npy file; None for the array ``labels``
            next to the samples.
        input_layout: ``chw`` for samples (N, C, H, W).
        dma: When simulated transfers move their bytes.
        runner: Name of the runner; None for the one that the target prefers.
        progress: As for :func:`run`.
        plugins: Plugins to use; None for the installed ones.

    Raises:
        UsageError: For a network without classes, and samples or labels that do not fit it.
        ToolMissing, VerificationFailed: As :func:`run`.
    """
    from dory_core.cli.evaluation import EvaluatedNetwork, read_samples
    from dory_core.driver.evaluate import evaluate_application

    arrays, classes = read_samples(samples, labels)
    with shown_progress(progress) as shown:
        found = evaluate_application(
            Path(application),
            arrays,
            classes,
            plugins=plugins or _plugins(),
            input_layout=input_layout,
            dma=dma,
            runner=runner,
            progress=shown,
        )
    return EvaluatedNetwork(found)


def check(  # noqa: D417  the others are those of compile
    network: PathName,
    target: str = "",
    *,
    frontend: str | None = None,
    golden: PathNames = (),
    input_bits: int = 8,
    input_signed: bool = False,
    l1: Size | None = None,
    l2: Size | None = None,
    l3: Size | None = None,
    l2_reserve: Size = 0,
    settings: Mapping[str, object] | None = None,
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
        golden=listed_paths(golden),
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
    l1: Size | None = None,
    l2: Size | None = None,
    l3: Size | None = None,
    l2_reserve: Size = 0,
    settings: Mapping[str, object] | None = None,
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
