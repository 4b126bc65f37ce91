"""No number of generated C that enters arithmetic is narrower than 32 bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from dory_core.ir import Window
from dory_core.testing.apps import build_app
from dory_core.testing.graphs import GraphBuilder
from tests.codegen.narrow import narrow_names, narrow_numbers
from tests.codegen.test_strict_warnings import every_kind
from tests.toy.chip import NAME, ToyChip, three_levels


@pytest.mark.parametrize(
    "text",
    [
        "typedef struct {\n  uint8_t first_o, end_o;\n} part_t;",
        "typedef struct {\n  int8_t first_o;\n  int16_t end_o[3];\n} part_t;",
        "static const uint16_t first_o[5] = {1, 2, 300, 4, 5}, end_o = 1;",
        "  const unsigned char first_o = 1, end_o;",
    ],
)
def test_narrow_numbers_are_found(text: str) -> None:
    assert "first_o" in narrow_names(text)


def test_pointers_flags_and_wide_numbers_are_no_finding() -> None:
    text = (
        "  uint8_t *const y = l1;\n  uint8_t is_signed;\nstatic const uint32_t x_h[2] = {1, 2};\n"
    )
    assert narrow_names(text + "static void f(const uint8_t *p, uint8_t dir);\n") == set()


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("chip", "budgets"),
    [(ToyChip(), {}), (three_levels(), {2: 2400}), (ToyChip(), {1: 3000})],
    ids=["resident", "streamed", "many tiles"],
)
def test_numbers_have_32_bits(chip: ToyChip, budgets: dict[int, int], tmp_path: Path) -> None:
    app = tmp_path / "app"
    build_app(every_kind().graph(), NAME, app, plugins=chip.plugins(), budgets=budgets)
    assert narrow_numbers(app) == {}


def repeated() -> GraphBuilder:
    """Return a network whose layers share functions and are cut into parts."""
    net = GraphBuilder((24, 12, 12))
    for _ in range(4):
        net.conv(24, Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    return net


def test_tables_of_parts_and_of_layers_have_32_bits(tmp_path: Path) -> None:
    app, chip = tmp_path / "app", three_levels()
    build_app(repeated().graph(), NAME, app, plugins=chip.plugins(), budgets={2: 9000})
    text = "".join(file.read_text() for file in app.glob("src/*.c"))
    assert "} part_t;" in text and "} row_t;" in text
    assert narrow_numbers(app) == {}
