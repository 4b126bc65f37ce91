"""``dory report``: an application again, as tables, page, images and trace."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.command_line import EXAMPLE, dory
from tests.toy.network import LAYERS


def test_report_shows_the_tables_of_compile(application: Path) -> None:
    outcome = dory("report", application)
    assert outcome.status == 0, outcome.stderr
    assert "deployable: yes" in outcome.stdout
    assert outcome.stdout.count("dory_portable_") >= LAYERS


def test_an_application_has_its_report_and_can_write_it_again(
    application: Path, tmp_path: Path
) -> None:
    written = application / "report.html"
    again, trace, images = tmp_path / "again.html", tmp_path / "trace.json", tmp_path / "images"
    outcome = dory("report", application, "--html", again, "--trace", trace, "--images", images)
    assert outcome.status == 0, outcome.stderr
    assert again.read_bytes() == written.read_bytes()
    assert len(json.loads(trace.read_text())["traceEvents"]) > 20
    assert {path.name for path in images.iterdir()} >= {"cycles.svg", "timeline.svg"}
    refused = dory("report", application, "--html", tmp_path / "no" / "where.html")
    assert (refused.status, "cannot write" in refused.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--html", "--trace", "--images"])
def test_files_of_applications_and_of_others_are_not_overwritten(
    application: Path, tmp_path: Path, option: str
) -> None:
    """Neither a report of its own inside the application: this is replaced as a whole."""
    for name in ("plan.json", "report.html", "src"):
        outcome = dory("report", application, option, application / name)
        assert outcome.status == 2, outcome.stderr
        assert "lies inside the application" in outcome.stderr
    if option != "--images":
        foreign = tmp_path / "mine"
        foreign.write_text('{"mine": 1}')
        outcome = dory("report", application, option, foreign)
        assert outcome.status == 2 and "nothing was changed" in outcome.stderr
        assert foreign.read_text() == '{"mine": 1}'
        twice = tmp_path / "own"
        assert [dory("report", application, option, twice).status for _ in "12"] == [0, 0]


def test_report_prints_the_plan_as_json(application: Path) -> None:
    shown = dory("report", application, "--json")
    assert shown.json == json.loads((application / "plan.json").read_text(encoding="utf-8"))


def test_report_without_an_application_is_status_2() -> None:
    outcome = dory("report", EXAMPLE)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "plan.json" in outcome.stderr


@pytest.mark.sample(2)
@pytest.mark.parametrize("content", ["{}", "[]", "x", '{"generator": "dory", "version": 1}'])
def test_damaged_plan(tmp_path: Path, content: str) -> None:
    (tmp_path / "plan.json").write_text(content)
    outcome = dory("report", tmp_path)
    assert outcome.status == 2, outcome.stderr
    assert "plan.json" in outcome.stderr or "no application" in outcome.stderr


@pytest.mark.sample(3)
@pytest.mark.parametrize("key", ["layers", "memory", "network", "totals", "target", "options"])
def test_plan_with_a_part_of_another_type(application: Path, tmp_path: Path, key: str) -> None:
    copy = Path(shutil.copytree(application, tmp_path / "copy"))
    plan = json.loads((copy / "plan.json").read_text())
    (copy / "plan.json").write_text(json.dumps(plan | {key: 5}))
    outcome = dory("report", copy)
    assert outcome.status == 2, outcome.stderr
    assert "plan.json is damaged" in outcome.stderr


def test_images_of_an_unknown_type_are_status_2(application: Path, tmp_path: Path) -> None:
    images = ("--images", tmp_path / "images", "--image-format", "gif")
    outcome = dory("report", application, *images)
    assert outcome.status == 2
    assert "known: svg, png" in outcome.stderr
    assert not (tmp_path / "images").exists()


@pytest.mark.parametrize("command", ["compare", "report"])
def test_help_lists_the_commands_and_their_options(command: str) -> None:
    assert f"\n  {command} " in dory("--help").stdout
    outcome = dory(command, "--help")
    assert outcome.status == 0
    assert "--debug" in outcome.stdout


@pytest.mark.parametrize("command", ["compare", "report"])
def test_a_plugin_that_is_left_out_is_named(command: str) -> None:
    outcome = dory(command, "app", DORY_PLUGINS="")
    assert outcome.status == 2
    assert "report (dory-report 0.1.0), which is skipped: not in DORY_PLUGINS" in outcome.stderr


def test_without_the_plugin_applications_have_no_page(
    pipeline: tuple[str, ...], net: Path, tmp_path: Path
) -> None:
    app = tmp_path / "app"
    outcome = dory(*pipeline, net, "-o", app, "-q", DORY_PLUGINS="toy,plain")
    assert outcome.status == 0, outcome.stderr
    assert not (app / "report.html").exists()
    assert (app / "plan.json").exists()
