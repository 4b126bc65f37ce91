"""The reading of expressions as C: folded where values are known, equal to Python's in value."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dory_core.codegen.cexpr import Reader, c_type, closed_form, multiples, wrapped
from dory_core.expr import Expr, Var, ceil_div, evaluate, lookup, maximum, minimum
from dory_core.simulate.compiler import find_compiler

CHANNEL, ROW, PART = Var("o", 0, 4), Var("h", 0, 3), Var("part", 0, 2)
NAMES = {"o": "t.o", "h": "t.h", "part": "number"}
SMALL = st.integers(0, 9)
TABLES = st.lists(st.integers(-40, 40), min_size=5, max_size=5)


def expressions() -> st.SearchStrategy[Expr | int]:
    leaves: st.SearchStrategy[Expr | int] = st.one_of(
        st.integers(-9, 60),
        st.sampled_from([CHANNEL, ROW, PART]),
        st.builds(lambda values: lookup("table", values, CHANNEL), TABLES),
        st.builds(lambda values: lookup("other", values[:4], ROW), TABLES),
        st.builds(lambda values: lookup("column", values[:3], PART), TABLES),
        st.builds(
            lambda a, b: lookup("line", [a + b * k for k in range(5)], CHANNEL), SMALL, SMALL
        ),
    )

    def more(children: st.SearchStrategy[Expr | int]) -> st.SearchStrategy[Expr | int]:
        pairs = (children, children)
        return st.one_of(
            st.builds(lambda a, b: a + b, *pairs),
            st.builds(lambda a, b: a - b, *pairs),
            st.builds(lambda a, b: a * b, *pairs),
            st.builds(minimum, *pairs),
            st.builds(maximum, *pairs),
            st.builds(lambda a, b: (a < b) + 0, *pairs),
            st.builds(lambda a, b: (a == b) + 0, *pairs),
            st.builds(lambda a, k: a // k, children, st.integers(1, 7)),
            st.builds(lambda a, k: a % k, children, st.integers(1, 7)),
            st.builds(ceil_div, children, st.integers(1, 7)),
        )

    return st.recursive(leaves, more, max_leaves=6)


def program(values: list[Expr | int]) -> tuple[str, str]:
    """Return a C program that prints the values of expressions at every position, and what it has
    to print."""
    reader = Reader(NAMES)
    texts = [reader.text(value) for value in values]
    tables = [
        f"static const {c_type(numbers)} {name}[] = {{{', '.join(map(str, numbers))}}};"
        for name, numbers in reader.tables.items()
    ]
    columns = reader.columns or {"none": (0, 0, 0)}
    members = " ".join(f"{c_type(numbers)} {name};" for name, numbers in columns.items())
    rows = ", ".join(
        "{" + ", ".join(str(numbers[k]) for numbers in columns.values()) + "}" for k in range(3)
    )
    prints = "\n".join(f'printf("%ld ", (long)(int32_t)({text}));' for text in texts)
    source = f"""
#include <stdint.h>
#include <stdio.h>
typedef struct {{ {members} }} part_t;
static const part_t parts[] = {{{rows}}};
{chr(10).join(tables)}
int main(void) {{
  struct {{ uint32_t o, h; }} t;
  for (t.o = 0; t.o < 5; t.o++)
    for (t.h = 0; t.h < 4; t.h++)
      for (uint32_t number = 0; number < 3; number++) {{
        const part_t *const part = &parts[number];
        (void)part;
        {prints}
      }}
  return 0;
}}
"""
    expected = " ".join(
        str(int(evaluate(value, {"o": o, "h": h, "part": p})))
        for o, h, p in itertools.product(range(5), range(4), range(3))
        for value in values
    )
    return source, expected


def readable(value: Expr | int) -> bool:
    """Return whether C can compute an expression: no division of what may be negative."""
    try:
        Reader(NAMES).text(value)
    except ValueError:
        return False
    return True


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(values=st.lists(expressions().filter(readable), min_size=12, max_size=24))
def test_c_has_the_values_of_python(values: list[Expr | int], tmp_path: Path) -> None:
    source, expected = program(values)
    file, binary = tmp_path / "values.c", tmp_path / "values"
    file.write_text(source)
    command = [*find_compiler().command, "-std=c99", "-w", str(file), "-o", str(binary)]
    subprocess.run(command, check=True)
    printed = subprocess.run([str(binary)], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == expected


def test_known_operands_become_immediates() -> None:
    reader = Reader(NAMES)
    assert reader.text(12) == "12"
    assert reader.text(CHANNEL * 31 * 32) == "t.o * 992"
    assert reader.text((CHANNEL + 2) * 4 + 1) == "t.o * 4 + 9"
    assert reader.text(CHANNEL * 4 - CHANNEL * 4 + 3) == "3"


def test_sizes_of_the_border_are_choices_and_scaled_with_their_factor() -> None:
    reader = Reader(NAMES)
    channels = lookup("y_c", [20, 20, 20, 20, 12], CHANNEL)
    assert reader.text(channels) == "t.o == 4 ? 12 : 20"
    assert reader.atom(channels) == "(t.o == 4 ? 12 : 20)"
    assert reader.text(channels * 32) == "t.o == 4 ? 384 : 640"
    assert reader.text(channels * ROW) == "(t.o == 4 ? 12 : 20) * t.h"
    assert not reader.tables


def test_what_is_irregular_becomes_a_table_once() -> None:
    reader = Reader(NAMES)
    rows = [7, 9, 8, 9]
    assert reader.text(lookup("x_h", rows, ROW) * 16) == "x_h[t.h] * 16"
    assert reader.text(lookup("x_h", rows, ROW) + 1) == "x_h[t.h] + 1"
    assert reader.text(lookup("x_h", [1, 5, 2, 3], ROW)) == "x_h_2[t.h]"
    assert reader.tables == {"x_h": (7, 9, 8, 9), "x_h_2": (1, 5, 2, 3)}


def test_tables_that_are_multiples_of_another_one_are_read_from_it() -> None:
    """Bytes of constants follow from output channels; equal tables are one."""
    tables = {"w": (48, 24, 48, 36), "y_c": (4, 2, 4, 3), "x": (4, 2, 4, 3), "z": (8, 4, 8, 7)}
    reader = Reader(NAMES, struct="by_tile->", multiples=multiples(tables))
    read = {name: reader.text(lookup(name, values, ROW) * 2) for name, values in tables.items()}
    assert read == {
        "w": "by_tile->y_c[t.h] * 24",
        "y_c": "by_tile->y_c[t.h] * 2",
        "x": "by_tile->y_c[t.h] * 2",
        "z": "by_tile->z[t.h] * 2",
    }
    assert reader.tables == {"y_c": (4, 2, 4, 3), "z": (8, 4, 8, 7)}


def test_what_differs_between_parts_is_a_column_of_their_table() -> None:
    reader = Reader(NAMES)
    assert reader.text(lookup("x", [0, 4, 8], PART) + CHANNEL * 2) == "part->x + t.o * 2"
    assert reader.columns == {"x": (0, 4, 8)}
    assert not reader.tables


def test_divisions_of_what_may_be_negative_are_refused() -> None:
    with pytest.raises(ValueError, match="rounds towards zero"):
        Reader(NAMES).text((CHANNEL - 2) // 2)


def test_numbers_have_32_bits() -> None:
    assert c_type([0, 255]) == "uint32_t"
    assert c_type([0, (1 << 32) - 1]) == "uint32_t"
    assert c_type([-1, 127]) == "int32_t"
    for values in ([1 << 32], [-1, 1 << 31], [-(1 << 31) - 1]):
        with pytest.raises(ValueError, match="32 bits"):
            c_type(values)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0, 4, 8, 12], "i * 4"),
        ([3, 3, 3, 1], "i == 3 ? 1 : 3"),
        ([2, 0, 0, 0], "i == 0 ? 2 : 0"),
        ([0, 7, 15, 23], None),
        ([0, 7, 15, 23, 31], "i == 0 ? 0 : i * 8 - 1"),
        ([19, 21, 18], None),
        ([9, 10, 10, 5], None),
        ([9, 10, 10, 10, 5], "i == 0 ? 9 : (i == 4 ? 5 : 10)"),
        ([5, 8], "i * 3 + 5"),
        ([8, 5], "i == 1 ? 5 : 8"),
        ([-1, 0, 0, 0], "i == 0 ? -1 : 0"),
        ([-1, 1, 3, 5], None),
        ([1, 2, 4, 8, 16], None),
        ([0, 20, 40, 0, 20, 40], None),
    ],
)
def test_regular_values_are_computed(values: list[int], text: str | None) -> None:
    form = closed_form(values, "i")
    assert (form[0] if form is not None else None) == text


def test_long_statements_break_at_commas_and_strings_never() -> None:
    call = f"function({', '.join(['argument'] * 20)});"
    lines = wrapped(call, 2)
    assert len(lines) > 1 and max(map(len, lines)) <= 100
    assert " ".join(line.strip() for line in lines) == call
    assert all(line.startswith("      argument") for line in lines[1:])
    name = f'name_layer(0, "{"a, " * 50}");'
    assert wrapped(name, 2) == [f"  {name}"]
