"""Two versions of dory side by side: cycles, L2, compile time and size of code of real networks.

python benchmarks/bench_plans.py --old CHECKOUT [--only TEXT] [--save FILE] [--against FILE]

Every network of the collection is compiled for every target and the budgets that tests use, by the
dory of this tree and by that of another checkout (or read from what --save wrote before). A row per
application: estimated cycles, peak of L2, CPU time, lines of C, and whether kernels, tiles
and constants are the same. Fails when a new plan has more cycles or needs more L2 than the old one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collection import folder_of

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "",
    "frontends/onnx",
    "frontends/nemo",
    "frontends/quantlab",
    "targets/cmsis_nn",
    "targets/gap8",
    "targets/stm32h7",
)
TARGETS = ("gap8", "stm32h7", "diana")
#: Budgets beside the default one, by network: of L2, of L1.
MORE_BUDGETS: dict[str, tuple[dict[str, int], ...]] = {
    "nemo_mv1_100_128": ({"l2": 200 * 1024}, {"l2": 300 * 1024}),
    "nemo_proxylessnas_pulp_dronet": ({"l2": 200 * 1024},),
    "nemo_mv1_025_96": ({"l2": 100 * 1024}, {"l1": 22528}),
    "nemo_mv2_035_96": ({"l2": 200 * 1024}, {"l1": 22528}),
    "nemo_resnet8": ({"l1": 22528}, {"l2": 100 * 1024}),
    "quantlab_resnet8": ({"l1": 22528}, {"l2": 60 * 1024}),
    "quantlab_mv1_025_96": ({"l2": 100 * 1024},),
    "nemo_dronet_complete": ({"l2": 200 * 1024},),
}


@dataclass(frozen=True)
class Job:
    """One compilation. budgets: as the command line names them."""

    network: str
    target: str
    budgets: tuple[tuple[str, int], ...] = ()
    objective: str = "heuristic"

    @property
    def name(self) -> str:
        """Name of the row."""
        budgets = "".join(f" {level}={size}" for level, size in self.budgets)
        objective = "" if self.objective == "heuristic" else f" {self.objective}"
        return f"{self.network} {self.target}{budgets}{objective}"


def jobs() -> list[Job]:
    """Return every network on every target, and further budgets and objectives on GAP8."""
    found = []
    for folder in sorted(p.parent for p in folder_of("").glob("*/meta.json")):
        network = folder.name
        found += [Job(network, target) for target in TARGETS]
        found.append(Job(network, "gap8", objective="latency"))
        for budgets in MORE_BUDGETS.get(network, ()):
            found.append(Job(network, "gap8", tuple(sorted(budgets.items()))))
    return found


def compile_with(tree: Path, job: Job, output: Path) -> dict[str, float | str]:
    """Compile with the dory of ``tree``; return the figures, or why it does not fit."""
    folder = folder_of(job.network)
    meta = json.loads((folder / "meta.json").read_text())
    # -P: the directory of work, where another dory may lie, is not searched.
    command = [sys.executable, "-P", "-m", "dory_core.cli.main", "--target", job.target, "-q"]
    command += ["--frontend", meta["frontend"], str(folder / "net.onnx"), "-o", str(output)]
    command += ["--input-bits", str(meta["input_bits"]), "--objective", job.objective]
    command += ["--input-signed"] if meta["input_signed"] else []
    for level, size in job.budgets:
        command += [f"--{level}", str(size)]
    paths = [str(tree / p) for p in (*PACKAGES, "targets/diana")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return {"error": lines[0] if lines else f"exit {done.returncode}", "cpu_s": cpu}
    plan = json.loads((output / "plan.json").read_text())
    code = list((output / "src").glob("*.c"))
    return {
        "plan": fingerprint(plan, output),
        "cycles": plan["totals"]["cycles"],
        "l1": plan["memory"]["L1"]["used"],
        "l2": plan["memory"]["L2"]["used"],
        "cpu_s": cpu,
        "c_lines": sum(len(path.read_text().splitlines()) for path in code),
    }


def fingerprint(plan: dict[str, Any], output: Path) -> str:
    """Return a digest of what equal plans share: kernels, tiles, constants, files of kernels."""
    digest = hashlib.sha256()
    layers = [(one["name"], one["kernel"], one["tiles"]) for one in plan["layers"]]
    digest.update(json.dumps(layers, sort_keys=True).encode())
    for folder in ("weights", "kernels", "vectors"):
        for path in sorted((output / folder).rglob("*")):
            if path.is_file() and path.suffix != ".npz":
                digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def measure(tree: Path, todo: list[Job]) -> dict[str, dict[str, float | str]]:
    """Return the figures of every job by its name."""
    found = {}
    for job in todo:
        with tempfile.TemporaryDirectory(prefix="dory-bench-") as folder:
            found[job.name] = compile_with(tree, job, Path(folder, "app"))
    return found


def ratio(old: dict[str, float | str], new: dict[str, float | str], key: str) -> str:
    """Return new / old of a figure as text."""
    before, now = old.get(key), new.get(key)
    if not isinstance(before, (int, float)) or not isinstance(now, (int, float)) or not before:
        return "-"
    return f"{now / before:.3f}"


def compare(old: dict[str, dict[str, float | str]], new: dict[str, dict[str, float | str]]) -> int:
    """Print old beside new; return how many rows got worse."""
    worse = 0
    head = [
        "cycles old",
        "new",
        "ratio",
        "L2 old",
        "new",
        "CPU ratio",
        "C old",
        "new",
        "ratio",
        "plan",
    ]
    print(f"{'application':<58}" + "".join(f"{text:>12}" for text in head))
    for name, now in new.items():
        before = old.get(name)
        if before is None:
            continue
        if "error" in before or "error" in now:
            same = ("error" in before) == ("error" in now)
            worse += "error" in now and "error" not in before
            print(f"{name:<58} {'fails as before' if same else before} {'' if same else now}")
            continue
        grew = now["cycles"] > before["cycles"] or now["l2"] > before["l2"]  # type: ignore[operator]
        worse += grew
        cells = (
            f"{before['cycles']}",
            f"{now['cycles']}",
            ratio(before, now, "cycles"),
            f"{before['l2']}",
            f"{now['l2']}",
            ratio(before, now, "cpu_s"),
            f"{before['c_lines']}",
            f"{now['c_lines']}",
            ratio(before, now, "c_lines"),
            "same" if before.get("plan") == now.get("plan") else "other",
        )
        print(f"{name:<58}" + "".join(f"{c:>12}" for c in cells) + ("  WORSE" if grew else ""))
    return worse


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", type=Path, help="checkout of the version to compare with")
    parser.add_argument("--against", type=Path, help="figures of that version, from --save")
    parser.add_argument("--save", type=Path, help="write the figures of this tree")
    parser.add_argument("--only", default="", help="part of the names of the rows to measure")
    arguments = parser.parse_args()
    todo = [job for job in jobs() if arguments.only in job.name]
    new = measure(ROOT, todo)
    if arguments.save is not None:
        arguments.save.write_text(json.dumps(new, indent=1) + "\n")
    old = None
    if arguments.against is not None:
        old = json.loads(arguments.against.read_text())
    elif arguments.old is not None:
        old = measure(arguments.old.resolve(), todo)
    return 1 if old is not None and compare(old, new) else 0


if __name__ == "__main__":
    sys.exit(main())
