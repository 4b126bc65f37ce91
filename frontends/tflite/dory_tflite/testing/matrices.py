"""Random products of matrices."""

from __future__ import annotations

from dory_tflite.testing.draft import Draft


def batch_matmul(draft: Draft, x: int) -> int:
    """Add a product of the matrices of an image, its rows, with others, of either side."""
    _, heads, rows, columns = draft.shape(x)
    is_first, turned = draft.flag(), draft.flag()
    height, width = (columns, rows) if turned else (rows, columns)
    other, adjoint = _other(draft, x, width if is_first else height, is_first)
    found = draft.shape(other)
    size = found[-2] if adjoint == is_first else found[-1]
    spread = draft.quantisation(x)[0] * draft.quantisation(other)[0] * 4000
    total = max(heads, found[1] if len(found) == 4 else 1)
    shape = (1, total, height, size) if is_first else (1, total, size, width)
    y = draft.output(shape, spread * max(rows, columns) ** 0.5)
    operands, flags = [x, other], [turned, adjoint]
    if not is_first:
        operands.reverse()
        flags.reverse()
    draft.builder.operator("BATCH_MATMUL", operands, [y], AdjX=flags[0], AdjY=flags[1])
    return y


def _other(draft: Draft, x: int, inner: int, is_second: bool) -> tuple[int, bool]:
    """Return an operand of ``inner`` rows (columns of a first one), and whether it is turned."""
    _, heads, rows, columns = draft.shape(x)
    choice, adjoint = draft.number(0, 3), draft.flag()
    if choice == 0 and inner in (rows, columns):
        return x, (inner == columns) == is_second
    size = draft.number(1, 9)
    matrix = (inner, size) if is_second != adjoint else (size, inner)
    if choice == 1:
        values = draft.stored(matrix)
        return draft.builder.constant(values, [draft.scale()], [draft.zero_point()]), adjoint
    leading = (1, heads) if choice == 2 or heads == 1 else (1, 1)
    other = draft.input((*leading, *matrix), draft.scale(), draft.zero_point())
    return other, adjoint
