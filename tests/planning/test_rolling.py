"""Rolling buffers: every row is made once, and lies in the buffer while a layer reads it."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dory_core.planning.rolling import Input, Move, Turn, rolling_buffer, turns


def stripes(total: int, rows: int) -> list[tuple[int, int]]:
    return [(start, min(rows, total - start)) for start in range(0, total, rows)]


def reads(out: list[tuple[int, int]], total: int, kernel: int, stride: int, pad: int):
    """Input rows of output stripes, clipped at the border."""
    found = []
    for start, count in out:
        first = max(0, start * stride - pad)
        end = min(total, (start + count - 1) * stride - pad + kernel)
        first = min(first, total - 1)
        found.append((first, max(1, end - first)))
    return found


def replay(order, maker, writes, readers, buffer) -> None:
    """Execute a buffer row by row: a reader finds the rows that it wants."""
    held: dict[int, int] = {}  # row of the tensor by byte of the buffer
    made = 0
    for layer, part in order:
        if layer == maker:
            if part in buffer.moves:
                source, size = buffer.moves[part]
                held = {k: held[source + k] for k in range(size)}
            start, size = writes[part]
            assert start == made
            made += size
            assert buffer.writes[part] + size <= buffer.size_bytes
            held |= {buffer.writes[part] + k: start + k for k in range(size)}
        for (reader, operand), ranges in readers.items():
            if reader == layer:
                start, size = ranges[part]
                at = buffer.reads[reader, operand][part]
                assert [held.get(at + k) for k in range(size)] == [*range(start, start + size)]


layer_shapes = st.tuples(
    st.sampled_from([(1, 1, 0), (3, 1, 1), (3, 2, 1), (5, 1, 2), (2, 2, 0), (3, 3, 1), (1, 2, 0)]),
    st.integers(1, 4),
)


@given(st.integers(4, 24), st.lists(layer_shapes, min_size=2, max_size=5), st.integers(0, 2))
def test_readers_find_their_rows_and_no_row_is_made_twice(height, shapes, slack):
    totals = list(
        accumulate(
            shapes,
            lambda h, s: max(1, (h + 2 * s[0][2] - s[0][0]) // s[0][1] + 1),
            initial=height,
        )
    )
    writes = [stripes(total, s[1]) for total, s in zip(totals[1:], shapes, strict=True)]
    windows = [
        reads(out, before, *s[0])
        for out, before, s in zip(writes, totals[:-1], shapes, strict=True)
    ]
    inputs = [[Input(n - 1, windows[n])] if n else [] for n in range(len(shapes))]
    order = turns(writes, inputs)
    for n, out in enumerate(writes):
        assert [part for layer, part in order if layer == n] == [*range(len(out))]
    for n in range(len(shapes) - 1):
        readers = {(n + 1, 0): windows[n + 1]}
        buffer = rolling_buffer(order, n, writes[n], readers, slack)
        replay(order, n, writes[n], readers, buffer)


def residual(rows: int):
    """A sum of the input of a 3x3 convolution and its output, of 12 rows."""
    out = stripes(12, rows)
    writes = [out, out, out]
    window = reads(out, 12, 3, 1, 1)
    inputs = [[], [Input(0, window)], [Input(0, out), Input(1, out)]]
    return writes, inputs, {(1, 0): window, (2, 0): out}


def test_a_skip_tensor_stays_as_long_as_the_sum_reads_it():
    writes, inputs, readers = residual(1)
    order = turns(writes, inputs)
    # Row n of the convolution needs row n + 1; the sum of row n comes before row n + 2.
    assert order[:6] == (
        Turn(0, 0), Turn(0, 1), Turn(1, 0), Turn(2, 0), Turn(0, 2), Turn(1, 1),
    )  # fmt: skip
    buffer = rolling_buffer(order, 0, writes[0], readers)
    assert buffer.size_bytes == 3
    replay(order, 0, writes[0], readers, buffer)


def test_slack_saves_moves():
    writes, inputs, readers = residual(1)
    order = turns(writes, inputs)
    tight, loose = (rolling_buffer(order, 0, writes[0], readers, slack) for slack in (0, 3))
    assert tight.moves[3] == Move(1, 2)
    assert (len(tight.moves), len(loose.moves)) == (9, 2)
    assert loose.size_bytes == 6
    replay(order, 0, writes[0], readers, loose)


@pytest.mark.parametrize(("rows", "size"), [(1, 3), (2, 5), (4, 6), (12, 12)])
def test_higher_stripes_need_more_rows(rows, size):
    writes, inputs, readers = residual(rows)
    assert rolling_buffer(turns(writes, inputs), 0, writes[0], readers).size_bytes >= min(size, 12)
