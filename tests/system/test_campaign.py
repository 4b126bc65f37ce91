"""A few seconds of the campaign with fixed seeds, and the campaign's own parts."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from dory_core.errors import DoryError
from dory_core.ir import Window
from dory_core.plan import Plan
from dory_core.plan.network_operations import Program
from dory_core.plan.operations import Barrier, Wait
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from tests.fuzz import plan_mutants, survivors
from tests.fuzz.campaign import cases, save, shrunk, subjects, table, try_all, try_case
from tests.fuzz.cases import Case, Verdict
from tests.fuzz.damage import structural
from tests.fuzz.explain import explained
from tests.fuzz.kernel_tests import is_found_by_tests, sources
from tests.fuzz.mutants import NO_PLAN, moved_buffers, mutations, printed_files

for package in ("tflite_micro", "onnxruntime"):
    pytest.importorskip(package, reason="an interpreter of the extra test is not installed")


@pytest.mark.sample(6)
@pytest.mark.parametrize("subject", subjects("network"))
def test_networks_are_exact(subject: str) -> None:
    verdict = try_case(Case("network", subject, 7))
    assert verdict.outcome == "exact", verdict.text


@pytest.mark.sample(5)
@pytest.mark.parametrize("subject", subjects("tight"))
def test_networks_in_little_memory_are_exact(subject: str) -> None:
    verdict = try_case(Case("tight", subject, {"borders": 13, "mixed": 6}.get(subject, 5)))
    assert verdict.outcome == "exact", verdict.text


@pytest.mark.sample(3)
@pytest.mark.parametrize("subject", subjects("fused"))
def test_networks_in_fused_chains_are_exact(subject: str) -> None:
    verdict = try_case(Case("fused", subject, {"tall-nemo": 21}.get(subject, 12)))
    assert verdict.outcome == "exact", verdict.text
    assert ", 0 fused" not in verdict.text


@pytest.mark.parametrize("subject", subjects("damage"))
def test_damaged_files_are_refused_with_a_reason(subject: str) -> None:
    found = Counter(try_case(Case("damage", subject, seed)).outcome for seed in range(0, 400, 10))
    assert set(found) <= {"refused", "read"}
    assert found["refused"] > found["read"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["network", "tight", "fused", "damage"])
def test_many_cases(kind: str, tmp_path: Path) -> None:
    count = {"network": 200, "tight": 100, "fused": 60, "damage": 3000}[kind]
    tried = (case for case, _ in zip(cases([kind], 50_000), range(count), strict=False))
    assert [f"{v.case}: {v.outcome}\n{v.text}" for v in try_all(tried, 2) if v.bad] == []


@pytest.mark.slow
def test_most_mutants_are_found() -> None:
    """Those that survive change nothing that matters: an experiment shows it."""
    tried = (Case("mutant", "code", seed) for seed in range(40))
    verdicts = list(try_all(tried, 2))
    found = Counter(verdict.outcome for verdict in verdicts)
    assert found["found"] >= 2 * found["survives"], found
    left = [verdict for verdict in verdicts if verdict.outcome == "survives"]
    reasons = {str(verdict.case): explained(verdict.case).name for verdict in left}
    unknown = (survivors.UNEXPLAINED, survivors.LATER)
    assert [case for case, reason in reasons.items() if reason in unknown] == []


def test_a_case_is_the_same_every_time() -> None:
    case = Case("damage", "qdq", 11)
    assert Case.parse(str(case)) == case
    assert Case.parse("network:tflite:3:2") == Case("network", "tflite", 3, 2)
    first, second = try_case(case), try_case(case)
    assert (first.outcome, first.case) == (second.outcome, second.case)


def test_changes_of_a_line_leave_comments_alone() -> None:
    text = "/* a < 1\n 2 */\n#if 3\n  y[i] = x + 5; /* 6 */\n"
    made = {mutation.new.strip() for mutation in mutations("a.c", text)}
    assert made == {";", "y[i] = x - 5; /* 6 */", "y[i] = x + 6; /* 6 */", "y[i] = x + 4; /* 6 */"}


def test_moved_buffers_are_those_that_a_kernel_writes() -> None:
    text = "enum {\n  L1_X = 0,\n  L1_X_STEP = 64,\n  L1_W = 128,\n  L1_Y = 160,\n};\n"
    made = [mutation.new for mutation in moved_buffers("a.c", text)]
    starts = (0, 112, 124, 128, 144, 156)
    assert made == [f"  L1_Y = {start}," for start in starts]


def test_a_multiplication_repeated_stays_between_its_nodes() -> None:
    made = [model for model in map(_multiplied, range(400)) if model is not None]
    assert {sum("large" in n.input for n in m.graph.node) for m in made} == {1, 40, 300}
    for model in made:
        onnx.checker.check_model(model)


def _multiplied(seed: int) -> onnx.ModelProto | None:
    """Return a model of two nodes with a damage, where that is a multiplication."""
    made = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node("Relu", [a], [b]) for a, b in (("x", "y"), ("y", "z"))]
    ends = [[made(name, onnx.TensorProto.FLOAT, [1, 4])] for name in ("x", "z")]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "two", *ends))
    structural(random.Random(seed), model)
    return model if any(c.name == "large" for c in model.graph.initializer) else None


def test_changes_of_a_plan_are_numbers_orders_and_what_is_left_out() -> None:
    operations = (Barrier("a"), Wait("x", slot=1))
    made = dict(plan_mutants.changes(operations, "program"))
    assert made["program[0] Barrier is left out"]() == operations[1:]
    assert made["program[0] Barrier comes after Wait"]() == operations[::-1]
    assert made["program[1].Wait.slot: 1 becomes -1 of it"]()[1].slot == 0
    assert made["program[1].Wait.open: True becomes False"]()[1].open is False


def _printed_kind(plan: Plan, seed: int) -> str:
    """Return what becomes of a mutant of a plan before it is compiled."""
    _, make = plan_mutants.mutants(plan, random.Random(seed))
    try:
        changed = make()
        plan_mutants.verify(changed)
        printed = printed_files(changed)
    except DoryError:
        return "found"
    except NO_PLAN:
        return "no plan"
    return "same code" if printed == printed_files(plan) else "other code"


def test_the_verifier_finds_a_copy_from_elsewhere(tmp_path: Path) -> None:
    builder = GraphBuilder((4, 6, 6))
    builder.conv(8, Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    plan = build_app(builder.graph(), "gap8", tmp_path / "app")
    plan_mutants.verify(plan)
    (program,) = plan.program.layers
    kinds = Counter(_printed_kind(plan, seed) for seed in range(40))
    assert kinds["other code"] > 4, kinds
    made = plan_mutants.changes(program)
    wrong = [make for text, make in made if "Copy.l2.Address.offset" in text and "+4" in text]
    assert wrong
    found = 0
    for make in wrong:
        changed = Program(plan.program.operations, (make(),))
        try:
            plan_mutants.verify(replace(plan, program=changed))
        except DoryError as error:
            assert "memory plan is wrong" in error.message
            found += 1
    assert found


@pytest.mark.parametrize(
    ("old", "new", "right", "reason"),
    [
        ("  .stride_w = 2,", "  .stride_w = 3,", lambda n: True, survivors.UNREAD),
        ("  .x = {8, 1},", "  .x = {8, 2},", lambda n: n != 0, survivors.FLAG),
        ("  .x_h = 8,", "  .x_h = 9,", lambda n: n >= 8, survivors.LIMIT),
        ("  .requant = 4711,", "  .requant = 4712,", lambda n: 0 <= n - 4711 < 9, survivors.SMALL),
        ("  arguments.kernel_w = 1;", ";", lambda n: n < 2, survivors.SIZES),
        ("  L1_Y = 688,", "  L1_Y = 689,", lambda n: n > 680 and n < 700, survivors.ALIGNED),
        ("  if (o != l2 + 32) {", "  if (o != l2 - 32) {", lambda n: n > 0, survivors.SPARES),
        ("  if (o < 32) {", "  if (o <= 32) {", lambda n: n == 32, survivors.EQUAL),
        ("  run(a, b + 2);", "  run(a, b - 2);", lambda n: n == 2, survivors.EQUAL),
        ("  for (; n < 4; n += 1) {", "  for (; n < 4; n -= 1) {", None, survivors.UNEXPLAINED),
        (
            "  const at_t p = {0, 7};",
            "  const at_t p = {(-1), 7};",
            lambda n: True,
            survivors.UNREAD,
        ),
        ("  {INT64_C(-128), 2},", "  {INT64_C(-128), 3},", lambda n: True, survivors.UNREAD),
        ("  run(1, 2);", ";", lambda n: True, survivors.UNEXPLAINED),
        ("  L1_Y = 464,", "  L1_Y = 460,", lambda n: n >= 460, survivors.ALIGNED),
    ],
)
def test_reasons_of_survivors(
    old: str, new: str, right: Callable[[int], bool] | None, reason: str
) -> None:
    def found(contents: Mapping[str, str]) -> bool:
        assert right is not None
        return not right(int(re.findall(r"\d+", contents["a.c"])[-1]))

    before, after = {"a.c": f"int a;\n{old}\n"}, {"a.c": f"int a;\n{new}\n"}
    assert survivors.explain(before, after, found, before).name == reason


def test_bytes_behind_the_last_constant_may_be_any() -> None:
    rows = "int a[] = {\n  0x00000000, 0x00000001,\n"
    before, after = ({"weights/a.c": f"{rows}{more}}};\n"} for more in ("", "  0x00000000,\n"))

    def found(contents: Mapping[str, str]) -> bool:
        return not contents["weights/a.c"].startswith(rows)

    assert survivors.explain(before, after, found, before).name == survivors.ROOM


def test_listed_survivors_have_reasons() -> None:
    text = (Path(__file__).parents[1] / "fuzz/survivors.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines()]
    reasons = {value for name, value in vars(survivors).items() if name.isupper()}
    assert {reason for _, reason, _ in rows} <= reasons - {survivors.UNEXPLAINED}
    assert all(evidence for _, _, evidence in rows)
    assert len({name for name, _, _ in rows}) == len(rows) > 300


def test_barrier_is_one_of_two_where_core_0_alone_works_between_them() -> None:
    barrier = "  dory_barrier();\n"
    alone = "  if (core == 0) {\n    load();\n  }\n"
    for between, reason in ((alone, survivors.BARRIERS), ("  f();\n", survivors.UNEXPLAINED)):
        before = {"a.c": f"void f(void) {{\n{barrier}{between}{barrier}}}\n"}
        after = {"a.c": f"void f(void) {{\n;\n{between}{barrier}}}\n"}
        assert survivors.explain(before, after, lambda _: True, before).name == reason


def test_kernels_random_tiles_find_a_mutant() -> None:
    path = "kernels/dory_portable_lut.c"
    text = sources("diana", "dory_portable_lut")[path]
    assert "& 255" in text
    assert is_found_by_tests(path, text, text.replace("& 255", "& 127"), ("diana",))
    assert not is_found_by_tests(path, text, text + "/* the same */\n", ("diana",))


def test_a_bad_case_is_shrunk_and_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bad_from_two(case: Case) -> Verdict:
        return Verdict(case, "wrong", "no", bad=case.size in (0, 2, 3))

    monkeypatch.setattr("tests.fuzz.campaign.try_case", bad_from_two)
    small = shrunk(bad_from_two(Case("network", "qdq", 3)))
    assert small.case.size == 2
    place = save(small, tmp_path)
    assert (place / "net.onnx").is_file()
    assert "--case network:qdq:3:2" in (place / "report.txt").read_text()
    assert "1 wrong" in table({("network", "qdq"): Counter({"wrong": 1})})


def test_a_case_that_cannot_be_drawn_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(case: Case, folder: Path) -> None:
        raise ValueError("low >= high")

    monkeypatch.setattr("tests.fuzz.campaign.DRAWN", {"network": fails})
    place = save(Verdict(Case("network", "qdq", 3), "traceback", "low >= high", bad=True), tmp_path)
    assert "low >= high" in (place / "report.txt").read_text()
