"""How the copies of an operand are made, by what the link can do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dory_core.hardware.copies import AS_IT_IS, Carriage, CopySet, DmaCost, carry
from dory_core.hardware.links import Link

PLAIN = Link(1, 2, setup_cycles=40, bytes_per_cycle=4.0, row_cycles=2.0, issue_cycles=10)
WORDS = replace(PLAIN, alignment_bytes=4)
ROWS = replace(PLAIN, dimensions=1)

LINE = DmaCost(96, 1)
ODD = DmaCost(97, 1)
BOX = DmaCost(16 * 12, 12)
PIXELS = DmaCost(8 * 30, 30, planes=6)


def way(link: Link, shape: DmaCost, *starts: int, pitch: int = 0, room: bool = False) -> str:
    pitches = (pitch,) if pitch else ()
    return carry(link, CopySet([shape], starts or (0,), pitches, room), 1).by


@pytest.mark.parametrize("shape", [LINE, ODD, BOX, PIXELS])
def test_a_plain_link_makes_every_copy_in_one_command(shape: DmaCost) -> None:
    assert carry(PLAIN, CopySet([shape], (1, 3), (7,)), 1) is AS_IT_IS
    assert shape.charge(PLAIN, AS_IT_IS, 1).cycles == shape.cycles(PLAIN)


def test_an_aligned_copy_is_one_command_of_a_word_dma() -> None:
    assert way(WORDS, LINE, 0, 96) == "dma"
    assert way(WORDS, BOX, 0, 160, pitch=64) == "dma"


def test_odd_starts_lengths_and_pitches_are_for_the_cores() -> None:
    assert way(WORDS, LINE, 0, 97) == "cores"
    assert way(WORDS, ODD) == "cores"
    assert way(WORDS, BOX, 0, pitch=66) == "cores"
    assert way(WORDS, DmaCost(3 * 12, 12), 0, pitch=64, room=True) == "cores"


def test_a_single_row_is_rounded_up_where_what_lies_behind_it_is_nobodys() -> None:
    carriage = carry(WORDS, CopySet([ODD, LINE], (0,), (), may_round=True), 1)
    assert carriage == Carriage(multiple=4)
    assert ODD.charge(WORDS, carriage, 1).bytes == 100
    assert LINE.charge(WORDS, carriage, 1).bytes == 96


def test_cores_that_do_not_reach_the_memories_cannot_help() -> None:
    deaf = replace(WORDS, core_cycles_per_byte=0.0)
    assert way(deaf, LINE) == "dma"
    assert way(deaf, LINE, 2) == "impossible"


def test_without_a_dma_the_cores_share_the_bytes() -> None:
    link = replace(PLAIN, dma=False, core_cycles_per_byte=2.0)
    carriage = carry(link, CopySet([BOX], (0,)), 4)
    charge = BOX.charge(link, carriage, 4)
    assert carriage.by == "cores"
    assert (charge.cycles, charge.issue_cycles) == (16 * 12 * 2 / 4, 16 * 12 * 2 / 4)
    assert (charge.commands, charge.bytes) == (0, 0)


@pytest.mark.parametrize(
    ("link", "shape", "commands"),
    [
        (ROWS, BOX, 12),
        (ROWS, PIXELS, 30),
        (replace(PLAIN, dimensions=2), PIXELS, 6),
        (replace(PLAIN, max_bytes=96), LINE, 1),
        (replace(PLAIN, max_bytes=40), LINE, 3),
        (replace(WORDS, max_bytes=39), LINE, 3),  # 36 bytes each
        (replace(PLAIN, max_bytes=50), BOX, 4),  # three rows each
        (replace(ROWS, max_bytes=10), BOX, 24),
        (replace(PLAIN, max_bytes=100), PIXELS, 6),
        (replace(PLAIN, max_bytes=20), PIXELS, 6 * 3),
        (ROWS, DmaCost(64, 64, True, copies=4, planes=4), 64),
    ],
)
def test_pieces_are_counted_and_charged(link: Link, shape: DmaCost, commands: int) -> None:
    slow_cores = replace(link, core_cycles_per_byte=1000.0)
    carriage = carry(slow_cores, CopySet([shape], (0,), (32,)), 1)
    charge = shape.charge(link, carriage, 1)
    assert charge.commands == commands
    assert charge.issue_cycles == (commands * 10 if carriage.by == "pieces" else 10)
    assert charge.cycles >= commands * 40 + shape.bytes / 4
    assert carriage.by == "pieces" or commands == 1


def test_the_cores_copy_where_pieces_take_longer() -> None:
    assert way(ROWS, DmaCost(8 * 30, 30), pitch=32) == "cores"
    assert way(ROWS, DmaCost(200 * 30, 30), pitch=256) == "pieces"


@pytest.mark.parametrize("by", ("dma", "pieces"))
def test_a_busy_port_holds_up_data_but_neither_set_up_nor_slow_rows(by: str) -> None:
    link = replace(PLAIN, port_bytes_per_cycle=2.0)
    carriage = Carriage(by)
    plain, narrow = DmaCost(64, 64), DmaCost(6400, 64)
    assert plain.charge(link, carriage, 1) == plain.charge(PLAIN, carriage, 1)
    assert plain.charge(link, carriage, 1).cycles == 40 + 16 + 63 * 2
    assert narrow.charge(link, carriage, 1).cycles == 40 + 3200
    assert link.rate == 2.0 and replace(link, port_bytes_per_cycle=8.0).rate == 4.0


def test_a_busy_port_does_not_change_copies_of_single_elements_that_are_slower() -> None:
    link = replace(PLAIN, element_cycles=1.0, port_bytes_per_cycle=2.0)
    assert link.cycles(100, 100, single_elements=True) == 140
    assert replace(link, port_bytes_per_cycle=0.5).cycles(100, 100, single_elements=True) == 240
