"""What the tables of the terminal say."""

from __future__ import annotations

import pytest

from dory_core.cli.tables.units import count_text


@pytest.mark.parametrize(
    ("value", "text"),
    [(987, "987"), (12_345, "12.3k"), (999_499, "999k"), (999_500, "1.00M"), (4_560_000, "4.56M")],
)
def test_counts_have_three_digits(value: int, text: str) -> None:
    assert count_text(value) == text
