"""dory from Python: what the commands do, as functions whose results show themselves.

    import dory_core.api as dory

    network = dory.compile("model.tflite", target="gap8", output="app")
    network.report()
    network.run().exact

A notebook shows the results as tables.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dory_core.errors import UsageError
from dory_core.plan import DEFAULT_PREFIX

if TYPE_CHECKING:
    from rich.console import Console

    from dory_core.check import CheckReport
    from dory_core.compiler import CompileOptions
    from dory_core.plugins import Plugins
    from dory_core.simulate.result import RunResult

_Path = str | Path
_COLUMNS = 110
_PAGE = "<pre style='font-family:monospace;line-height:1.25'>{code}</pre>"


@dataclass(frozen=True, slots=True)
class CompiledNetwork:
    """A network that was compiled.

    plan: the document plan.json, which docs/json.md describes. path: of the application, None when
    it was only planned. golden_exact: whether the golden confirmed the import, None without one.
    """

    plan: Mapping[str, Any]
    path: Path | None
    golden_exact: bool | None

    @property
    def cycles(self) -> int:
        """Estimated cycles of one inference."""
        return int(self.plan["totals"]["cycles"])

    def report(self, *, details: bool = False) -> None:
        """Print layers, memory and totals. details: also which kernels did not take a layer."""
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

        return _page(lambda out: print_plan(self.plan, out))


@dataclass(frozen=True, slots=True)
class ApplicationRun:
    """An application that ran. result: every layer of every run, and what differs."""

    result: RunResult

    @property
    def exact(self) -> bool:
        """True when every element of every layer is as expected."""
        return self.result.exact

    def report(self, *, details: bool = False) -> None:
        """Print what ran and what differs. details: every layer."""
        from dory_core.cli.common import console
        from dory_core.cli.tables.run import print_run

        print_run(self.result.to_json(), console(), details=details)

    def _repr_html_(self) -> str:
        from dory_core.cli.tables.run import print_run

        return _page(lambda out: print_run(self.result.to_json(), out, details=True))


def compile(
    network: _Path,
    target: str,
    *,
    output: _Path | None = None,
    frontend: str | None = None,
    golden: Sequence[_Path] = (),
    input: _Path | None = None,
    l1: int | None = None,
    l2: int | None = None,
    l3: int | None = None,
    settings: Mapping[str, str] | None = None,
    objective: str = "heuristic",
    prefix: str = DEFAULT_PREFIX,
    float_io: bool = False,
    not_deployable_ok: bool = False,
    plugins: Plugins | None = None,
) -> CompiledNetwork:
    """Compile a network for a target as ``dory`` does, and write the application to ``output``.

    output: directory; None plans and writes nothing. frontend: None takes the one that recognises
    the file. golden, input: test vectors. l1, l2, l3: bytes for the network. settings: options of
    the target. The others are those of the command line.

    Raises: the errors of each stage; see docs/errors.md.
    """
    from dory_core.compiler import CompileOptions, compile_network

    plugins = plugins or _plugins()
    path = _existing(network)
    options = CompileOptions(
        network=path,
        target=target,
        frontend=frontend or plugins.frontend_for(path).name,
        output=None if output is None else Path(output),
        golden=tuple(Path(one) for one in golden),
        input=None if input is None else _existing(input),
        budgets={n: size for n, size in enumerate((l1, l2, l3), start=1) if size is not None},
        settings=dict(settings or {}),
        objective=objective,
        plan_only=output is None,
        prefix=prefix,
        float_io=float_io,
        deployable_only=not not_deployable_ok,
    )
    result = compile_network(options, plugins)
    return CompiledNetwork(result.plan.to_json(), result.output, result.golden_exact)


def run(application: _Path, **options: Any) -> ApplicationRun:
    """Build and run an application, and compare every layer, element by element.

    options: those of :func:`dory_core.application.run_application`, such as ``dma="late"``,
    ``sanitize="thread"``, ``inputs=[path]`` and ``runner="host"``.

    Raises: UsageError, ToolMissing, or VerificationFailed when the program was stopped; values that
    differ are in the result.
    """
    from dory_core.application import run_application

    return ApplicationRun(run_application(Path(application), **{"plugins": _plugins(), **options}))


def check(
    network: _Path,
    target: str = "",
    *,
    frontend: str | None = None,
    settings: Mapping[str, str] | None = None,
    plugins: Plugins | None = None,
) -> CheckReport:
    """Return whether a network is supported and fits, layer by layer; writes nothing.

    target: none checks the import alone. Raises: UsageError.
    """
    from dory_core.check import check_network
    from dory_core.compiler import CompileOptions

    plugins = plugins or _plugins()
    path = _existing(network)
    name = frontend or plugins.frontend_for(path).name
    options: CompileOptions = CompileOptions(path, target, name, settings=dict(settings or {}))
    return check_network(options, plugins)


def _plugins() -> Plugins:
    from dory_core.plugins import load_plugins

    return load_plugins()


def _existing(path: _Path) -> Path:
    if not Path(path).is_file():
        raise UsageError(f"{path} is no file", "check the path")
    return Path(path)


def _page(show: Callable[[Console], None]) -> str:
    """Return what ``show`` prints as HTML."""
    from rich.console import Console

    out = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_jupyter=False)
    show(out)
    return out.export_html(inline_styles=True, code_format=_PAGE)
