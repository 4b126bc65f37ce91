"""How layers are cut, and positions: as of plain lists, in time of what changed."""

from __future__ import annotations

import random

from dory_core.planning.splits import Counter, Splits
from dory_core.tiling.outer import Split


def cut(n: int) -> Split:
    return Split(stripes=1 + n % 3, groups=1 + n % 2)


def test_a_change_shows_in_its_layer_alone() -> None:
    for layers in (1, 31, 32, 33, 200):
        before = Splits.of(map(cut, range(layers)))
        assert list(before) == [before[n] for n in range(layers)] == list(map(cut, range(layers)))
        for n in {0, layers // 2, layers - 1}:
            after = before.having(n, Split(stripes=9))
            assert list(after) == [*map(cut, range(n)), Split(9), *map(cut, range(n + 1, layers))]
            assert before.differing(after) == [n]
            assert after != before == after.having(n, cut(n))


def test_positions_are_those_of_all_parts_in_order() -> None:
    rng = random.Random(1)
    counter = Counter(lambda n, split: split.stripes * split.groups)
    splits = Splits.of(map(cut, range(100)))
    for _ in range(30):
        splits = splits.having(rng.randrange(100), Split(rng.randrange(1, 9), rng.randrange(1, 5)))
        first, last = counter.positions(splits)
        parts = [split.stripes * split.groups for split in splits]
        ends = [sum(parts[: n + 1]) for n in range(100)]
        assert list(first) == [first[n] for n in range(100)] == [0, *ends[:-1]]
        assert list(last) == [last[n] for n in range(100)] == [end - 1 for end in ends]


def test_positions_found_before_stay_as_they_were() -> None:
    counter = Counter(lambda n, split: split.stripes)
    splits = Splits.of([Split()] * 50)
    first, last = counter.positions(splits)
    counter.positions(splits.having(3, Split(stripes=7)))
    assert list(first) == list(last) == list(range(50))


def test_a_step_counts_the_parts_of_as_many_layers_in_any_depth() -> None:
    counted = []
    for layers in (100, 3000):
        asked: list[int] = []

        def parts(n: int, split: Split, asked: list[int] = asked) -> int:
            asked.append(n)
            return split.stripes

        counter = Counter(parts)
        splits = Splits.of([Split()] * layers)
        counter.positions(splits)
        assert asked == list(range(layers))
        asked.clear()
        after = splits.having(70, Split(stripes=2))
        counter.positions(after)
        counted.append(len(asked))
        assert sum(a is not b for a, b in zip(splits.rows, after.rows, strict=True)) == 1
    assert counted[0] == counted[1] < 50
