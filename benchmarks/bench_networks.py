"""Every network of the collection on every target: writes docs/networks.md.

python benchmarks/bench_networks.py [DIRECTORY ...] [--only TEXT] [--run] [--keep FILE]
    [--targets NAMES] [--runner NAME] [--output PAGE]

Each network is compiled with the default options. Where it has a golden, or its format has a
reference that can be run, every tensor of the imported network is compared with it. --run also
builds the application for this machine, or for the --runner of the target, runs it and compares
every element of every layer. The networks are those of the collection, or all files .onnx and
.tflite of the directories. With --keep the figures are written to a file after each network, and
those that it has are not measured again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from collection import folder_of, has_signed_input

import dory_core.tools as dory
from dory_core.errors import DoryError
from dory_core.plugins.frontend import GoldenRequest
from dory_core.plugins.manager import Plugins, load_plugins

PAGE = Path(__file__).resolve().parents[1] / "docs" / "networks.md"
TARGETS = ("gap8", "stm32h7", "diana", "cortex_m55")
HOST = "host"
_FOLDERS = ("nets", "nets_onnx", "nets_tflite", "nets_converted", "nets_transformers")
_EXACT, _EQUAL, _PLANNED = "exact", "equal", "compiles"

_HEAD = """\
# Networks

Written by `python benchmarks/bench_networks.py`: public networks, each compiled with the default
options of the targets.

- exact (with `--run`): the application, run on the host simulation, computes every element of every
  layer as the reference does; of cortex_m55 its image, run on QEMU (`--runner qemu`).
- equal: every tensor of the imported network equals the reference; the application was not run.
- compiles: there is no reference to compare with.
- A network that does not fit the chip with the default options has its bytes in brackets; options
  such as `external_flash_kib` of the STM32H7, and `dory check --least`, may help.

RAM is L1 and L2 as planned, with constants on gap8 and diana; constants: bytes of weights and
tables. Cycles and milliseconds are estimates at the default operating point.
"""


@dataclass(frozen=True)
class Network:
    """A network file, and how it is read. golden: None where there is none beside the file."""

    name: str
    path: Path
    frontend: str | None = None
    golden: Path | None = None
    input_bits: int = 8
    input_signed: bool = False


@dataclass(frozen=True)
class Result:
    """A network on a target; figures are 0 where it is refused, for the reason."""

    verdict: str
    reference: str = ""
    fits: bool = True
    l1: int = 0
    l2: int = 0
    constants: int = 0
    cycles: int = 0
    ms: float = 0.0
    reason: str = ""


def networks(directories: Sequence[Path]) -> Iterator[Network]:
    """Yield the networks of directories, or those of the collection."""
    shared = folder_of("").parent
    for directory in directories or [shared / name for name in _FOLDERS]:
        for path in sorted((*directory.rglob("*.onnx"), *directory.rglob("*.tflite"))):
            if path.name != "fused.onnx":
                yield _network(path)


def _network(path: Path) -> Network:
    meta_file, beside = path.parent / "meta.json", path.with_suffix(".npz")
    meta = json.loads(meta_file.read_text()) if meta_file.exists() else {}
    name = path.parent.name if path.stem == "net" else path.stem
    folder = path.parent / "golden.npz"
    golden = next((file for file in (beside, folder) if file.exists()), None)
    frontend = meta.get("frontend") or ("deeploy" if name.startswith("deeploy") else None)
    signed = meta.get("input_signed", frontend == "deeploy" and has_signed_input(folder))
    bits = meta.get("input_bits", 8)
    return Network(name, path, frontend, golden, bits, signed)


def measured(
    network: Network, targets: Sequence[str], plugins: Plugins, runner: str | None
) -> Iterator[tuple[str, Result]]:
    """Yield each target, and what becomes of a network on it. runner: None to run nothing."""
    with tempfile.TemporaryDirectory() as folder:
        golden = network.golden or _golden(network, plugins, Path(folder) / "golden.npz")
        for target in targets:
            yield target, _compiled(network, golden, target, plugins, runner)


def _compiled(
    network: Network, golden: Path | None, target: str, plugins: Plugins, runner: str | None
) -> Result:
    options = {
        "frontend": network.frontend,
        "input_bits": network.input_bits,
        "input_signed": network.input_signed,
        "not_deployable_ok": True,
        "plugins": plugins,
    }
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "app"
        try:
            goldens = () if golden is None else (golden,)
            found = dory.compile(network.path, target, output=output, golden=goldens, **options)
            ran = runner and dory.run(output, runner=runner, plugins=plugins)
        except DoryError as error:
            return Result("refused", reason=str(error))
        plan = found.plan
    verdict = _PLANNED if golden is None else _EXACT if ran else _EQUAL
    if ran and not ran.exact:
        verdict = "WRONG"
    return Result(verdict, plan["network"]["reference"], plan["deployable"], **_figures(plan))


def _golden(network: Network, plugins: Plugins, path: Path) -> Path | None:
    """Return a golden that the reference of the format makes; None where it cannot be run."""
    name = network.frontend
    try:
        frontend = plugins.frontend(name) if name else plugins.frontend_for(network.path)
        if frontend.golden is None:
            return None
        np.savez(path, **frontend.golden(network.path, GoldenRequest((), 1, 0)))
    except DoryError:
        return None
    return path


def _figures(plan: Mapping[str, Any]) -> dict[str, Any]:
    weights = (layer["weights"] for layer in plan["layers"])
    return {
        "l1": plan["memory"]["L1"]["used"],
        "l2": plan["memory"]["L2"]["used"],
        "constants": sum(one["bytes"] for one in weights if one is not None),
        "cycles": plan["totals"]["cycles"],
        "ms": plan["totals"]["latency_ms"],
    }


def document(found: Mapping[str, Mapping[str, Result]]) -> str:
    """Return the page. found: results by network and target."""
    given = {target for row in found.values() for target in row}
    targets = [*(t for t in TARGETS if t in given), *sorted(given - set(TARGETS))]
    lines = [_HEAD, "| network | reference | " + " | ".join(targets) + " |"]
    lines.append("| --- | --- |" + " --- |" * len(targets))
    for name, row in found.items():
        reference = next((r.reference for r in row.values() if r.reference), "-")
        verdicts = [_verdict(row[target]) if target in row else "-" for target in targets]
        lines.append(f"| {name} | {reference} | " + " | ".join(verdicts) + " |")
    for target in targets:
        lines += _table(target, {n: row[target] for n, row in found.items() if target in row})
    return "\n".join(lines) + "\n"


def _verdict(one: Result) -> str:
    return one.verdict if one.fits else f"{one.verdict} (does not fit)"


def _table(target: str, rows: Mapping[str, Result]) -> Iterator[str]:
    yield from ("", f"## {target}", "")
    yield "| network | L1 | L2 | constants | Mcycles | ms |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    refused = {name: one for name, one in rows.items() if one.reason}
    for name, one in rows.items():
        if not one.reason:
            sizes = [f"{size:,}" for size in (one.l1, one.l2, one.constants)]
            cells = sizes if one.fits else [f"({size})" for size in sizes]
            yield f"| {name} | {' | '.join(cells)} | {one.cycles / 1e6:.3f} | {one.ms:.2f} |"
    if refused:
        yield from ("", "Refused:", "")
        yield from (f"- {name}: {' '.join(one.reason.split())}" for name, one in refused.items())


def main() -> None:
    """Measure what is not known yet and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directories", nargs="*", type=Path, help="folders of networks")
    parser.add_argument("--only", default="", help="part of the names of networks")
    parser.add_argument("--targets", default=",".join(TARGETS), help="names of targets")
    parser.add_argument("--run", action="store_true", help="build and run every application")
    parser.add_argument("--runner", default=HOST, help="who runs them, of one target")
    parser.add_argument("--keep", type=Path, help="file in which the figures are kept")
    parser.add_argument("--output", type=Path, default=PAGE, help="the page to write")
    arguments = parser.parse_args()
    plugins = load_plugins()
    kept, runner = arguments.keep, arguments.runner if arguments.run else None
    known = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    found: dict[str, dict[str, Result]] = {}
    for network in networks(arguments.directories):
        row = {t: Result(**one) for t, one in known.get(network.name, {}).items()}
        if arguments.only in network.name:
            left = [name for name in arguments.targets.split(",") if name not in row]
            for target, result in measured(network, left, plugins, runner) if left else ():
                row[target] = result
                print(network.name, target, _verdict(result), result.reason)
        if row:
            found[network.name] = row
        if kept is not None:
            done = {n: {t: asdict(one) for t, one in r.items()} for n, r in found.items()}
            kept.write_text(json.dumps({**known, **done}, indent=1))
    arguments.output.write_text(document(found))


if __name__ == "__main__":
    main()
