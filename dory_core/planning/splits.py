"""How each layer of a network is cut, and at which positions its parts run.

Decisions are many and differ in a few layers. Both are kept in rows of some layers, and what is
made of another one shares all rows that are alike: to change a layer, or to find those that differ,
takes time of the rows, not of the layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, compress
from operator import is_not
from typing import NamedTuple

from dory_core.tiling.outer import Split

# Layers of a row: about the square root of the layers of the deepest networks.
_ROW = 32


@dataclass(frozen=True, slots=True)
class Splits:
    """The split of each layer by its position, from 0 on. rows: of so many layers each."""

    rows: tuple[tuple[Split, ...], ...]

    @classmethod
    def of(cls, splits: Iterable[Split]) -> Splits:
        """Return the splits of layers in order."""
        every = tuple(splits)
        return cls(tuple(every[at : at + _ROW] for at in range(0, len(every), _ROW)))

    def __getitem__(self, n: int) -> Split:
        return self.rows[n // _ROW][n % _ROW]

    def __iter__(self) -> Iterator[Split]:
        return chain.from_iterable(self.rows)

    def having(self, n: int, split: Split) -> Splits:
        """Return the splits with another one of a layer."""
        at, k = divmod(n, _ROW)
        row = self.rows[at]
        row = (*row[:k], split, *row[k + 1 :])
        return Splits((*self.rows[:at], row, *self.rows[at + 1 :]))

    def differing(self, after: Splits) -> list[int]:
        """Return the layers that have different objects."""
        return [
            at * _ROW + k
            for at in _differing(self.rows, after.rows)
            for k in _differing(self.rows[at], after.rows[at])
        ]


def _differing(before: tuple[object, ...], after: tuple[object, ...]) -> Iterable[int]:
    return compress(range(len(after)), map(is_not, before, after))


class _Row(NamedTuple):
    """Layers of a row: how many parts each has, its first and its last position, and where the next
    row begins, counted from the beginning of the row."""

    parts: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]
    end: int


class Positions:
    """A position of each layer by that of the layer. last: of its last part, else of its first."""

    __slots__ = ("_rows", "_starts")

    def __init__(self, starts: list[int], rows: list[tuple[int, ...]]) -> None:
        self._starts, self._rows = starts, rows

    def __getitem__(self, n: int) -> int:
        at = n // _ROW
        return self._starts[at] + self._rows[at][n % _ROW]

    def __iter__(self) -> Iterator[int]:
        for start, row in zip(self._starts, self._rows, strict=False):
            for position in row:
                yield start + position


class Counter:
    """Counts the parts of layers. parts_of: how many parts a layer that is cut so has.

    The parts of layers in a chain take turns: the first ones of all, then the second ones.
    """

    def __init__(self, parts_of: Callable[[int, Split], int]) -> None:
        self._parts_of = parts_of
        self._splits = Splits(())
        self._rows: list[_Row] = []
        self._found = Positions([], []), Positions([], [])

    def positions(self, splits: Splits) -> tuple[Positions, Positions]:
        """Return the first and the last position of each layer.

        Nearly always all but a few layers are cut as they were the last time.
        """
        if splits is not self._splits:
            before = self._splits.rows or ((),) * len(splits.rows)
            rows = [*self._rows] or [_Row((), (), (), 0)] * len(splits.rows)
            for at in _differing(before, splits.rows):
                rows[at] = self._row(at * _ROW, splits.rows[at], before[at], rows[at])
            starts = list(accumulate((row.end for row in rows), initial=0))
            self._splits, self._rows = splits, rows
            self._found = (
                Positions(starts, [row.first for row in rows]),
                Positions(starts, [row.last for row in rows]),
            )
        return self._found

    def _row(
        self, start: int, splits: tuple[Split, ...], before: tuple[Split, ...], known: _Row
    ) -> _Row:
        """Return a row of layers. start: number of its first one. known: the row for the splits
        ``before``, of which there may be none."""
        parts = list(known.parts) or [0] * len(splits)
        for k in _differing(before, splits) if before else range(len(splits)):
            parts[k] = self._parts_of(start + k, splits[k])
        first, last, end = list[int](), list[int](), 0
        for split, count in zip(splits, parts, strict=True):
            begin = end - split.place * (count - 1)
            first.append(begin)
            last.append(begin + split.chain * (count - 1))
            end += count
        return _Row(tuple(parts), tuple(first), tuple(last), end)
