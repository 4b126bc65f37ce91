"""A broken plugin is named with distribution, version and reason, and the others work on."""

from __future__ import annotations

import pytest

from tests.plugins.distributions import GOOD_FRONTEND, GOOD_TARGET, Site

IMPORT = "from dory_core.api import hookimpl\n"

BROKEN = {
    "missing module": ("import surely_not_installed\n", ["import", "surely_not_installed"]),
    "syntax error": ("def broken(:\n", ["import", "SyntaxError"]),
    "exit on import": ("raise SystemExit(3)\n", ["import", "SystemExit"]),
    "unknown hook": (
        IMPORT + "@hookimpl\ndef dory_telepathy():\n    return []\n",
        ["unknown hook dory_telepathy"],
    ),
    "unmarked hook": ("def dory_targets():\n    return []\n", ["dory_targets", "hookimpl"]),
    "unknown parameter": (
        IMPORT + "@hookimpl\ndef dory_kernels(ctx, layer, weather):\n    return []\n",
        ["wrong signature", "dory_kernels", "'weather'", "ctx, layer"],
    ),
    "star arguments": (
        IMPORT + "@hookimpl\ndef dory_kernels(*arguments):\n    return []\n",
        ["wrong signature", "dory_kernels"],
    ),
    "raises": (
        IMPORT + "@hookimpl\ndef dory_targets():\n    raise RuntimeError('no\\nluck')\n",
        ["dory_targets", "RuntimeError: no luck"],
    ),
    "wrong type": (
        IMPORT + "@hookimpl\ndef dory_targets():\n    return ['a string']\n",
        ["dory_targets", "str", "Target"],
    ),
    "no list": (
        IMPORT + "@hookimpl\ndef dory_frontends():\n    return 7\n",
        ["dory_frontends", "int", "list"],
    ),
    "target of another hook": (
        IMPORT + "@hookimpl(target='chip')\ndef dory_targets():\n    return []\n",
        ["dory_targets", "marked with a target"],
    ),
    "wrapper that does not yield": (
        IMPORT + "@hookimpl(wrapper=True)\ndef dory_kernels():\n    return []\n",
        ["dory_kernels", "wrapper", "does not yield"],
    ),
    "wrapper of a hook without a target": (
        IMPORT + "@hookimpl(wrapper=True)\ndef dory_targets():\n    yield\n",
        ["dory_targets", "wrapper", "not called for a target"],
    ),
    "newer API": ("DORY_API = 99\n", ["API 99", "API 1"]),
    "senseless API": ("DORY_API = 'latest'\n", ["DORY_API", "latest"]),
    "clashing target": (
        GOOD_TARGET.format(name="goodchip"),
        ["'goodchip'", "goodchip (good-target 1.0)", "zz_broken (dory-broken 0.7)"],
    ),
    "clashing frontend": (
        GOOD_FRONTEND.format(name="gooddialect"),
        ["'gooddialect'", "gooddialect (good-frontend 1.0)", "zz_broken (dory-broken 0.7)"],
    ),
}


@pytest.mark.sample(10)
@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.replace(" ", "_"))
def test_broken_plugin_is_reported_and_others_are_loaded(site: Site, case: str) -> None:
    source, words = BROKEN[case]
    site.install("dory-broken", "zz_broken", source, version="0.7")
    rows = site.rows()
    broken = rows["zz_broken"]
    assert (broken["dist"], broken["version"]) == ("dory-broken", "0.7")
    assert broken["state"] == "failed"
    for word in words:
        assert word in broken["reason"]
    assert "\n" not in broken["reason"]
    assert rows["goodchip"] == {
        "dist": "good-target",
        "version": "1.0",
        "entry": "goodchip",
        "state": "loaded",
        "reason": "",
        "hooks": ["dory_targets", "dory_memory_hierarchy"],
    }
    assert rows["gooddialect"]["hooks"] == ["dory_frontends"]


def test_other_commands_warn_of_a_broken_plugin_on_stderr_only(site: Site) -> None:
    site.install("dory-broken", "zz_broken", "import surely_not_installed\n", version="0.7")
    outcome = site.dory("targets", "--json")
    assert outcome.status == 0
    assert "goodchip" in [row["name"] for row in outcome.json]
    assert "zz_broken (dory-broken 0.7) is left out" in outcome.stderr
    assert "surely_not_installed" in outcome.stderr


def test_output_of_a_plugin_does_not_reach_stdout(site: Site) -> None:
    site.install("dory-chatty", "chatty", "print('hello from the plugin')\n")
    outcome = site.dory("plugins", "--json")
    assert {row["entry"] for row in outcome.json} >= {"chatty", "goodchip"}
    assert "hello from the plugin" in outcome.stderr


def test_termination_while_a_plugin_is_imported_is_not_taken_for_a_broken_plugin(
    site: Site,
) -> None:
    source = "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n"
    site.install("dory-slow", "aa_slow", source)
    outcome = site.dory("plugins", "--json")
    assert outcome.status == 143, outcome.stderr
    assert outcome.stdout == ""


def test_broken_plugin_says_why_its_target_is_unknown(site: Site) -> None:
    site.install("dory-broken", "zz_broken", "import surely_not_installed\n")
    network = site.folder / "net.onnx"
    network.write_bytes(b"")
    outcome = site.dory("-t", "mychip", "-f", "gooddialect", str(network))
    assert outcome.status == 2
    assert "unknown target 'mychip'; known: " in outcome.stderr
    assert "goodchip" in outcome.stderr
    assert "surely_not_installed" in outcome.stderr


def test_clash_names_both_whatever_the_order_of_installation(site: Site) -> None:
    site.install("aaa", "aaa_first", GOOD_TARGET.format(name="goodchip"), version="2.0")
    rows = site.rows()
    assert rows["aaa_first"]["state"] == "loaded"
    assert rows["goodchip"]["state"] == "failed"
    assert "aaa_first (aaa 2.0)" in rows["goodchip"]["reason"]
    assert "goodchip (good-target 1.0)" in rows["goodchip"]["reason"]


def test_order_of_plugins_is_that_of_their_names(site: Site) -> None:
    for name in ("mm", "bb", "zz"):
        site.install(f"dist-{name}", name, "")
    entries = [row["entry"] for row in site.dory("plugins", "--json").json]
    assert entries == sorted(entries)


def test_a_target_that_nobody_provides_is_noted(site: Site) -> None:
    source = IMPORT + "@hookimpl(target='nochip')\ndef dory_passes():\n    return []\n"
    site.install("dory-other", "other", source)
    outcome = site.dory("targets", "--json")
    assert outcome.stderr == "", "it may belong to a target that is not installed"
    row = site.rows()["other"]
    assert row["state"] == "loaded"
    assert row["reason"] == "no plugin provides target 'nochip' of its dory_passes"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ("memory_hierarchy", "plugin brokenchip (dory-broken 0.7) failed in dory_memory_hierarchy"),
        ("runners", "plugin brokenchip (dory-broken 0.7) failed in dory_runners: ZeroDivision"),
    ],
)
def test_a_target_whose_hook_fails_is_listed_with_the_reason(
    site: Site, hook: str, said: str
) -> None:
    source = GOOD_TARGET.format(name="brokenchip")
    if hook == "memory_hierarchy":
        source = source.replace("    levels = ", "    1 // 0\n    levels = ")
    else:
        source += f"\n@hookimpl(target='brokenchip')\ndef dory_{hook}():\n    1 // 0\n"
    site.install("dory-broken", "brokenchip", source, version="0.7")
    listed = site.dory("targets")
    assert listed.status == 1, "a bug of the plugin"
    assert f"cannot be used: {said}" in listed.stdout
    found = {row["name"]: row["problem"] for row in site.dory("targets", "--json").json}
    assert said in found["brokenchip"] and found["goodchip"] == ""
    states = {row["entry"]: row["reason"] for row in site.dory("plugins", "--json").json}
    assert said in states["brokenchip"] and not states["goodchip"]


def test_text_form_names_the_reason(site: Site) -> None:
    site.install("dory-broken", "zz_broken", "import surely_not_installed\n", version="0.7")
    outcome = site.dory("plugins")
    assert outcome.status == 0
    [line] = [line for line in outcome.stdout.splitlines() if line.startswith("zz_broken")]
    assert "dory-broken 0.7" in line
    assert "failed" in line
    assert "No module named 'surely_not_installed'" in line
