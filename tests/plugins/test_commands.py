"""Commands of plugins, and files that explain an application."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dory_core.api import OutputFile, hookimpl
from dory_core.driver.compiler import CompileOptions, compile_network
from dory_core.plugins.manager import Plugins
from dory_core.testing.graphs import GraphBuilder
from tests.plugins.distributions import Site
from tests.toy.chip import NAME, ToyChip
from tests.toy.frontend import reading

COMMAND = """
import typer
from dory_core.api import ToolMissing, hookimpl

@hookimpl
def dory_commands(app):
    @app.command("{name}")
    def command(directory: str = "app", fast: bool = False):
        \"\"\"Write an application to the board.\"\"\"
        if directory == "nowhere":
            raise ToolMissing("no probe found", "connect one")
        print("{name} of {dist}:", directory, fast)
"""


def command(name: str, dist: str = "dory-flash") -> str:
    return COMMAND.format(name=name, dist=dist)


@pytest.mark.sample(2)
@pytest.mark.parametrize("advertised", [True, False])
def test_a_command_runs_with_its_arguments(site: Site, advertised: bool) -> None:
    site.install("dory-flash", "flash", command("flash"), commands=advertised)
    outcome = site.dory("flash", "--directory", "demo", "--fast")
    assert (outcome.status, outcome.stdout) == (0, "flash of dory-flash: demo True\n")
    assert site.dory("unheard-of").status == 2


def test_an_error_in_a_command_is_no_traceback(site: Site) -> None:
    site.install("dory-flash", "flash", command("flash"))
    outcome = site.dory("flash", "--directory", "nowhere")
    assert outcome.status == 6
    assert outcome.stderr == "dory: error: no probe found\ndory: hint: connect one\n"


def test_help_lists_advertised_commands_and_imports_no_other_plugin(site: Site) -> None:
    site.install("dory-marker", "marker", "open('was_imported', 'w').close()\n")
    site.install("dory-quiet", "quiet", command("quiet"))
    site.install("dory-flash", "flash", command("flash"), commands=True)
    outcome = site.dory("--help")
    assert (outcome.status, outcome.stderr) == (0, "")
    [line] = [line for line in outcome.stdout.splitlines() if line.split()[:1] == ["flash"]]
    assert line.split(maxsplit=1)[1] == "Write an application to the board."
    own, others = (site.dory(name, "--help").stdout for name in ("targets", "flash"))
    assert "\nOptions:\n" in own
    assert "\nOptions:\n" in others, "the help of a plugin's command looks like that of dory's own"
    assert "quiet" not in outcome.stdout.replace("--quiet", "")
    assert not (site.folder / "was_imported").exists()
    assert "flash" not in site.dory("--help", plugins="goodchip").stdout


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import surely_not_installed\n", "surely_not_installed"),
        (command("flash").replace("import typer", "1 / 0"), "ZeroDivisionError"),
        (command("flash").replace('app.command("flash")', "app.no_such"), "no_such"),
        (command("flash").replace("fast: bool", "fast: 'Nowhere'"), "Nowhere"),
    ],
    ids=["import", "module", "hook", "signature"],
)
def test_a_broken_command_plugin_is_named_and_takes_nothing_down(
    site: Site, source: str, reason: str
) -> None:
    site.install("dory-broken", "broken", source, version="0.7", commands=True)
    site.install("dory-flash", "flash", command("flash"), commands=True)
    outcome = site.dory("--help")
    assert outcome.status == 0
    assert "\n  flash " in outcome.stdout
    assert "dory: warning: " in outcome.stderr
    assert "broken (dory-broken 0.7)" in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert site.dory("flash").stdout == "flash of dory-flash: app False\n"
    assert reason in site.rows()["broken"]["reason"]


def test_own_commands_are_not_replaced_and_the_clash_is_listed(site: Site) -> None:
    site.install("dory-rival", "rival", command("plugins", "dory-rival"), commands=True)
    rows = site.rows()
    assert rows["rival"]["reason"] == (
        "command 'plugins' is provided by both dory and rival (dory-rival 1.0); "
        "the first one is used"
    )
    assert rows["rival"]["state"] == "loaded"
    assert "dory-rival:" not in site.dory("plugins").stdout


@pytest.mark.slow
def test_of_two_plugins_the_first_keeps_its_command(site: Site) -> None:
    site.install("dory-one", "aa_one", command("flash", "dory-one"), commands=True)
    site.install("dory-two", "bb_two", command("flash", "dory-two"))
    assert site.dory("flash").stdout.startswith("flash of dory-one")
    reason = site.rows()["bb_two"]["reason"]
    assert "provided by both aa_one (dory-one 1.0) and bb_two (dory-two 1.0)" in reason


def reports(**files: Any) -> Any:
    """Return a plugin whose reports have these contents; a content may be an error."""

    @hookimpl
    def dory_reports(plan: Any, timeline: Any) -> list[OutputFile]:
        for content in files.values():
            if isinstance(content, Exception):
                raise content
        counts = f"{plan['totals']['cycles']} {timeline['cycles']}"
        return [OutputFile(f"{name}.txt", f"{text} {counts}") for name, text in files.items()]

    return SimpleNamespace(dory_reports=dory_reports)


def test_reports_of_all_plugins_are_made_of_the_documents_of_the_plan() -> None:
    plugins = Plugins.from_objects(one=reports(a="x", b="y"), two=reports(c="z"))
    files = plugins.reports({"totals": {"cycles": 7}}, {"cycles": 8}, {"plan.json"})
    assert [(file.path, file.content) for file in files] == [
        ("a.txt", "x 7 8"),
        ("b.txt", "y 7 8"),
        ("c.txt", "z 7 8"),
    ]


def test_a_report_that_fails_or_replaces_a_file_is_left_out_and_named() -> None:
    plugins = Plugins.from_objects(
        broken=reports(a=ValueError("no luck")), rival=reports(b="x", c="y"), good=reports(c="z")
    )
    files = plugins.reports({"totals": {"cycles": 7}}, {"cycles": 8}, {"b.txt"})
    assert [(file.path, file.content) for file in files] == [("c.txt", "y 7 8")]
    reasons = {state.entry: state.reason for state in plugins.states}
    assert reasons["broken"] == "plugin broken failed in dory_reports: ValueError: no luck"
    assert "its report 'b.txt' would replace another file" in reasons["rival"]
    assert "its report 'c.txt' would replace another file" in reasons["good"]


def test_reports_are_written_beside_the_application(tmp_path: Path) -> None:
    net = GraphBuilder((4, 4, 4))
    net.linear(2)
    plugins = Plugins.from_objects(
        chip=ToyChip(), built=reading(net.graph()), report=reports(note="x")
    )
    options = CompileOptions(tmp_path, NAME, "built", output=tmp_path / "app")
    compile_network(options, plugins)
    assert (tmp_path / "app" / "note.txt").read_text().startswith("x ")
