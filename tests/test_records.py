"""Records behave as the frozen dataclasses of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import pytest

from dory_core import records


def _made(decorator: Any) -> tuple[Any, Any]:
    @decorator(frozen=True, slots=True)
    class Base:
        """Doc."""

        a: int
        b: str = dataclasses.field(default="b", compare=False)
        c: list[int] = dataclasses.field(default_factory=list, hash=False)
        d: int = dataclasses.field(default=4, repr=False)

    @decorator(frozen=True, slots=True, kw_only=True)
    class Derived(Base):
        """Doc."""

        e: tuple[int, ...]
        f: int = dataclasses.field(init=False, default=6)

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError(self.a)

    return Base, Derived


PAIRS = _made(records.dataclass), _made(dataclasses.dataclass)


@pytest.mark.parametrize("which", [0, 1])
def test_a_record_behaves_as_a_dataclass_of_the_standard_library(which: int) -> None:
    mine, other = (pair[which] for pair in PAIRS)
    assert str(inspect.signature(mine)) == str(inspect.signature(other))
    named = {"e": (1,)} if which else {}
    for values in ((1,), (1, "x"), (1, "x", [2], 5)):
        a, b = mine(*values, **named), other(*values, **named)
        assert repr(a) == repr(b)
        assert dataclasses.asdict(a) == dataclasses.asdict(b)
        assert hash(a) == hash(b)
        for new in ({"a": 2}, {"b": "y"}, {"c": [9]}, {"d": 0}):
            x, y = dataclasses.replace(a, **new), dataclasses.replace(b, **new)
            assert (x == a, hash(x) == hash(a)) == (y == b, hash(y) == hash(b))
        assert a != b and a.__eq__(b) is NotImplemented
    assert mine(1, **named).c is not mine(1, **named).c
    assert mine.__match_args__ == other.__match_args__
    assert mine.__slots__ == other.__slots__


def test_a_record_is_frozen_and_has_no_other_attributes() -> None:
    value = PAIRS[0][1](1, e=())
    with pytest.raises(dataclasses.FrozenInstanceError, match="'a'"):
        value.a = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="'a'"):
        del value.a
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.other = 2
    assert not hasattr(value, "__dict__")
    with pytest.raises(ValueError, match="-1"):
        PAIRS[0][1](-1, e=())
    with pytest.raises(TypeError):
        PAIRS[0][1](1, "b", [], 4, ())  # e is given by name alone


@records.dataclass(frozen=True, slots=True)
class Stored:
    """A record that pickle finds by its name."""

    a: int
    b: tuple[int, ...] = ()


def test_a_record_can_be_copied_and_stored() -> None:
    value = Stored(1, (2, 3))
    assert copy.deepcopy(value) == copy.copy(value) == pickle.loads(pickle.dumps(value)) == value


def test_methods_that_a_class_has_stay_and_identity_may_be_equality() -> None:
    @records.dataclass(frozen=True, slots=True)
    class Own:
        """Doc."""

        a: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    @records.dataclass(frozen=True, slots=True, eq=False)
    class Same:
        """Doc."""

        a: int

    assert repr(Own(1)) == "own" and Own(1) == Own(2) and hash(Own(1)) == 7
    assert Same(1) != Same(1)
