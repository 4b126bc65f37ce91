"""Where the points of a comparison are planned: here, in processes, or on a Dask cluster.

The outcomes come in the order of the points and do not depend on where they were made.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed

from dory_core.api import ToolMissing, UsageError
from dory_report.comparison.points import Outcome, Point, Study, measure

#: Called with (points done, points in all).
Advance = Callable[[int, int], None]
#: Environment variable: seconds that a scheduler has to answer.
TIMEOUT_VARIABLE = "DORY_DASK_TIMEOUT_S"
_TIMEOUT_S = 20.0


def run_here(study: Study, points: Sequence[Point], advance: Advance) -> tuple[Outcome, ...]:
    """Plan one point after the other in this process."""
    outcomes = []
    for point in points:
        outcomes.append(measure(study, point))
        advance(len(outcomes), len(points))
    return tuple(outcomes)


def run_processes(
    study: Study, points: Sequence[Point], advance: Advance, processes: int
) -> tuple[Outcome, ...]:
    """Plan the points in processes of this machine."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(points)), mp_context=context) as pool:
        futures: list[Future[Outcome]] = [pool.submit(measure, study, point) for point in points]
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                advance(done, len(points))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return tuple(future.result() for future in futures)


def run_dask(
    study: Study, points: Sequence[Point], advance: Advance, address: str
) -> tuple[Outcome, ...]:
    """Plan the points on the Dask cluster whose scheduler is at ``address``.

    dory and the plugins must be installed where the workers run; the network travels with the
    study. Raises ToolMissing without the package, UsageError when nothing answers.
    """
    try:
        from dask import distributed
    except ImportError:
        raise ToolMissing(
            "--dask needs the package distributed, which is not installed",
            'pip install "dory-report[sweep]", or leave --dask out to use this machine alone',
        ) from None
    try:
        timeout_s = float(os.environ.get(TIMEOUT_VARIABLE, _TIMEOUT_S))
        client = distributed.Client(address, timeout=timeout_s, set_as_default=False)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"no Dask scheduler answers at {address}: {error}",
            "give the address that the scheduler prints, such as tcp://host:8786",
        ) from error
    with client, client.as_current():
        # The network goes to every worker once, not along with each point.
        shared = client.scatter(study, broadcast=True)
        futures = client.map(measure, [shared] * len(points), points, pure=False)
        for done, future in enumerate(distributed.as_completed(futures), 1):
            future.result()
            advance(done, len(points))
        return tuple(client.gather(futures))
