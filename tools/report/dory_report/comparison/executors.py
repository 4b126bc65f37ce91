"""Where the points of a comparison are planned: here, in processes, or on a Dask cluster.

The outcomes come in the order of the points and do not depend on where they were made.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any

from dory_core.api import DoryError, ToolMissing, UsageError
from dory_report.comparison.points import Outcome, Point, Study, measure

#: Called with (points done, points in all).
Advance = Callable[[int, int], None]
#: Environment variable: seconds that a scheduler has to answer.
TIMEOUT_VARIABLE = "DORY_DASK_TIMEOUT_S"
_TIMEOUT_S = 20.0
_ENDED = frozenset({"KilledWorker", "CancelledError", "FuturesCancelledError", "CommClosedError"})
_MISSING = ("ModuleNotFoundError", "ImportError", "deserializ")


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
    """Plan the points in processes of this machine, which an interrupt ends at once."""
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(min(processes, len(points)), mp_context=context) as pool:
        try:
            with _without_interrupts():  # which processes that start here inherit
                futures = [pool.submit(measure, study, point) for point in points]
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                advance(done, len(points))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in {*multiprocessing.active_children()} - others:
                process.kill()
            raise
        return tuple(future.result() for future in futures)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Let interrupts from the keyboard wait."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_dask(
    study: Study, points: Sequence[Point], advance: Advance, address: str
) -> tuple[Outcome, ...]:
    """Plan the points on the Dask cluster whose scheduler is at ``address``.

    dory and the plugins must be installed where the workers run; the network travels with the
    study.

    Raises:
        ToolMissing: Without the package.
        UsageError: When nothing answers, without workers, and when these lack dory or die.
    """
    try:
        from dask import distributed
    except ImportError:
        raise ToolMissing(
            "--dask needs the package distributed, which is not installed",
            'pip install "dory-report[sweep]", or leave --dask out to use this machine alone',
        ) from None
    timeout_s = float(os.environ.get(TIMEOUT_VARIABLE, _TIMEOUT_S))
    try:
        client = distributed.Client(address, timeout=timeout_s, set_as_default=False)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"no Dask scheduler answers at {address}: {error}",
            "give the address that the scheduler prints, such as tcp://host:8786",
        ) from error
    with _quiet(), client, client.as_current():
        _wait_for_workers(client, address, timeout_s)
        try:
            # The network goes to every worker once, not along with each point.
            shared = client.scatter(study, broadcast=True)
            futures = client.map(measure, [shared] * len(points), points, pure=False)
            _follow(client, futures, advance, address, timeout_s)
            return tuple(client.gather(futures))
        except DoryError:
            raise
        except Exception as error:
            raise _of_workers(error, address) from error


def _wait_for_workers(client: Any, address: str, timeout_s: float) -> None:
    try:
        client.wait_for_workers(1, timeout=timeout_s)
    except TimeoutError as error:
        raise _without_workers(address) from error


def _follow(
    client: Any, futures: Sequence[Any], advance: Advance, address: str, timeout_s: float
) -> None:
    """Tell how many points are planned; raises UsageError when all workers are gone."""
    from dask import distributed

    waiting = set(futures)
    while waiting:
        try:
            done, waiting = distributed.wait(
                waiting, timeout=timeout_s, return_when="FIRST_COMPLETED"
            )
        except TimeoutError as error:
            if not client.scheduler_info()["workers"]:
                raise _workers_died(address) from error
            continue
        for future in done:
            future.result()
        advance(len(futures) - len(waiting), len(futures))


def _without_workers(address: str) -> UsageError:
    return UsageError(
        f"the Dask scheduler at {address} has no workers",
        f"start some where dory is installed: dask worker {address}",
    )


def _workers_died(address: str) -> UsageError:
    return UsageError(
        f"workers of the Dask scheduler at {address} ended while they planned",
        "their logs say why; a worker with more memory, or --processes on this machine, may do",
    )


def _of_workers(error: Exception, address: str) -> Exception:
    """Return the error for workers that ended or lack dory, for others the error itself.

    The classes and texts are those of distributed, which wraps errors of workers in various ways.
    """
    text = " ".join(f"{type(error).__name__}: {error}".split())
    if type(error).__name__ in _ENDED:
        return _workers_died(address)
    if not any(mark in text for mark in _MISSING):
        return error
    return UsageError(
        f"a worker of the Dask scheduler at {address} cannot load dory: {text}",
        "install the same dory-core, dory-report and plugins where the workers run",
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out what distributed logs about workers: errors say it."""
    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
