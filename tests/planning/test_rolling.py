"""Rolling buffers: every row is made once, and lies in the buffer while a layer reads it."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dory_core.planning.chains.rolling import (
    MovedBytes,
    Needs,
    Turn,
    turns,
    turns_of,
)
from dory_core.planning.chains.shared_rows import (
    Rolling,
    buffers_of,
    rolling_buffer,
    shared_rows,
)


def reads(starts: tuple[int, ...], total: int, before: int, window: tuple[int, int, int]):
    """First input row and number of input rows of output stripes, clipped at the border."""
    return [rows(a, b - a, before, window) for a, b in pairwise((*starts, total))]


def rows(start: int, count: int, total: int, window: tuple[int, int, int]) -> tuple[int, int]:
    kernel, stride, pad = window
    first = max(0, start * stride - pad)
    end = min(total, (start + count - 1) * stride - pad + kernel)
    first = min(first, total - 1)
    return first, max(1, end - first)


def writes_of(starts: tuple[int, ...], total: int) -> list[tuple[int, int]]:
    return [(a, b - a) for a, b in pairwise((*starts, total))]


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


@given(st.integers(4, 24), st.lists(layer_shapes, min_size=2, max_size=5))
def test_readers_find_their_rows_and_no_row_is_made_twice(height, shapes):
    windows = [window for window, _ in shapes]
    totals = [
        *accumulate(windows, lambda h, w: max(1, (h + 2 * w[2] - w[0]) // w[1] + 1), initial=height)
    ]

    def until(n: int, _: int, start: int, count: int) -> int:
        return sum(rows(start, count, totals[n], windows[n]))

    makers = [[n - 1] if n else [] for n in range(len(shapes))]
    needs = Needs(totals[1:], [most for _, most in shapes], [1] * len(shapes), makers, until)
    starts = turns(needs)
    order = turns_of(needs, starts)
    for n, (total, (_, most)) in enumerate(zip(totals[1:], shapes, strict=True)):
        assert [part for layer, part in order if layer == n] == [*range(len(starts[n]))]
        assert all(0 < count <= most for _, count in writes_of(starts[n], total))
    for n in range(len(shapes) - 1):
        readers = {(n + 1, 0): reads(starts[n + 1], totals[n + 2], totals[n + 1], windows[n + 1])}
        writes = writes_of(starts[n], totals[n + 1])
        buffer = rolling_buffer(order, Rolling(n, writes, readers))
        replay(order, n, writes, readers, buffer)


def residual(most: int):
    """A sum of the input of a 3x3 convolution and its output, of 12 rows."""
    window = (3, 1, 1)

    def until(n: int, _: int, start: int, count: int) -> int:
        return sum(rows(start, count, 12, window)) if n == 1 else start + count

    needs = Needs([12] * 3, [most] * 3, [1] * 3, [[], [0], [0, 1]], until)
    starts = turns(needs)
    order = turns_of(needs, starts)
    writes = [writes_of(one, 12) for one in starts]
    return order, writes, {(1, 0): reads(starts[1], 12, 12, window), (2, 0): writes[2]}


def test_a_skip_tensor_stays_as_long_as_the_sum_reads_it():
    order, writes, readers = residual(1)
    # Row n of the convolution needs row n + 1; the sum of row n comes before row n + 2.
    assert order[:6] == (
        Turn(0, 0), Turn(0, 1), Turn(1, 0), Turn(2, 0), Turn(0, 2), Turn(1, 1),
    )  # fmt: skip
    buffer = rolling_buffer(order, Rolling(0, writes[0], readers))
    assert buffer.size_bytes == 3
    replay(order, 0, writes[0], readers, buffer)


def test_rows_that_are_read_again_move_before_each_stripe_that_has_no_room():
    order, writes, readers = residual(1)
    buffer = rolling_buffer(order, Rolling(0, writes[0], readers))
    assert buffer.moves[3] == MovedBytes(1, 2)
    assert len(buffer.moves) == 9


@pytest.mark.parametrize(("most", "size"), [(1, 3), (2, 4), (4, 6), (12, 12)])
def test_a_buffer_holds_the_rows_of_a_stripe_and_those_around_it(most, size):
    order, writes, readers = residual(most)
    assert rolling_buffer(order, Rolling(0, writes[0], readers)).size_bytes == size


def replay_shared(order, tensors, buffers) -> None:
    """Execute a buffer of several tensors: a part reads all of its rows, then it writes."""
    held: dict[int, tuple[int, int]] = {}  # maker and row of a tensor by byte of the buffer
    for layer, part in order:
        for tensor in tensors:
            if part in buffers[tensor.maker].moves and layer == tensor.maker:
                source, size = buffers[tensor.maker].moves[part]
                held = {k: held[source + k] for k in range(size) if source + k in held}
        for tensor in tensors:
            for key, ranges in tensor.readers.items():
                if key[0] == layer:
                    start, size = ranges[part]
                    at = buffers[tensor.maker].reads[key][part]
                    found = [held.get(at + k) for k in range(size)]
                    assert found == [(tensor.maker, start + k) for k in range(size)]
        for tensor in tensors:
            if layer == tensor.maker:
                buffer, (start, size) = buffers[tensor.maker], tensor.writes[part]
                assert 0 <= buffer.writes[part] <= buffer.size_bytes - size
                held |= {buffer.writes[part] + k: (layer, start + k) for k in range(size)}


def block(most: int, branch: tuple[int, int, int], after: tuple[int, int, int]):
    """A sum of the input of a convolution and its output, read by another one, of 24 rows."""
    windows = {1: branch, 3: after}

    def until(n: int, _: int, start: int, count: int) -> int:
        return sum(rows(start, count, 24, windows.get(n, (1, 1, 0))))

    needs = Needs([24] * 4, [most] * 4, [1] * 4, [[], [0], [0, 1], [2]], until)
    starts = turns(needs)
    order = turns_of(needs, starts)
    writes = [writes_of(one, 24) for one in starts]
    x = {(1, 0): reads(starts[1], 24, 24, branch), (2, 0): writes[2]}
    y = {(3, 0): reads(starts[3], 24, 24, after)}
    return order, writes, x, y


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("branch", [(1, 1, 0), (3, 1, 1)])
@pytest.mark.parametrize("after", [(1, 1, 0), (3, 1, 1)])
def test_a_sum_is_written_before_rows_that_are_read_again(most, branch, after):
    order, writes, x, y = block(most, branch, after)
    tensors = [Rolling(0, writes[0], x, [(2, 0)]), Rolling(2, writes[2], y)]
    buffers = buffers_of(shared_rows(order, tensors))
    replay_shared(order, tensors, buffers)
    apart = [rolling_buffer(order, Rolling(n, writes[n], one)) for n, one in ((0, x), (2, y))]
    assert buffers[0].size_bytes < sum(one.size_bytes for one in apart)
    assert buffers[0].members == buffers[2].members == (0, 2)


def test_an_output_lies_a_row_before_an_input_that_a_window_reads_again():
    order, writes, x, y = block(1, (3, 1, 1), (3, 1, 1))
    tensors = [Rolling(0, writes[0], x, [(2, 0)]), Rolling(2, writes[2], y)]
    found = shared_rows(order, tensors)[0]
    # The convolution reads rows n to n + 2 after the sum of row n, which lies where row n - 1 was.
    assert (found.before, found.size_bytes) == ((0, 1), 5)
    over = shared_rows(order, [tensors[0]._replace(readers={(2, 0): writes[2]}), tensors[1]])[0]
    assert over.before == (0, 0)


def test_rows_that_nothing_has_written_never_move():
    """The sum would lie two rows before x, and rows would move before it has written the second."""
    order, writes, x, y = block(1, (5, 1, 2), (1, 1, 0))
    tensors = [Rolling(0, writes[0], x, [(2, 0)]), Rolling(2, writes[2], y)]
    assert buffers_of(shared_rows(order, tensors))[0] == rolling_buffer(
        order, Rolling(0, writes[0], x)
    )


def test_tensors_that_save_nothing_together_keep_their_buffers():
    order, writes, x, y = block(1, (3, 1, 1), (3, 1, 1))
    tensors = [Rolling(0, writes[0], x), Rolling(2, writes[2], y)]
    buffers = buffers_of(shared_rows(order, tensors))
    assert buffers[0] == rolling_buffer(order, Rolling(0, writes[0], x)) and not buffers[2].members
