"""Compile, run, check and report, through the real command line."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from dory_core.testing.graphs import GraphBuilder
from tests.cli.command_line import ROOT, dory
from tests.toy.network import AROUND, LAYERS, POINT, save


def test_application_is_exact_and_json_is_the_only_output(application: Path) -> None:
    outcome = dory("run", application, "--json")
    assert outcome.status == 0, outcome.stderr
    document = outcome.json
    assert document["exact"] is True
    assert (document["target"], document["runner"]) == ("toy", "host")
    assert document["dma"] == "early, late, random"
    [run] = document["runs"]
    assert [layer["index"] for layer in run["layers"]] == list(range(LAYERS))
    assert all(layer["mismatches"] == 0 and layer["first"] is None for layer in run["layers"])


@pytest.mark.sample(3)
@pytest.mark.parametrize("dma", ["early", "late", "random"])
def test_run_says_that_every_layer_is_exact(application: Path, dma: str) -> None:
    outcome = dory("run", application, "--dma", dma, "--repeat", "2")
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout.count(f"{LAYERS} of {LAYERS} layers exact") == 2
    assert f"exact to toys: every element of every layer matches the golden (host, DMA {dma})" in (
        outcome.stdout
    )


def test_quiet_runs_name_the_first_value_that_differs(application: Path, tmp_path: Path) -> None:
    app = Path(shutil.copytree(application, tmp_path / "app"))
    file = app / "weights" / "dory_weights_00.c"
    file.write_text(re.sub(r"0x[0-9a-f]{8},", "0x01010101,", file.read_text(), count=1))
    outcome = dory("run", app, "-q")
    assert outcome.status == 5 and outcome.stdout == ""
    assert re.search(r"dory: error: layer 00 .* \(c \d+, .*expected -?\d+, got", outcome.stderr)
    assert dory("run", application, "-q").stderr == ""


def test_compile_and_no_command_are_the_same(
    pipeline: tuple[str, ...], net: Path, tmp_path: Path
) -> None:
    for command, name in (((), "a"), (("compile",), "b")):
        outcome = dory(*command, *pipeline, net, "-o", tmp_path / name)
        assert outcome.status == 0, outcome.stderr
    left = {p.relative_to(tmp_path / "a"): p for p in (tmp_path / "a").rglob("*") if p.is_file()}
    right = {p.relative_to(tmp_path / "b"): p for p in (tmp_path / "b").rglob("*") if p.is_file()}
    assert left.keys() == right.keys()
    for name_, path in left.items():
        assert path.read_bytes() == right[name_].read_bytes(), name_


def test_default_output_is_named_after_network_and_target(
    pipeline: tuple[str, ...], net: Path, tmp_path: Path
) -> None:
    assert dory(*pipeline, net, cwd=tmp_path).status == 0
    assert (tmp_path / "net_toy" / "plan.json").is_file()


def test_compile_shows_layers_memory_and_verdict(
    pipeline: tuple[str, ...], net: Path, golden: Path, tmp_path: Path
) -> None:
    outcome = dory(*pipeline, net, "--golden", golden, "-o", tmp_path / "app")
    lines = outcome.stdout.splitlines()
    assert sum(line[:2].isdigit() and "dory_portable_" in line for line in lines) == LAYERS
    for level in ("L1", "L2", "L3"):
        assert any(line.startswith(f"{level} ") for line in lines)
    assert any(line.startswith("estimate: ") and "MAC/cycle" in line for line in lines)
    assert "deployable: yes, within the memory of toy" in lines
    assert f"golden: all {LAYERS} layers are exact" in lines


def test_quiet_says_nothing(pipeline: tuple[str, ...], net: Path, tmp_path: Path) -> None:
    outcome = dory(*pipeline, net, "-q", "-o", tmp_path / "app")
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "", "")


def test_plan_only_writes_nothing_and_its_json_is_the_plan(
    pipeline: tuple[str, ...], net: Path, tmp_path: Path
) -> None:
    outcome = dory(*pipeline, net, "--plan-only", "--json", cwd=tmp_path)
    assert outcome.status == 0, outcome.stderr
    plan = outcome.json
    assert plan["target"] == "toy"
    assert len(plan["layers"]) == LAYERS
    assert plan["deployable"] is True
    assert list(tmp_path.iterdir()) == []


def test_every_key_of_the_documents_is_in_the_manual(
    pipeline: tuple[str, ...], net: Path, golden: Path, application: Path
) -> None:
    checked = dory("check", net, "--frontend", "plain", "--golden", golden, "--json").json
    plan = dory(*pipeline, net, "--plan-only", "--json").json
    check = dory("check", *pipeline, net, "--json").json
    run = dory("run", application, "--json").json
    documents = [plan, plan["network"], plan["totals"], plan["memory"]["L1"], plan["layers"][0]]
    documents += [plan["layers"][0]["estimate"], check, check["layers"][0], check["levels"][0]]
    documents += [checked["golden"], checked["golden"]["layers"][0]]
    documents += [dory("plugins", "--json").json[0], dory("targets", "--json").json[0]]
    documents += [run, run["runs"][0], run["runs"][0]["layers"][0]]
    manual = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    keys = {key for document in documents for key in document}
    assert [k for k in sorted(keys) if f"`{k}`" not in manual and f'"{k}"' not in manual] == []


def test_budget_reaches_the_plan_in_any_unit(pipeline: tuple[str, ...], net: Path) -> None:
    plans = [
        dory(*pipeline, net, "--plan-only", "--json", "--l1", size).json
        for size in ("16384", "16k", "16KiB")
    ]
    assert plans[0]["memory"]["L1"]["budget"] == 16384
    assert plans[0] == plans[1] == plans[2]
    assert plans[0]["memory"]["L1"]["used"] <= 16384


def test_budget_beyond_the_chip_is_not_deployable(pipeline: tuple[str, ...], net: Path) -> None:
    plan = dory(*pipeline, net, "--plan-only", "--json", "--l1", "1M").json
    assert plan["deployable"] is False
    assert plan["reason"]
    text = dory(*pipeline, net, "--plan-only", "--l1", "1M").stdout
    assert f"deployable: no, {plan['reason']}" in text


@pytest.mark.parametrize("quiet", [(), ("-q",)])
def test_an_application_that_cannot_run_on_the_chip_is_written_on_request(
    pipeline: tuple[str, ...], net: Path, tmp_path: Path, quiet: tuple[str, ...]
) -> None:
    app = tmp_path / "app"
    outcome = dory(*pipeline, net, *quiet, "--l1", "1M", "-o", app)
    assert outcome.status == 4
    assert "could not run on the chip: the L1 budget of 1048576 B exceeds" in outcome.stderr
    assert "--not-deployable-ok" in outcome.stderr
    assert not app.exists()
    assert dory(*pipeline, net, "--l1", "1M", "-o", app, "--not-deployable-ok").status == 0
    assert app.is_dir()


def test_too_small_a_budget_does_not_fit_and_writes_nothing(
    pipeline: tuple[str, ...], net: Path, tmp_path: Path
) -> None:
    outcome = dory(*pipeline, net, "--l1", "64", "-o", tmp_path / "app")
    assert outcome.status == 4
    assert "L1" in outcome.stderr
    assert "64" in outcome.stderr
    assert list(tmp_path.iterdir()) == []


def test_wrong_golden_is_status_5_and_names_the_element(
    pipeline: tuple[str, ...], net: Path, golden: Path, tmp_path: Path
) -> None:
    import numpy as np

    arrays = dict(np.load(golden))
    arrays["layer_03"] = arrays["layer_03"].copy()
    arrays["layer_03"][5] += 1
    np.savez(tmp_path / "wrong.npz", **arrays)
    wrong = tmp_path / "wrong.npz"
    outcome = dory(*pipeline, net, "--golden", wrong, "-o", tmp_path / "app")
    assert outcome.status == 5
    assert "layer" in outcome.stderr and "3" in outcome.stderr
    assert not (tmp_path / "app").exists()


@pytest.mark.sample(2)
@pytest.mark.parametrize("keep", [0, 1, 100, 5000])
def test_truncated_network_is_status_3(
    pipeline: tuple[str, ...], net: Path, tmp_path: Path, keep: int
) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(net.read_bytes()[:keep])
    outcome = dory(*pipeline, broken, "-o", tmp_path / "app")
    assert outcome.status == 3, outcome.stderr
    assert "broken.onnx" in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert not (tmp_path / "app").exists()


def test_foreign_output_directory_is_status_2_and_untouched(
    pipeline: tuple[str, ...], net: Path, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("years of work")
    outcome = dory(*pipeline, net, "-o", theirs)
    assert outcome.status == 2
    assert str(theirs) in outcome.stderr
    assert [p.name for p in theirs.iterdir()] == ["thesis.tex"]
    assert (theirs / "thesis.tex").read_text() == "years of work"


def test_output_below_a_file_is_status_2(
    pipeline: tuple[str, ...], net: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    outcome = dory(*pipeline, net, "-o", tmp_path / "file" / "app")
    assert outcome.status == 2, outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_unwritable_directory_is_status_2(
    pipeline: tuple[str, ...], net: Path, tmp_path: Path
) -> None:
    if os.geteuid() == 0:
        locked = Path("/proc/self/fd")  # not even root makes directories there
        if not locked.is_dir():
            pytest.skip("root may write everywhere on this system")
    else:
        locked = tmp_path / "locked"
        locked.mkdir(mode=0o500)
    outcome = dory(*pipeline, net, "-o", locked / "app")
    assert outcome.status == 2, outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_unknown_and_wrong_target_options_are_status_2(
    pipeline: tuple[str, ...], net: Path
) -> None:
    unknown = dory(*pipeline, net, "--plan-only", "--set", "colour=red")
    assert unknown.status == 2
    assert "'colour'" in unknown.stderr and "cores" in unknown.stderr
    wrong = dory(*pipeline, net, "--plan-only", "--set", "cores=many")
    assert wrong.status == 2
    assert "'many'" in wrong.stderr


def test_check_supports_and_fits(pipeline: tuple[str, ...], net: Path) -> None:
    outcome = dory("check", *pipeline, net, "--json")
    assert outcome.status == 0, outcome.stderr
    document = outcome.json
    assert (document["supported"], document["fits"]) == (True, True)
    assert [layer["index"] for layer in document["layers"]] == list(range(LAYERS))
    assert {level["name"] for level in document["levels"]} == {"L1", "L2", "L3"}
    assert "supported, and fits" in dory("check", *pipeline, net).stdout


def test_check_compares_with_a_golden(
    pipeline: tuple[str, ...], net: Path, golden: Path, tmp_path: Path
) -> None:
    outcome = dory("check", *pipeline, net, "--golden", golden, "--json")
    assert outcome.status == 0, outcome.stderr
    found = outcome.json["golden"]
    assert [layer["apart"] for layer in found["layers"]] == [0] * LAYERS
    with np.load(golden) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays["layer_01"] = arrays["layer_01"] ^ 1
    np.savez(tmp_path / "wrong.npz", **arrays)
    wrong = dory("check", *pipeline, net, "--golden", tmp_path / "wrong.npz")
    assert wrong.status == 5
    assert "layer 1 '" in wrong.stderr and not wrong.stdout


def test_check_tells_what_does_not_fit(pipeline: tuple[str, ...], net: Path) -> None:
    outcome = dory("check", *pipeline, net, "--json", "--l1", "64")
    assert outcome.status == 4, outcome.stderr
    assert (outcome.json["supported"], outcome.json["fits"]) == (True, False)


def test_check_tells_the_least_bytes(pipeline: tuple[str, ...], tmp_path: Path) -> None:
    builder = GraphBuilder((3, 12, 12), seed=5, name="net")
    builder.conv(8, AROUND)
    builder.conv(16, POINT)
    builder.conv(4, AROUND)
    net = save(builder.graph(), tmp_path)
    outcome = dory("check", *pipeline, net, "--least", "--json")
    assert outcome.status == 0, outcome.stderr
    points = outcome.json["points"]
    assert outcome.json["fits"] is True and outcome.json["changes"] == []
    assert [p["cycles"] for p in points] == sorted(p["cycles"] for p in points)
    least = points[-1]["l2_bytes"]
    assert f"the least is {least} B" in dory("check", *pipeline, net, "--least").stdout
    plan = dory(*pipeline, net, "--plan-only", "--objective", "ram", "--json").json
    assert plan["memory"]["L2"]["used"] == least
    tight = dory("check", *pipeline, net, "--least", "--l2", str(least // 2))
    assert tight.status == 4
    assert f"the least is {least} B" in tight.stdout and "hint: give --l2" in tight.stdout


def test_check_tells_the_least_bytes_where_rows_pass(pipeline: tuple[str, ...], net: Path) -> None:
    plan = dory(*pipeline, net, "--plan-only", "--objective", "ram", "--input-rows", "--json")
    outcome = dory("check", *pipeline, net, "--least", "--input-rows", "--json")
    assert outcome.status == plan.status
    if plan.status == 0:
        assert outcome.json["points"][-1]["l2_bytes"] == plan.json["memory"]["L2"]["used"]
    else:
        assert "cannot pass by rows" in plan.stderr and "cannot pass by rows" in outcome.stderr


def test_check_needs_a_target_for_the_least_bytes(net: Path) -> None:
    outcome = dory("check", net, "--frontend", "plain", "--least")
    assert outcome.status == 2 and "name the target with --target" in outcome.stderr


def test_check_without_a_target_only_imports(pipeline: tuple[str, ...], net: Path) -> None:
    outcome = dory("check", net, "--frontend", "plain", "--json")
    assert outcome.status == 0, outcome.stderr
    assert outcome.json["supported"] is True


def test_targets_and_frontends_describe_themselves(pipeline: tuple[str, ...]) -> None:
    [target] = [row for row in dory("targets", "--json").json if row["name"] == "toy"]
    assert [level["name"] for level in target["levels"]] == ["L1", "L2", "L3"]
    assert target["dist"] == "dory-toy-chip"
    assert {"cores", "operating_point"} <= {option["name"] for option in target["options"]}
    frontends = {row["name"]: row["dist"] for row in dory("frontends", "--json").json}
    assert frontends["plain"] == "dory-plain"
    assert "toy" in dory("targets").stdout
    assert "plain" in dory("frontends").stdout


def test_a_frontend_without_a_table_of_operators_says_so() -> None:
    done = dory("frontends", "--list-operators", "--frontend", "plain")
    assert done.status == 2 and "'plain' has no list of operators" in done.stderr


def test_verbose_names_the_passes_and_dump_stages_writes_a_file_for_each(
    pipeline: tuple[str, ...], net: Path, tmp_path: Path
) -> None:
    outcome = dory(*pipeline, net, "--plan-only", "-v", "--dump-stages", tmp_path / "dump")
    assert outcome.status == 0, outcome.stderr
    assert (
        "passes: scales, channels, sums, vectors, storage, halves, pools, order, bytes"
        in outcome.stdout.splitlines()
    )
    assert sorted(path.name for path in (tmp_path / "dump").iterdir()) == [
        "00_imported.txt",
        "01_scales.txt",
        "02_channels.txt",
        "03_sums.txt",
        "04_vectors.txt",
        "05_storage.txt",
        "06_halves.txt",
        "07_pools.txt",
        "08_order.txt",
        "09_bytes.txt",
        "10_bound.txt",
        "11_tiled.txt",
        "12_moves.txt",
        "13_plan.json",
    ]
    (tmp_path / "file").write_text("in the way")
    outcome = dory(*pipeline, net, "--plan-only", "--dump-stages", tmp_path / "file")
    assert outcome.status == 2
    assert "choose another --dump-stages DIR" in outcome.stderr
