"""C expressions as text: folded where operands are known, and equal in value to what they say."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dory_core.codegen.cexpr import add, atom, channel_bytes, closed_form, comment, mul, string

NAMES = {"a": 7, "b[t.h].size": 3, "c": 11}
OPERANDS = st.one_of(st.integers(0, 50), st.sampled_from(sorted(NAMES)), st.just("a + c"))


def value(text: int | str) -> int:
    """Evaluate C text of this subset in Python."""
    source = str(text).replace("b[t.h].size", "b").replace("/", "//")
    return int(eval(source, {"a": 7, "b": 3, "c": 11}))


@given(st.lists(OPERANDS, min_size=1, max_size=5))
def test_product_and_sum_have_the_value_of_their_operands(operands: list[int | str]) -> None:
    product, total = 1, 0
    for operand in operands:
        product *= value(operand)
        total += value(operand)
    assert value(mul(*operands)) == product
    assert value(add(*operands)) == total


def test_known_operands_become_immediates() -> None:
    assert mul(3, 4) == 12
    assert mul("x", 0) == 0
    assert mul("x", 1) == "x"
    assert add(2, 3) == 5
    assert add("x", 0) == "x"


def test_bytes_of_channels_round_up_for_packed_elements() -> None:
    assert channel_bytes(5, 4) == 3
    assert channel_bytes(5, 16) == 10
    assert value(channel_bytes("a", 2)) == 2
    assert value(channel_bytes("a", 32)) == 28


def test_strings_and_comments_cannot_end_early() -> None:
    assert string('a"b\\c') == '"a\\042b\\134c"'
    assert string("a??/") == '"a\\077\\077/"'
    assert "*/" not in comment("evil */ int main() /* ")
    assert "\n" not in comment("two\nlines")
    assert not comment("ends with \\").endswith("\\")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0, 4, 8, 12], "(i * 4)"),
        ([3, 3, 3, 1], "(i == 3 ? 1 : 3)"),
        ([2, 0, 0, 0], "(i == 0 ? 2 : 0)"),
        ([0, 7, 15, 23], "(i == 0 ? 0 : (i * 8 - 1))"),
        ([9, 10, 10, 5], "(i == 0 ? 9 : (i == 3 ? 5 : 10))"),
        ([5, 8], "(i * 3 + 5)"),
        ([8, 5], "(i == 1 ? 5 : 8)"),
        ([1, 2, 4, 8, 16], None),
        ([0, 20, 40, 0, 20, 40], None),
    ],
)
def test_regular_values_are_computed(values: list[int], text: str | None) -> None:
    form = closed_form(values, "i")
    assert form == text
    if form is not None:
        python = re.sub(r"i == (\d+) \? (\d+) :", r"\2 if i == \1 else", str(form))
        assert [eval(python, {"i": i}) for i in range(len(values))] == values


def test_text_in_brackets_needs_no_more_of_them() -> None:
    assert atom("(a + b)") == "(a + b)"
    assert atom("(a) + (b)") == "((a) + (b))"
    assert mul("(i * 4)", 16) == "(i * 4) * 16"
