from __future__ import annotations

import subprocess
import sys
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dory_core.checks.verify import verify_packing
from dory_core.errors import DoryError
from dory_core.plan.block_ids import BlockId
from dory_core.plan.blocks import Request, fullest_step, packing, requests
from dory_core.planning.packing import repair
from dory_core.planning.packing.exact import solve
from dory_core.planning.packing.heuristics import best_fit, fit_into, peak_of
from dory_core.planning.packing.one_memory import optimal_packing, peak_within, plan_memory
from dory_core.planning.packing.repair import repaired
from dory_core.planning.packing.stack import bidirectional_stack
from tests.planning.samples import lifetimes, network, wanted


def fits_within(blocks, alignment, peak, placed=()):
    """Try every aligned offset of every block, one block after another."""
    if len(placed) == len(blocks):
        return True
    r = blocks[len(placed)]
    return any(
        fits_within(blocks, alignment, peak, (*placed, (offset, r)))
        for offset in range(0, peak - r.size_bytes + 1, alignment)
        if not any(
            offset < o + other.size_bytes
            and o < offset + r.size_bytes
            and r.first <= other.last
            and other.first <= r.last
            for o, other in placed
        )
    )


def brute_force_peak(blocks, alignment):
    """Smallest multiple of the alignment that holds all blocks, by exhaustive search."""
    peak = alignment
    while not fits_within(blocks, alignment, peak):
        peak += alignment
    return peak


@given(lifetimes(), st.sampled_from((1, 4, 8)))
@settings(deadline=None, max_examples=150)
def test_stack_and_packing_are_legal_and_packing_is_never_larger(blocks, alignment):
    stack = bidirectional_stack(blocks, alignment)
    packed, proven = optimal_packing(blocks, alignment)
    plan = plan_memory(blocks, alignment)
    bound = fullest_step(blocks, alignment)[1]
    for placed in (stack, packed, plan.chosen):
        verify_packing(blocks, placed, alignment=alignment)
        assert bound <= placed.peak_bytes
        assert placed.peak_bytes % alignment == 0
    assert packed.peak_bytes <= stack.peak_bytes
    assert proven
    assert plan.chosen.peak_bytes == plan.packed_bytes == packed.peak_bytes
    assert plan.stack_bytes == stack.peak_bytes


@given(lifetimes(most=6, steps=5, largest=6), st.sampled_from((1, 4)))
@settings(deadline=None, max_examples=60)
def test_packing_equals_brute_force(blocks, alignment):
    packed, proven = optimal_packing(blocks, alignment)
    assert proven
    assert packed.peak_bytes == brute_force_peak(blocks, alignment)


# Six bytes are live at every step, yet no placement keeps within six: (size, first, last).
ABOVE_BOUND = (
    (4, 0, 1), (3, 2, 2), (2, 0, 3), (2, 3, 3), (1, 2, 4),
    (1, 4, 4), (1, 3, 5), (3, 4, 5), (2, 5, 5),
)  # fmt: skip


def test_solver_proves_an_optimum_above_the_bound():
    blocks = tuple(wanted(f"b{i}", *r) for i, r in enumerate(ABOVE_BOUND))
    packed, proven = optimal_packing(blocks, 1)
    verify_packing(blocks, packed, alignment=1)
    assert proven
    assert fullest_step(blocks)[1] == 6
    assert 7 == packed.peak_bytes == brute_force_peak(blocks, 1)


def test_chain_needs_two_neighbours_and_the_stack_alternates_ends():
    sizes = {"input": 100, "a": 40, "b": 60, "c": 50}
    graph = network(sizes, ("a", "input"), ("b", "a"), ("c", "b"), outputs=("c",))
    blocks = requests(graph, range(3))
    stack = bidirectional_stack(blocks, 1)
    assert stack.peak_bytes == 140
    assert {b.id.text: b.offset for b in stack.blocks} == {"input": 0, "a": 100, "b": 0, "c": 90}
    plan = plan_memory(blocks, 1)
    assert plan.chosen == stack
    assert (plan.stack_bytes, plan.packed_bytes, plan.proven) == (140, 140, True)


def test_stack_with_streamed_weights_has_the_peak_of_the_papers_formula():
    x = [12, 20, 8, 16, 4]
    w = [7, 30, 5, 9]
    blocks = [wanted(f"x{i}", size, i - 1, i) for i, size in enumerate(x)]
    blocks += [wanted(f"w{i}", size, i - 1, i, "weights") for i, size in enumerate(w)]
    formula = max(
        x[i] + w[i] + x[i + 1] + (w[i + 1] if i + 1 < len(w) else 0) for i in range(len(w))
    )
    stack = bidirectional_stack(blocks, 1)
    verify_packing(blocks, stack, alignment=1)
    assert stack.peak_bytes == formula


def test_residual_fragments_the_stack_and_packing_saves_it():
    sizes = {"input": 8, "a": 64, "b": 16, "c": 64, "d": 128, "e": 64}
    graph = network(
        sizes, ("a", "input"), ("b", "a"), ("c", "b"), ("d", "c"), ("e", "d", "b"), outputs=("e",)
    )
    # b stays until the Add, so that the stack cannot give back a, which lies below b's end.
    blocks = requests(graph, range(5))
    plan = plan_memory(blocks, 8)
    verify_packing(blocks, plan.chosen, alignment=8)
    assert plan.packed_bytes == fullest_step(blocks, 8)[1] == 16 + 64 + 128
    assert plan.stack_bytes >= plan.packed_bytes


def test_nested_residuals_and_an_input_residual():
    sizes = {"input": 32, "a": 16, "b": 48, "c": 16, "d": 32, "e": 24}
    graph = network(
        sizes,
        ("a", "input"), ("b", "a"), ("c", "b", "a"), ("d", "c", "input"), ("e", "d", "b"),
        outputs=("e",),
    )  # fmt: skip
    blocks = requests(graph, range(5))
    plan = plan_memory(blocks, 8)
    verify_packing(blocks, plan.chosen, alignment=8)
    assert plan.packed_bytes == fullest_step(blocks, 8)[1] == 32 + 48 + 16 + 32
    assert plan.proven


def test_packing_is_deterministic_and_sizes_keep_their_bytes():
    blocks = tuple(wanted(f"b{i}", *r) for i, r in enumerate(ABOVE_BOUND))
    first, _ = optimal_packing(blocks, 8)
    second, _ = optimal_packing(blocks, 8)
    assert first == second
    assert [b.size for b in first.blocks] == [r.size_bytes for r in blocks]


def test_effort_of_huge_instances_is_bounded_and_reported():
    state, blocks = 12345, []
    for i in range(150):
        numbers = []
        for span in (60, 60, 9999):
            state = (state * 1103515245 + 12345) % 2**31
            numbers.append(state // 7 % span)
        first, last = sorted(numbers[:2])
        blocks.append(wanted(f"b{i}", numbers[2] + 1, first, last))
    packed, proven = optimal_packing(blocks, 8, effort=0.01)
    verify_packing(blocks, packed, alignment=8)
    assert proven == (packed.peak_bytes == fullest_step(blocks, 8)[1])
    assert packed.peak_bytes <= bidirectional_stack(blocks, 8).peak_bytes


def test_solver_is_not_imported_when_a_heuristic_reaches_the_bound():
    code = (
        "import sys\n"
        "from dory_core.plan.block_ids import BlockId\n"
        "from dory_core.plan.blocks import Request\n"
        "from dory_core.planning.packing.one_memory import plan_memory\n"
        "blocks = Request(BlockId('a'), 8, 0, 1), Request(BlockId('b'), 8, 1, 2)\n"
        "plan = plan_memory(blocks, 8)\n"
        "assert plan.proven and plan.packed_bytes == 16\n"
        "assert not any(m.startswith('ortools') for m in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_nothing_to_place_and_two_blocks_of_one_name():
    assert plan_memory((), 8).chosen.peak_bytes == 0
    with pytest.raises(DoryError, match="several blocks of one name: a"):
        plan_memory((wanted("a", 1, 0, 0), wanted("a", 1, 1, 1)), 8)


@pytest.mark.parametrize(("start", "fits"), [(-8, False), (0, True), (24, True), (32, False)])
def test_blocks_that_stay_where_they_are_lie_within_the_room(start, fits):
    blocks = [wanted("stays", 40, 0, 1), wanted("moves", 16, 1, 2)]
    assert (fit_into(blocks, 8, 64, {BlockId("stays"): start}) is not None) is fits


@pytest.mark.parametrize(("first", "fits"), [(1, False), (2, True)])
def test_blocks_that_stay_where_they_are_do_not_overlap(first, fits):
    blocks = [wanted("stays", 40, 0, 1), wanted("too", 16, first, 2)]
    fixed = {BlockId("stays"): 0, BlockId("too"): 24}
    assert (fit_into(blocks, 8, 64, fixed) is not None) is fits


@given(lifetimes(), st.sampled_from((1, 4, 8)))
@settings(deadline=None, max_examples=60)
def test_repaired_packing_is_legal_and_as_high_as_it_may_be(blocks, alignment):
    start = optimal_packing(blocks, alignment)[0].peak_bytes
    stacked, end = {}, 0
    for block in blocks:
        stacked[block.id] = end
        end += -(-block.size_bytes // alignment) * alignment
    found = repaired(blocks, stacked, alignment, start)
    assert found is not None
    verify_packing(
        blocks,
        packing(blocks, found, alignment, "repaired"),
        alignment=alignment,
        capacity_bytes=start,
    )
    assert repaired(blocks, stacked, alignment, fullest_step(blocks, alignment)[1] - 1) is None


def with_bad_places(parts, is_bad):
    """Return blocks of some parts, three in each, and a packing that is too high in some parts."""
    wanted_blocks = [
        Request(BlockId(f"{name} {n}"), size, 4 * n + first, 4 * n + last)
        for n in range(parts)
        for name, size, first, last in (
            ("first", 40, 0, 1),
            ("second", 60, 0, 2),
            ("third", 40, 2, 3),
        )
    ]
    offsets = {}
    for block in wanted_blocks:
        name, n = block.id.tensor.split()
        bad = name == "second" and is_bad(int(n))
        offsets[block.id] = {"first": 0, "second": 40, "third": 0}[name] + 8 * bad
    return wanted_blocks, offsets


def test_bad_places_of_a_long_packing_are_repaired_without_its_other_blocks():
    # More blocks than the solver gets at once.
    wanted_blocks, offsets = with_bad_places(400, lambda n: n % 50 == 7)
    found = repaired(wanted_blocks, offsets, 4, 100)
    assert found is not None
    placed = packing(wanted_blocks, found, 4, "repaired")
    verify_packing(wanted_blocks, placed, alignment=4, capacity_bytes=100)
    moved = {block.tensor for block, offset in found.items() if offset != offsets[block]}
    assert all(abs(int(name.split()[1]) % 50 - 7) <= 1 for name in moved)


def test_a_bad_place_that_packings_share_is_solved_once(monkeypatch):
    sizes = []

    def counted(blocks, *rest, **options):
        sizes.append(len(blocks))
        return solve(blocks, *rest, **options)

    monkeypatch.setattr(repair, "solve", counted)
    repair._solved.cache_clear()
    for parts, bad in ((12, {3, 7}), (20, {11})):
        blocks, offsets = with_bad_places(parts, bad.__contains__)
        found = repaired(blocks, offsets, 4, 100)
        assert found is not None
        placed = packing(blocks, found, 4, "repaired")
        verify_packing(blocks, placed, alignment=4, capacity_bytes=100)
    assert len(sizes) == 1
    blocks, offsets = with_bad_places(12, {3}.__contains__)
    assert repaired(blocks, offsets, 4, 96) is None  # other places for other bytes
    assert len(sizes) > 1


@given(lifetimes(), st.sampled_from((1, 4, 8)), st.integers(0, 64))
@settings(deadline=None, max_examples=60)
def test_blocks_find_places_within_the_peak_that_is_told(blocks, alignment, more):
    least = optimal_packing(blocks, alignment)[0].peak_bytes
    peak = peak_within(blocks, alignment, least + more)
    assert fullest_step(blocks, alignment)[1] <= peak <= least + more
    assert peak_within(blocks, alignment, least - 1) >= least


def test_the_solver_gets_no_whole_network_where_a_number_of_bytes_is_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What passes through L2 is packed many times: only bad places are searched."""
    calls = list[object]()
    monkeypatch.setattr("dory_core.planning.packing.one_memory.repaired", lambda *_: None)
    monkeypatch.setattr(
        "dory_core.planning.packing.one_memory.solve", lambda *_: calls.append(0) or (None, False)
    )
    blocks = next(filter(_is_hard, (_random_blocks(seed) for seed in range(100))))
    bound = fullest_step(blocks, 8)[1]
    optimal_packing(blocks, 8, enough=bound)
    assert not calls
    optimal_packing(blocks, 8)
    assert calls


def _random_blocks(seed: int) -> list[Request]:
    random = Random(seed)
    starts = [random.randrange(20) for _ in range(30)]
    return [
        Request(BlockId(f"b{n}"), 8 * random.randrange(1, 40), at, at + random.randrange(6))
        for n, at in enumerate(starts)
    ]


def _is_hard(blocks: list[Request]) -> bool:
    """Return True when neither heuristic finds the least bytes."""
    bound = fullest_step(blocks, 8)[1]
    stack = bidirectional_stack(blocks, 8).peak_bytes
    return min(stack, peak_of(blocks, best_fit(blocks, 8, bound), 8)) > bound
