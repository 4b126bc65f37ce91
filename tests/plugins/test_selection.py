"""DORY_PLUGINS restricts what is loaded, and nothing is loaded before it is needed."""

from __future__ import annotations

import pytest

from tests.plugins.distributions import GOOD_TARGET, Site


def test_only_named_plugins_are_imported(site: Site) -> None:
    site.install("dory-broken", "zz_broken", "import surely_not_installed\n")
    rows = site.rows(plugins="goodchip")
    assert rows["goodchip"]["state"] == "loaded"
    assert rows["gooddialect"]["state"] == "skipped"
    assert rows["zz_broken"]["state"] == "skipped"
    assert rows["zz_broken"]["reason"] == "not in DORY_PLUGINS"


def test_empty_selection_loads_none(site: Site) -> None:
    rows = site.rows(plugins="")
    assert {row["state"] for row in rows.values()} == {"skipped"}
    assert site.dory("targets", "--json", plugins="").json == []


def test_selection_decides_a_clash(site: Site) -> None:
    site.install("rival", "rival", GOOD_TARGET.format(name="goodchip"), version="9")
    [row] = site.dory("targets", "--json", plugins="rival").json
    assert (row["name"], row["dist"], row["version"]) == ("goodchip", "rival", "9")


def test_selection_of_an_unknown_plugin_is_reported(site: Site) -> None:
    rows = site.rows(plugins="goodchip, nonesuch")
    assert rows["nonesuch"]["state"] == "missing"
    assert "not installed" in rows["nonesuch"]["reason"]
    assert rows["goodchip"]["state"] == "loaded"


def test_help_and_version_load_no_plugin(site: Site) -> None:
    site.install("dory-marker", "marker", "open('was_imported', 'w').close()\n")
    for arguments in (["--help"], ["--version"], ["compile", "--help"], ["run", "--help"]):
        outcome = site.dory(*arguments)
        assert outcome.status == 0, outcome.stderr
    assert not (site.folder / "was_imported").exists()
    site.dory("plugins")
    assert (site.folder / "was_imported").exists()


@pytest.mark.sample(3)
@pytest.mark.parametrize("points", ["[dory.commands]\nno value\n", "[dory.commands\n", "\0\xff"])
def test_damaged_entry_points_of_a_distribution_take_no_other_down(site: Site, points: str) -> None:
    site.install("dory-damaged", "damaged", "", commands=True)
    file = site.folder / "dory_damaged-1.0.dist-info" / "entry_points.txt"
    file.write_bytes(points.encode("latin-1"))
    outcome = site.dory("--help")
    assert outcome.status == 0, outcome.stderr
    assert outcome.stderr == ""
    assert site.rows()["goodchip"]["state"] == "loaded"


def test_plugins_are_loaded_once(site: Site) -> None:
    source = "open('imports', 'a').write('x')\n"
    site.install("dory-marker", "marker", source)
    code = (
        "from dory_core.plugins.manager import load_plugins\n"
        "assert load_plugins() is load_plugins()\n"
        "load_plugins().targets(); load_plugins().frontends()"
    )
    outcome = site.python("-c", code)
    assert outcome.status == 0, outcome.stderr
    assert (site.folder / "imports").read_text() == "x"


def test_importing_the_core_imports_no_plugin_and_nothing_heavy(site: Site) -> None:
    code = (
        "import sys, dory_core.cli.main; heavy = {'onnx', 'ortools', 'numpy', 'mako', 'rich'}; "
        "print(sorted(heavy & sys.modules.keys()))"
    )
    assert site.python("-c", code).stdout.strip() == "[]"
