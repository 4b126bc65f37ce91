"""``dory compare``: targets, memory sizes and options side by side."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from dory_report.comparison.page import compare_page
from dory_report.comparison.points import Point, Study, measure

from tests.cli.command_line import dory, environment

FRONTEND = ("--frontend", "plain")
SWEEP = ("--vary", "l1=22528,36700,64", "--vary", "cores=1,8")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a Dask cluster of two worker processes on this machine."""
    distributed = pytest.importorskip("distributed", reason="the extra `sweep` is not installed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    ) as found:
        yield found.scheduler_address


def test_a_column_says_what_compile_says(net: Path) -> None:
    outcome = dory("compare", net, *FRONTEND, "--targets", "toy", "--json")
    assert outcome.status == 0, outcome.stderr
    [column] = outcome.json["columns"]
    plan = dory("compile", net, *FRONTEND, "--target", "toy", "--plan-only", "--json").json
    assert outcome.json["network"] == plan["network"]["name"]  # the folder of a net.onnx
    assert column["totals"] == plan["totals"]
    assert [n["estimate"] for n in column["layers"]] == [n["estimate"] for n in plan["layers"]]
    assert column["memory"]["L1"]["used"] == plan["memory"]["L1"]["used"]
    assert column["operating_point"] == plan["operating_point"]
    estimates = [n["estimate"] for n in plan["layers"]]
    assert column["traffic"]["tiles"] == sum(e["calls"] for e in estimates)
    assert column["traffic"]["l2_l1_bytes"] == sum(e["transfer_bytes"] for e in estimates)
    assert column["traffic"]["l3_l2_transfers"] == len(plan["transfers"])
    assert (column["fits"], column["deployable"], column["reason"]) == (True, True, "")


@pytest.mark.parametrize(
    ("targets", "offered"), [("", ["toy"]), ("t", ["toy"]), ("toy,", []), ("x,t", ["x,toy"])]
)
def test_the_shell_completes_lists_of_targets(targets: str, offered: list[str]) -> None:
    words = f"dory compare net.onnx --targets {targets}"
    asked = {"COMP_WORDS": words, "COMP_CWORD": "4", "_DORY_COMPLETE": "complete_bash"}
    asked["DORY_PLUGINS"] = "toy,report"
    assert dory(**asked).stdout.split() == offered


def test_a_narrow_terminal_shows_the_cycles_of_every_plan(net: Path) -> None:
    several = ("--targets", "toy", "--vary", "cores=1,2,4", "--processes", "1")
    lines = dory("compare", net, *FRONTEND, *several, COLUMNS="80").stdout.splitlines()
    head = next(line for line in lines if line.startswith("layer"))
    assert [f"toy cores={n} cycles" in head for n in (1, 2, 4)] == [True] * 3, head
    assert "L1" not in head and "MAC/cycle" not in head
    assert max(map(len, lines)) <= 80


@pytest.mark.slow
def test_every_combination_of_what_varies_is_a_column(net: Path) -> None:
    outcome = dory("compare", net, *FRONTEND, "--targets", "toy", *SWEEP, "--json")
    assert outcome.status == 0, outcome.stderr
    columns = outcome.json["columns"]
    assert outcome.json["varied"] == ["l1", "cores"]
    assert [(c["variation"]["l1"], c["variation"]["cores"]) for c in columns] == [
        (l1, cores) for l1 in ("22528", "36700", "64") for cores in ("1", "8")
    ]
    assert [c["fits"] for c in columns] == [True, True, True, True, False, False]
    assert columns[0]["totals"]["cycles"] > 3 * columns[1]["totals"]["cycles"], "one core, eight"
    assert columns[0]["memory"]["L1"]["budget"] == 22528
    assert "does not fit L1" in columns[5]["reason"]


def test_estimates_name_their_clocks_and_sources(net: Path) -> None:
    outcome = dory("compare", net, *FRONTEND, "--targets", "toy", "--vary", "l1=22k,36000")
    assert outcome.status == 0, outcome.stderr
    assert "toy: all estimates are at slow (cores 50 MHz, I/O 50 MHz)" in outcome.stdout
    assert "source: data sheet of the toy" in outcome.stdout.replace("\n", " ")
    rows = [line.split() for line in outcome.stdout.splitlines() if line.startswith("toy ")]
    assert [row[1] for row in rows] == ["22k", "36000"]


def test_markdown_has_a_row_for_each_point_and_the_command(net: Path, tmp_path: Path) -> None:
    page = tmp_path / "sweep.md"
    arguments = ("--targets", "toy", "--vary", "l1=22k,64", "--vary", "cores=1,8")
    outcome = dory("compare", net, *FRONTEND, *arguments, "--markdown", page, "-q")
    assert (outcome.status, outcome.stdout) == (0, "")
    text = page.read_text(encoding="utf-8")
    assert "`dory compare net.txt --frontend plain --targets toy --vary l1=22k,64" in text
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| ")
    ]
    heads, _, *points = rows
    assert [(p[1], p[2], p[3]) for p in points] == [
        ("22k", "1", "fits"),
        ("22k", "8", "fits"),
        ("64", "1", "does not fit"),
        ("64", "8", "does not fit"),
    ]
    assert all(len(point) == len(heads) for point in points)
    assert int(points[0][heads.index("tiles")]) > 1
    assert float(points[0][heads.index("Mcycles")]) > 3 * float(points[1][heads.index("Mcycles")])
    assert "the smallest legal tile" in text
    assert str(tmp_path) not in text


@pytest.mark.slow
def test_processes_give_what_one_process_gives(net: Path) -> None:
    arguments = ("compare", net, *FRONTEND, "--targets", "toy", *SWEEP)
    alone = dory(*arguments, "--processes", "1")
    assert alone.status == 0, alone.stderr
    assert "cycles" in alone.stdout
    assert dory(*arguments, "--processes", "2").stdout == alone.stdout


@pytest.mark.slow
def test_a_dask_cluster_gives_what_this_machine_gives(net: Path, cluster: str) -> None:
    arguments = ("compare", net, *FRONTEND, "--targets", "toy", *SWEEP)
    there = dory(*arguments, "--dask", cluster)
    assert there.status == 0, there.stderr
    assert there.stdout == dory(*arguments).stdout


def test_a_worker_needs_no_file_of_the_network(net: Path, tmp_path: Path) -> None:
    content = net.read_bytes()
    there = measure(Study(tmp_path / "absent.onnx", "plain", content), Point("toy"))
    here = measure(Study(net, "plain", b""), Point("toy"))
    assert there.totals is not None
    assert there == here


def test_one_plan_is_no_plural(net: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert dory("compare", net, *FRONTEND, "--targets", "toy", "--html", page, "-q").status == 0
    assert "1 plan compared" in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_silent_scheduler_is_named(net: Path) -> None:
    pytest.importorskip("distributed", reason="the extra `sweep` is not installed")
    arguments = ("--targets", "toy", "--dask", "tcp://127.0.0.1:9")
    outcome = dory("compare", net, *FRONTEND, *arguments, DORY_DASK_TIMEOUT_S="1")
    assert outcome.status == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in outcome.stderr


def test_a_network_that_fits_nowhere_is_status_4(net: Path) -> None:
    outcome = dory("compare", net, *FRONTEND, "--targets", "toy", "--l1", "64")
    assert outcome.status == 4, outcome.stderr
    assert "does not fit" in outcome.stdout
    assert "the smallest legal tile" in outcome.stdout


def test_an_option_can_be_for_one_target(net: Path) -> None:
    arguments = ("compare", net, *FRONTEND, "--targets", "toy", "--json")
    one = dory(*arguments, "--set", "toy.cores=1").json["columns"][0]
    assert one["totals"] == dory(*arguments, "--set", "cores=1").json["columns"][0]["totals"]
    other = dory(*arguments, "--set", "stranger.cores=1")
    assert other.status == 2
    assert "stranger" in other.stderr


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--targets", "toy", "--vary", "l1"), "KEY=A,B"),
        (("--targets", "toy", "--vary", "l1=1,,2"), "separated by commas"),
        (("--targets", "toy", "--vary", "l1=64k,64k"), "hint: name each of them once"),
        (("--targets", "toy", "--set", "gap9.cores=8"), "hint: add it to --targets, or"),
        (("--targets", "toy", "--dask", "a", "--processes", "2"), "hint: leave one of them out"),
        (("--targets", "toy", "--vary", "l1=a"), "--vary l1: 'a' is no size"),
        (("--targets", "toy", "--l1", "64k", "--vary", "l1=1k"), "fixed value"),
        (("--targets", "toy", "--vary", "colour=red"), "no option 'colour'"),
        (("--targets", "toy,toy"), "twice"),
        (("--targets", "toy,gap9"), "unknown target 'gap9'"),
    ],
)
def test_wrong_usage_is_status_2(net: Path, arguments: tuple[str, ...], text: str) -> None:
    outcome = dory("compare", net, *FRONTEND, *arguments)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert text in outcome.stderr


def test_page_and_images_are_written_beside_the_table(net: Path, tmp_path: Path) -> None:
    page, images = tmp_path / "page.html", tmp_path / "images"
    arguments = ("--targets", "toy", "--vary", "l1=22528,36700", "--processes", "1")
    outcome = dory(
        "compare", net, *FRONTEND, *arguments, "--html", page, "--images", images, "--json"
    )
    assert outcome.status == 0, outcome.stderr
    assert len(outcome.json["columns"]) == 2
    assert "2 plans compared" in page.read_text(encoding="utf-8")
    assert {p.name for p in images.iterdir()} >= {"rate.svg", "latency.svg", "energy.svg"}


@pytest.mark.slow
def test_least_gives_every_column_its_front(net: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    asked = ("--targets", "toy", "--least", "--html", page, "--json")
    outcome = dory("compare", net, *FRONTEND, *asked)
    assert outcome.status == 0, outcome.stderr
    [column] = outcome.json["columns"]
    points = dory("check", net, *FRONTEND, "--target", "toy", "--least", "--json").json["points"]
    assert column["front"] == points and points
    assert "Cycles within fewer bytes of L2" in page.read_text()
    [plain] = dory("compare", net, *FRONTEND, "--targets", "toy", "--json").json["columns"]
    assert plain["front"] == []


WORKER = """
import asyncio, os, sys
{prelude}
from distributed import Worker
async def work():
    await (await Worker(sys.argv[1], nthreads=1, dashboard=False)).finished()
asyncio.run(work())
"""
WITHOUT_DORY = "sys.modules['dory_report'] = None"
DYING = (
    "import dory_report.comparison.points as points\n"
    "def measure(study, point):\n    os._exit(1)\n"
    "measure.__module__, points.measure = points.__name__, measure"
)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("prelude", "said", "way_out"),
    [
        (None, "has no workers", "start some where dory is installed"),
        (WITHOUT_DORY, "cannot load dory", "install the same dory-core"),
        (DYING, "ended while they planned", "their logs say why"),
    ],
    ids=["none", "without dory", "dying"],
)
def test_workers_that_cannot_plan_are_wrong_usage(
    net: Path, prelude: str | None, said: str, way_out: str
) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra `sweep` is not installed")
    with distributed.LocalCluster(
        n_workers=0, dashboard_address="127.0.0.1:0", host="127.0.0.1"
    ) as cluster:
        address = cluster.scheduler_address
        worker = None
        if prelude is not None:
            command = [sys.executable, "-c", WORKER.format(prelude=prelude), address]
            worker = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment())
        try:
            outcome = dory(
                *("compare", net, *FRONTEND, "--targets", "toy", "--dask", address),
                DORY_DASK_TIMEOUT_S="15" if worker else "1",
            )
        finally:
            if worker is not None:
                worker.kill()
                worker.wait()
    assert (outcome.status, outcome.stdout) == (2, ""), outcome.stderr
    assert said in outcome.stderr and way_out in outcome.stderr
    assert "bug in" not in outcome.stderr


def test_an_interrupt_ends_a_sweep_at_once(net: Path) -> None:
    several = ",".join(str(4000 + 8 * n) for n in range(200))
    command = ["compare", str(net), *FRONTEND, "--targets", "toy", "--vary", f"l1={several}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dory_core.cli.main", *command, "--processes", "2"],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None and len(children.read_text().split()) < 3:  # with the tracker
        time.sleep(0.02)
    time.sleep(0.5)
    assert process.poll() is None, "it ended before the interrupt"
    begin = time.perf_counter()
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    took = time.perf_counter() - begin
    assert process.returncode == 130, stderr
    assert stderr == "dory: interrupted\n"
    assert took < 5, "it waits for no plan; on an idle machine this is some 0.1 s"


def test_files_of_others_are_not_overwritten(net: Path, tmp_path: Path) -> None:
    page, note = tmp_path / "page.html", tmp_path / "note.html"
    command = ["compare", net, *FRONTEND, "--targets", "toy", "--html"]
    assert dory(*command, page).status == 0
    assert dory(*command, page).status == 0, "its own page is replaced"
    note.write_text("<!DOCTYPE html><p>mine</p>")
    outcome = dory(*command, note)
    assert outcome.status == 2 and "is not such a file of dory" in outcome.stderr
    assert note.read_text() == "<!DOCTYPE html><p>mine</p>"


def test_latencies_of_targets_stand_on_one_axis(net: Path) -> None:
    """Cycles of chips with other clocks do not compare."""
    document = dory("compare", net, *FRONTEND, "--targets", "toy", "--json").json
    [column] = document["columns"]
    plans = [
        {**column, "target": name, "totals": {**column["totals"], "latency_ms": value}}
        for name, value in (("quick", 2.0), ("slow", 8.0))
    ]
    page = compare_page({**document, "columns": plans})
    [chart] = re.findall(r'<figure id="latency">.*?</figure>', page, re.DOTALL)
    assert re.findall(r'width="([\d.]+)%"[^>]*y="18"|width="([\d.]+)%"[^>]*y="52"', chart) == [
        ("25", ""),
        ("", "100"),
    ]
    assert '<figure id="latency">' not in compare_page({**document, "columns": plans[:1]})
