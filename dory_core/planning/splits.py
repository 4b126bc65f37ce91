"""How each layer of a network is cut, and at which positions its parts run.

Decisions are many and differ in a few layers. Both are kept in rows of some layers, and what is
made of another one shares all rows that are alike: to change a layer, or to find those that differ,
takes time of the rows, not of the layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, chain, compress
from operator import is_not, itemgetter

from dory_core.records import dataclass
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


class Positions:
    """A position of each layer by that of the layer. last: of its last part, else of its first."""

    __slots__ = ("_last", "_rows", "_starts")

    def __init__(self, starts: list[int], rows: list[tuple[int, ...]], last: bool) -> None:
        self._starts, self._rows, self._last = starts, rows, int(last)

    def __getitem__(self, n: int) -> int:
        at = n // _ROW
        return self._starts[at] + self._rows[at][n % _ROW + self._last] - self._last

    def __iter__(self) -> Iterator[int]:
        for start, row in zip(self._starts, self._rows, strict=False):
            for end in row[1:] if self._last else row[:-1]:
                yield start + end - self._last


class Counter:
    """Counts the parts of layers. parts_of: how many parts a layer that is cut so has."""

    def __init__(self, parts_of: Callable[[int, Split], int]) -> None:
        self._parts_of = parts_of
        self._splits = Splits(())
        self._rows: list[tuple[int, ...]] = []  # of each row of layers: where each begins and ends
        self._found = Positions([], [], False), Positions([], [], True)

    def positions(self, splits: Splits) -> tuple[Positions, Positions]:
        """Return the first and the last position of each layer.

        Nearly always all but a few layers are cut as they were the last time.
        """
        if splits is not self._splits:
            before = self._splits.rows or ((),) * len(splits.rows)
            rows = [*self._rows] or [(0,)] * len(splits.rows)
            for at in _differing(before, splits.rows):
                counts = map(self._parts_of, range(at * _ROW, (at + 1) * _ROW), splits.rows[at])
                rows[at] = tuple(accumulate(counts, initial=0))
            starts = list(accumulate(map(itemgetter(-1), rows), initial=0))
            self._splits, self._rows = splits, rows
            self._found = Positions(starts, rows, False), Positions(starts, rows, True)
        return self._found
