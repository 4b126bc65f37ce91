"""``python -m tests.fuzz``: the campaign, or one case of it."""

from __future__ import annotations

import argparse
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.campaign import CHECKS, cases, save, shrunk, subjects, table, try_all, try_case
from tests.fuzz.cases import Case
from tests.fuzz.explain import explained
from tests.fuzz.survivors import Reason


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--case", type=Case.parse, help="try this one, as a report names it")
    parser.add_argument("--explain", type=Path, help="say why mutants of this log survive")
    parser.add_argument("--kinds", default=",".join(CHECKS), help=f"of {', '.join(CHECKS)}")
    known = dict.fromkeys(one for kind in CHECKS for one in subjects(kind))
    parser.add_argument("--subjects", default="", help=f"of {', '.join(known)}; all by default")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--count", type=int, default=0, help="cases in all, 0: no limit")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--dask", default="", help="address of a scheduler, instead of processes")
    parser.add_argument("--log", type=Path, help="append a line of each case to this file")
    parser.add_argument("--out", type=Path, default=Path("fuzz"), help="where bad cases go")
    return parser.parse_args()


def _limited(options: argparse.Namespace) -> Iterator[Case]:
    end = time.monotonic() + options.seconds
    only = options.subjects.split(",") if options.subjects else ()
    for number, case in enumerate(cases(options.kinds.split(","), options.seed, only)):
        if time.monotonic() > end or number == options.count > 0:
            return
        yield case


def _explain(options: argparse.Namespace) -> None:
    """Print a line for each survivor of a log, and how many there are of each reason."""
    rows = (line.split("\t") for line in options.explain.read_text(encoding="utf-8").splitlines())
    counts: Counter[str] = Counter()
    for name, outcome, *_ in rows:
        case = Case.parse(name)
        if outcome == "survives" and case.seed >= options.seed:
            try:
                reason = explained(case)
            except LookupError as error:  # of another revision
                reason = Reason("another mutant now", str(error))
            counts[reason.name] += 1
            print(f"{name}\t{reason.name}\t{reason.evidence}", flush=True)
    for reason_name, count in counts.most_common():
        print(f"{count:5} {reason_name}")


def main() -> int:
    """Return 1 when something is bad."""
    options = _options()
    logging.getLogger("dory").setLevel(logging.ERROR)  # mutants are files edited by hand
    if options.explain is not None:
        _explain(options)
        return 0
    if options.case is not None:
        verdict = try_case(options.case)
        print(f"{verdict.case}: {verdict.outcome}: {verdict.text}")
        return int(verdict.bad)
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    bad = False
    for verdict in try_all(_limited(options), options.workers, options.dask):
        counts[verdict.case.kind, verdict.case.subject][verdict.outcome] += 1
        if options.log is not None:
            with options.log.open("a", encoding="utf-8") as log:
                print(verdict.line, file=log)
        if verdict.outcome in ("survives", "does not compile"):
            print(f"{verdict.case}: {verdict.outcome}: {verdict.text}", flush=True)
        if verdict.bad:
            bad = True
            small = shrunk(verdict)
            place = save(small, options.out)
            print(f"{small.case}: {small.outcome}: {small.text}\n  see {place}", flush=True)
    print(table(counts))
    return int(bad)


raise SystemExit(main())
