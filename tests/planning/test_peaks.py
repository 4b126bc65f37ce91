"""What a decision needs is counted again only where it has changed: nothing else differs."""

from __future__ import annotations

import pytest

from dory_core.planning.decision import Decision
from dory_core.planning.sequence.peaks import Counted, LiveBytes, Peak
from tests.planning.networks import CASES, Case, mobile, plan_graph
from tests.toy.chip import three_levels

PLUGINS = three_levels().plugins()


def compared(monkeypatch: pytest.MonkeyPatch) -> list[Counted]:
    """Compare all that is counted with what is counted over all layers; return what was."""
    found, counted = list[Counted](), LiveBytes.counted

    def both(self: LiveBytes, decision: Decision, before: Counted | None = None) -> Counted:
        some = counted(self, decision, before)
        if before is not None:
            every = counted(self, decision)
            assert [one[:2] for one in some.peaks] == [one[:2] for one in every.peaks]
            here, there = Peak(some), Peak(every)
            assert [one.id for one in here.live] == [one.id for one in there.live]
            assert some.bytes == self.fullest(self.about(decision))
            found.append(some)
        return some

    monkeypatch.setattr(LiveBytes, "counted", both)
    return found


@pytest.mark.sample(24)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_counts_of_changed_layers_are_those_of_all_layers(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = compared(monkeypatch)
    plan = plan_graph(case.build(), PLUGINS, case.budgets[-1])
    assert found or not plan.transfers


@pytest.mark.slow
def test_counts_of_a_large_network_are_those_of_all_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compared(monkeypatch)
    plan_graph(mobile(), PLUGINS, 256 * 1024)
    assert len(found) > 20
    assert len({one.decision.splits for one in found}) > 10
