"""Transformers on GAP8 and STM32H7: writes docs/transformers.md.

python benchmarks/bench_transformers.py [--output PAGE]

Plans the transformers of the collection, and prints estimated cycles of each kind of layer and,
of language models, of each layer.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collection import folder_of, has_signed_input

import dory_core.tools as dory
from dory_core.plugins.manager import Plugins, load_plugins

PAGE = Path(__file__).resolve().parents[1] / "docs" / "transformers.md"
TARGETS = ("gap8", "stm32h7")
_LANGUAGE = "microLlama"

_HEAD = """\
# Transformers

Written by `python benchmarks/bench_transformers.py`: integer transformers as Deeploy's exporters
write them, with the default options of the targets. Cycles are estimates, in thousands. Every
tensor of every node equals the golden of the files on the host simulation of both targets. One
inference of microLlama is one token; its caches are inputs and outputs.
"""


@dataclass(frozen=True)
class Planned:
    """A network on both targets: the documents plan.json by target."""

    name: str
    plans: Mapping[str, Mapping[str, Any]]


def planned(plugins: Plugins) -> Iterator[Planned]:
    """Yield the transformers of the collection."""
    folder = folder_of("").parent / "nets_transformers"
    for path in sorted(folder.glob("*/net.onnx")):
        plans = {
            target: dory.compile(
                path,
                target,
                frontend="deeploy",
                input_signed=has_signed_input(path.parent / "golden.npz"),
                not_deployable_ok=True,
                plugins=plugins,
            ).plan
            for target in TARGETS
        }
        yield Planned(path.parent.name.removeprefix("deeploy_"), plans)


def _thousands(cycles: float) -> str:
    return f"{cycles / 1000:,.1f}"


def _totals(networks: Sequence[Planned]) -> Iterator[str]:
    yield "| network | MMAC |" + "".join(f" {t} | ms | L2 |" for t in TARGETS)
    yield "| --- | ---: |" + " ---: | ---: | ---: |" * len(TARGETS)
    for network in networks:
        macs = network.plans[TARGETS[0]]["network"]["macs"] / 1e6
        cells = []
        for plan in network.plans.values():
            totals, l2 = plan["totals"], plan["memory"]["L2"]["used"]
            cells += [_thousands(totals["cycles"]), f"{totals['latency_ms']:.2f}", f"{l2:,}"]
        yield f"| {network.name} | {macs:.2f} | {' | '.join(cells)} |"


def _kinds(networks: Sequence[Planned]) -> Iterator[str]:
    columns = [(network, target) for network in networks for target in TARGETS]
    found = []
    for network, target in columns:
        cycles: Counter[str] = Counter()
        for layer in network.plans[target]["layers"]:
            cycles[layer["kind"]] += layer["estimate"]["cycles"]
        found.append(cycles)
    total: Counter[str] = Counter()
    for cycles in found:
        total.update(cycles)
    yield "| kind |" + "".join(f" {network.name} {target} |" for network, target in columns)
    yield "| --- |" + " ---: |" * len(columns)
    for kind, _ in total.most_common():
        cells = (_thousands(cycles[kind]) if kind in cycles else "-" for cycles in found)
        yield f"| {kind} | {' | '.join(cells)} |"


def _layers(network: Planned) -> Iterator[str]:
    first, *others = (plan["layers"] for plan in network.plans.values())
    yield "| layer | kind | output |" + "".join(f" {target} |" for target in TARGETS)
    yield "| --- | --- | --- |" + " ---: |" * len(TARGETS)
    for layer, *same in zip(first, *others, strict=True):
        cycles = " | ".join(_thousands(one["estimate"]["cycles"]) for one in (layer, *same))
        shape = "x".join(map(str, layer["output"]["shape"]))
        yield f"| {layer['index']} {layer['name']} | {layer['kind']} | {shape} | {cycles} |"


def document(networks: Sequence[Planned]) -> str:
    """Return the page."""
    lines = [_HEAD, *_totals(networks), "", "## Kinds of layers", "", *_kinds(networks)]
    for network in networks:
        if network.name.startswith(_LANGUAGE):
            lines += ["", f"## {network.name}, layer by layer", "", *_layers(network)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Plan all and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=PAGE, help="the page to write")
    arguments = parser.parse_args()
    arguments.output.write_text(document(list(planned(load_plugins()))))


if __name__ == "__main__":
    main()
