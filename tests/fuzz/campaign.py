"""Running cases in processes or on a Dask cluster, shrinking what is bad, and the table."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import FrameType, MappingProxyType

from dory_core.errors import DoryError
from tests.fuzz import fused, networks, tight
from tests.fuzz.cases import Case, Check, Verdict, check_in_folder, refusal
from tests.fuzz.damage import check_damage, damaged
from tests.fuzz.mutants import SUBJECTS, check_mutant
from tests.fuzz.networks import FORMATS, MOST_STEPS, Drawn, check_network

CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "network": check_network,
        "tight": tight.check_tight,
        "fused": fused.check_fused,
        "damage": check_damage,
        "mutant": check_mutant,
    }
)
#: What writes the network of a case, where its subject is a format.
DRAWN: Mapping[str, Callable[[Case, Path], Drawn]] = MappingProxyType(
    {"network": networks.drawn, "tight": tight.drawn, "fused": fused.drawn}
)
#: Seconds of a case; what takes longer is bad.
LIMITS_S: Mapping[str, int] = MappingProxyType(
    {"network": 1800, "tight": 1800, "fused": 1800, "damage": 30, "mutant": 300}
)
_BATCH = 8
_LARGEST_DAMAGE = 8

# What a bug of dory raises; the rest ends the campaign.
_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, BufferError, EOFError, LookupError),
    *(MemoryError, NameError, OSError, RuntimeError, StopIteration, TypeError, ValueError),
)


def subjects(kind: str) -> tuple[str, ...]:
    """Return what cases of a kind are about."""
    known = {"mutant": SUBJECTS, "tight": tight.FORMATS, "fused": fused.FORMATS}
    return tuple(sorted(known.get(kind, FORMATS)))


def cases(kinds: Iterable[str], first: int, only: Iterable[str] = ()) -> Iterator[Case]:
    """Yield cases without end: of each kind and subject in turn, seeds from ``first``.

    only: these subjects, none for all.
    """
    some = frozenset(only)
    listed = [(kind, one) for kind in kinds for one in subjects(kind) if not some or one in some]
    seed = first
    while True:
        yield from (Case(kind, subject, seed) for kind, subject in listed)
        seed += 1


def _late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError("not done in time")


def try_case(case: Case) -> Verdict:
    """Return what becomes of a case; whatever is raised is a bug."""
    start, timed = time.monotonic(), threading.current_thread() is threading.main_thread()
    if timed:
        signal.signal(signal.SIGALRM, _late)
        signal.alarm(LIMITS_S[case.kind])
    try:
        verdict = check_in_folder(case, CHECKS[case.kind])
    except DoryError as error:  # of what is drawn, before anything is tried
        verdict = refusal(case, error)
    except _ERRORS:
        verdict = Verdict(case, "traceback", traceback.format_exc(), bad=True)
    finally:
        if timed:
            signal.alarm(0)
    return replace(verdict, seconds=time.monotonic() - start)


def try_all(tried: Iterable[Case], workers: int, dask: str = "") -> Iterator[Verdict]:
    """Yield the verdicts of cases in their order, from processes or a Dask cluster."""
    if dask:
        from dask.distributed import Client

        with Client(dask) as client:
            while batch := list(islice(tried, _BATCH * max(len(client.ncores()), 1))):
                yield from client.gather(client.map(try_case, batch, pure=False))
    elif workers == 1:
        yield from map(try_case, tried)
    else:
        with ProcessPoolExecutor(workers) as pool:
            while batch := list(islice(tried, _BATCH * workers)):
                yield from pool.map(try_case, batch)


def shrunk(verdict: Verdict) -> Verdict:
    """Return the bad verdict of the smallest case of the same kind, subject and seed."""
    sizes = dict.fromkeys(DRAWN, MOST_STEPS) | {"damage": _LARGEST_DAMAGE}
    largest = sizes.get(verdict.case.kind, 0)
    for size in range(1, largest):
        smaller = try_case(replace(verdict.case, size=size))
        if smaller.bad:
            return smaller
    return verdict


def save(verdict: Verdict, folder: Path) -> Path:
    """Write the file of a bad case, what happened and how to see it again; return the folder."""
    place = folder / str(verdict.case).replace(":", "_")
    place.mkdir(parents=True, exist_ok=True)
    command = f"python -m tests.fuzz --case {verdict.case}"
    report = f"{command}\n\n{verdict.outcome}\n{verdict.text}\n"
    (place / "report.txt").write_text(report, encoding="utf-8")
    if verdict.case.kind == "damage":
        data, network = damaged(verdict.case)
        (place / network.path.name).write_bytes(data)
    elif verdict.case.kind in DRAWN:
        with contextlib.suppress(*_ERRORS):  # where drawing it is what fails, as the report says
            DRAWN[verdict.case.kind](verdict.case, place)
    return place


def table(counts: Mapping[tuple[str, str], Counter[str]]) -> str:
    """Return counts of outcomes by kind and subject, as text."""
    lines = []
    for (kind, subject), found in sorted(counts.items()):
        words = ", ".join(f"{number} {outcome}" for outcome, number in found.most_common())
        lines.append(f"{kind:8} {subject:9} {sum(found.values()):6}: {words}")
    return "\n".join(lines)
