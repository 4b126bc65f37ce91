"""How little RAM each network of the collection needs, and what it costs: docs/least_ram.md.

python benchmarks/bench_least_ram.py [NETWORK ...] [--targets A,B] [--processes N] [--page FILE]
    [--keep FILE]

Each network gets its front of L2 and cycles on each target (`dory check --least`). Figures of
networks that are named replace those of the page, all others stay. The networks lie beside the
project (`collection.py`). With --keep the figures are also written to a file, and those that are
there are not measured again; so the work can be stopped and continued.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collection import folder_of

import dory_core.tools as dory
from dory_core.errors import DoryError

DOCS = Path(__file__).resolve().parents[1] / "docs"
TARGETS = ("stm32h7", "gap8")
#: Bytes of L1 beside which the least plan is made once more.
SMALL_L1 = 16 * 1024
#: Target whose networks are also planned with their input by rows.
ROWS_ON = "stm32h7"
#: Figures of all runs; the page is made from it.
TABLE = Path(__file__).with_name("least_ram.json")
KINDS = {"nets": "net.onnx", "nets_onnx": "net.onnx", "nets_tflite": "net.tflite"}

#: Bytes of activations by a model without tiles and packing: all input in L2, and by rows.
MODEL = {
    "mcunet_vww": (33_840, 16_640),
    "mcunet_detection": (83_680, 23_680),
    "mlperf_vww_96_int8": (38_784, 11_424),
}

_HEAD = """\
# The least RAM

Written by `python benchmarks/bench_least_ram.py`. For each network the fastest plan (on stm32h7
nearly always layer by layer), and the plan with the fewest bytes of L2. L2: activations, and on
gap8 also constants that lie there or pass through, and code: smaller parts take less data but more
code, so the least plan there has the fewest bytes of both. L1: buffers of tiles. Cycles are
estimates; slower: than the fastest plan. The plan with 16 kB of L1 (`--l1 16k`) is the least one
there; on stm32h7 another one has its input by rows (`--input-rows`; -: it cannot pass so, or was
not measured).

`dory check NETWORK --target T --least` shows the plans between them; `--objective ram` compiles the
least one, `--l2 N` the fastest within N bytes. Rolling buffers ([streaming.md](streaming.md)) keep
rows of tensors between layers: no row is computed twice. What is left on stm32h7 is mostly the
network input, which lies in L2 as a whole. The model counts bytes of activations alone, row by row.
"""

_BESIDE = """
## Beside others

RAM for activations, as published; MACs: times those of the network (1: nothing is computed twice).

| network | who | RAM | MACs |
| --- | --- | ---: | ---: |
| MCUNet-VWW1, image of 80 | MCUNetV2 and TinyEngine (2021): patches | 92 kB | about 1.1 |
| MCUNet-VWW1, image of 80 | X-CUBE-AI 7.3, as measured there | 113 kB | 1 |
| MCUNet-VWW1, image of 80 | msf-CNN (NeurIPS 2025), without the input | 45.3 kB | 1.02 |
| MCUNet-VWW1, image of 80 | msf-CNN, without the input | 26.2 kB | 1.11 |
| MCUNet-VWW1, image of 80 | msf-CNN, without the input | 15.4 kB | 1.96 |
"""


@dataclass(frozen=True)
class Network:
    """A network of the collection."""

    name: str
    path: Path
    frontend: str | None
    input_bits: int
    input_signed: bool


def networks() -> Iterator[Network]:
    """Yield the networks beside the project."""
    for kind, file in KINDS.items():
        for meta in sorted(folder_of(".").parent.joinpath(kind).glob("*/meta.json")):
            told = json.loads(meta.read_text())
            onnx = kind == "nets"
            yield Network(
                meta.parent.name,
                meta.parent / file,
                told["frontend"] if onnx else None,
                told["input_bits"] if onnx else 8,
                told["input_signed"] if onnx else False,
            )


def measured(network: Network, target: str) -> dict[str, Any]:
    """Return the figures of a network on a target; ``reason`` where there are none."""
    started = time.process_time()
    found: dict[str, Any] = {"network": network.name, "target": target}
    try:
        front = _front(network, target)
    except DoryError as error:
        return found | {"reason": error.message}
    points = front["points"]
    found |= {"first": _figures(points[0]), "least": _figures(points[-1]), "points": len(points)}
    found["seconds"] = round(time.process_time() - started, 1)
    try:
        found["small"] = _figures(_front(network, target, SMALL_L1)["points"][-1])
    except DoryError:
        found["small"] = None
    if target == ROWS_ON:
        try:
            found["rows"] = _figures(_front(network, target, by_rows=True)["points"][-1])
        except DoryError:
            found["rows"] = None
    return found


def _front(
    network: Network, target: str, l1: int | None = None, by_rows: bool = False
) -> dict[str, Any]:
    return dory.least_ram(
        network.path,
        target,
        frontend=network.frontend,
        input_bits=network.input_bits,
        input_signed=network.input_signed,
        l1=l1,
        settings={"input_rows": "on"} if by_rows else None,
    ).to_json()


def _figures(point: dict[str, Any]) -> list[int]:
    return [point["l2_bytes"], point["l1_bytes"], point["cycles"], point["code_bytes"]]


def page(rows: list[dict[str, Any]]) -> str:
    """Return the page."""
    text = _HEAD
    for target in TARGETS:
        mine = [row for row in rows if row["target"] == target]
        model = target == ROWS_ON
        heads = [
            "network",
            "fastest: L2" if model else "fastest: L2, data + code",
            "L1",
            "Mcycles",
            "least: L2" if model else "least: L2, data + code",
            "L1",
            "slower",
            "of the L2",
        ]
        heads += [f"least, L1 16 kB: {'L2' if model else 'data + code'} + L1", "slower"]
        if model:
            heads += ["least, input by rows", "slower", "model", "model, input by rows"]
        text += f"\n## {target}\n\n| {' | '.join(heads)} |\n"
        text += "| --- |" + " ---: |" * (len(heads) - 1) + "\n"
        text += "".join(_row(row, model) for row in mine if "first" in row)
        refused = [f"{row['network']} ({row['reason']})" for row in mine if "reason" in row]
        if refused:
            text += f"\nWithout a plan: {'; '.join(refused)}.\n"
    return text + _BESIDE


def _row(row: dict[str, Any], model: bool) -> str:
    first, least, small = row["first"], row["least"], row.get("small")
    cycles, share = first[2], 100 * _with_code(least) / _with_code(first)
    cells = [row["network"], _l2(first), f"{first[1]:,}", f"{cycles / 1e6:.2f}", _l2(least)]
    cells += [f"{least[1]:,}", _slower(least[2], cycles), f"{share:.0f} %"]
    cells += (
        ["-", "-"] if small is None else [f"{_l2(small)} + {small[1]:,}", _slower(small[2], cycles)]
    )
    if model:
        rows = row.get("rows")
        cells += ["-", "-"] if rows is None else [f"{rows[0]:,}", _slower(rows[2], cycles)]
        cells += [f"{one:,}" for one in MODEL.get(row["network"], ())] or ["-", "-"]
    return f"| {' | '.join(cells)} |\n"


def _with_code(figures: list[int]) -> int:
    """Return the bytes of L2 of a plan, with those of its code there."""
    return figures[0] + sum(figures[3:])


def _l2(figures: list[int]) -> str:
    """Return the bytes of L2 of a plan as text: data, and code where it lies there."""
    code = sum(figures[3:])
    return f"{figures[0]:,} + {code:,}" if code else f"{figures[0]:,}"


def _slower(cycles: int, first: int) -> str:
    return f"{100 * (cycles / first - 1):.1f} %"


#: Figures by network and target.
Known = dict[tuple[str, str], dict[str, Any]]


def _read(file: Path | None) -> Known:
    """Return the figures in a file; none where it is not there."""
    if file is None or not file.is_file():
        return {}
    return {(row["network"], row["target"]): row for row in json.loads(file.read_text())}


def _write(file: Path, known: Known) -> None:
    rows = [json.dumps(known[key]) for key in sorted(known)]
    file.write_text("[\n" + ",\n".join(rows) + "\n]\n")


def main() -> int:
    """Measure, and write the table and the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NETWORK")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--page", type=Path, default=DOCS / "least_ram.md")
    parser.add_argument("--keep", type=Path, metavar="FILE")
    options = parser.parse_args()
    kept = _read(options.keep)
    known = _read(TABLE) | kept
    wanted = [one for one in networks() if not options.names or one.name in options.names]
    with ProcessPoolExecutor(options.processes) as pool:
        jobs = [
            pool.submit(measured, one, target)
            for target in options.targets.split(",")
            for one in wanted
            if (one.name, target) not in kept
        ]
        for job in as_completed(jobs):
            row = job.result()
            known[row["network"], row["target"]] = row
            print(row, flush=True)
            kept[row["network"], row["target"]] = row
            if options.keep:
                _write(options.keep, kept)
            _write(TABLE, known)
            rows = [known[key] for key in sorted(known)]
            options.page.write_text(page(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
