"""``dory compare``: targets, memory sizes and options side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dory_report.comparison.points import Point, Study, measure

from tests.cli.command_line import EXAMPLE, dory

NET = EXAMPLE / "net.onnx"
FRONTEND = ("--frontend", "quantlab")
SWEEP = ("--vary", "l1=22528,36700,64", "--vary", "cores=1,8")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a Dask cluster of two worker processes on this machine."""
    distributed = pytest.importorskip("distributed", reason="the extra `sweep` is not installed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    ) as found:
        yield found.scheduler_address


def test_a_column_says_what_compile_says() -> None:
    outcome = dory("compare", NET, *FRONTEND, "--targets", "gap8", "--json")
    assert outcome.status == 0, outcome.stderr
    [column] = outcome.json["columns"]
    plan = dory("compile", NET, *FRONTEND, "--target", "gap8", "--plan-only", "--json").json
    assert column["totals"] == plan["totals"]
    assert [n["estimate"] for n in column["layers"]] == [n["estimate"] for n in plan["layers"]]
    assert column["memory"]["L1"]["used"] == plan["memory"]["L1"]["used"]
    assert column["operating_point"] == plan["operating_point"]
    estimates = [n["estimate"] for n in plan["layers"]]
    assert column["traffic"]["tiles"] == sum(e["calls"] for e in estimates)
    assert column["traffic"]["l2_l1_bytes"] == sum(e["transfer_bytes"] for e in estimates)
    assert column["traffic"]["l3_l2_transfers"] == len(plan["transfers"])
    assert (column["fits"], column["deployable"], column["reason"]) == (True, True, "")


def test_every_combination_of_what_varies_is_a_column() -> None:
    outcome = dory("compare", NET, *FRONTEND, "--targets", "gap8", *SWEEP, "--json")
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


def test_estimates_name_their_clocks_and_sources() -> None:
    outcome = dory("compare", NET, *FRONTEND, "--targets", "gap8", "--vary", "l1=22k,36000")
    assert outcome.status == 0, outcome.stderr
    assert "estimates at 1.0V (cores 100 MHz, I/O 100 MHz)" in outcome.stdout
    assert "63 pJ/MAC" in outcome.stdout.replace("\n", " ")
    rows = [line.split() for line in outcome.stdout.splitlines() if line.startswith("gap8 ")]
    assert [row[1] for row in rows] == ["22k", "36000"]


def test_markdown_has_a_row_for_each_point_and_the_command(tmp_path: Path) -> None:
    page = tmp_path / "sweep.md"
    arguments = ("--targets", "gap8", "--vary", "l1=22k,64", "--vary", "cores=1,8")
    outcome = dory("compare", NET, *FRONTEND, *arguments, "--markdown", page, "-q")
    assert (outcome.status, outcome.stdout) == (0, "")
    text = page.read_text(encoding="utf-8")
    assert "`dory compare net.onnx --frontend quantlab --targets gap8 --vary l1=22k,64" in text
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


def test_processes_give_what_one_process_gives() -> None:
    arguments = ("compare", NET, *FRONTEND, "--targets", "gap8", *SWEEP)
    alone = dory(*arguments, "--processes", "1")
    assert alone.status == 0, alone.stderr
    assert "cycles" in alone.stdout
    assert dory(*arguments, "--processes", "2").stdout == alone.stdout


def test_a_dask_cluster_gives_what_this_machine_gives(cluster: str) -> None:
    arguments = ("compare", NET, *FRONTEND, "--targets", "gap8", *SWEEP)
    there = dory(*arguments, "--dask", cluster)
    assert there.status == 0, there.stderr
    assert there.stdout == dory(*arguments).stdout


def test_a_worker_needs_no_file_of_the_network(tmp_path: Path) -> None:
    content = NET.read_bytes()
    there = measure(Study(tmp_path / "absent.onnx", "quantlab", content), Point("gap8"))
    here = measure(Study(NET, "quantlab", b""), Point("gap8"))
    assert there.totals is not None
    assert there == here


def test_a_silent_scheduler_is_named() -> None:
    pytest.importorskip("distributed", reason="the extra `sweep` is not installed")
    arguments = ("--targets", "gap8", "--dask", "tcp://127.0.0.1:9")
    outcome = dory("compare", NET, *FRONTEND, *arguments, DORY_DASK_TIMEOUT_S="1")
    assert outcome.status == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in outcome.stderr


def test_a_network_that_fits_nowhere_is_status_4() -> None:
    outcome = dory("compare", NET, *FRONTEND, "--targets", "gap8", "--l1", "64")
    assert outcome.status == 4, outcome.stderr
    assert "does not fit" in outcome.stdout
    assert "the smallest legal tile" in outcome.stdout


def test_an_option_can_be_for_one_target() -> None:
    arguments = ("compare", NET, *FRONTEND, "--targets", "gap8", "--json")
    one = dory(*arguments, "--set", "gap8.cores=1").json["columns"][0]
    assert one["totals"] == dory(*arguments, "--set", "cores=1").json["columns"][0]["totals"]
    other = dory(*arguments, "--set", "stranger.cores=1")
    assert other.status == 2
    assert "stranger" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--targets", "gap8", "--vary", "l1"), "KEY=A,B"),
        (("--targets", "gap8", "--vary", "l1=1,,2"), "separated by commas"),
        (("--targets", "gap8", "--vary", "l1=64k,64k"), "twice"),
        (("--targets", "gap8", "--vary", "l1=a"), "no size"),
        (("--targets", "gap8", "--l1", "64k", "--vary", "l1=1k"), "fixed value"),
        (("--targets", "gap8", "--vary", "colour=red"), "no option 'colour'"),
        (("--targets", "gap8,gap8"), "twice"),
        (("--targets", "gap8,gap9"), "unknown target 'gap9'"),
    ],
)
def test_wrong_usage_is_status_2(arguments: tuple[str, ...], text: str) -> None:
    outcome = dory("compare", NET, *FRONTEND, *arguments)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert text in outcome.stderr


def test_page_and_images_are_written_beside_the_table(tmp_path: Path) -> None:
    page, images = tmp_path / "page.html", tmp_path / "images"
    arguments = ("--targets", "gap8", "--vary", "l1=22528,36700", "--processes", "1")
    outcome = dory(
        "compare", NET, *FRONTEND, *arguments, "--html", page, "--images", images, "--json"
    )
    assert outcome.status == 0, outcome.stderr
    assert len(outcome.json["columns"]) == 2
    assert "2 plans compared" in page.read_text(encoding="utf-8")
    assert {p.name for p in images.iterdir()} >= {"rate.svg", "latency.svg", "energy.svg"}
