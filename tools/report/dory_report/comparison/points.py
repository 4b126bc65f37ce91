"""Points of a comparison: what is planned, and what comes out.

A point is independent of all others, so that any process on any machine may plan it; the outcome
depends on nothing but the point and the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from dory_core.api import DoesNotFit, NotSupported
from dory_core.tools import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPARE_VERSION = 1


@dataclass(frozen=True, slots=True)
class Study:
    """The network, and what all points share.

    Attributes:
        content: The bytes of the file, for workers that do not see it under ``network``.
        settings: Target options as text; ``TARGET.NAME`` is for one target only.
        budgets: Bytes per level number.
        least: Whether each point gets its front of bytes of L2 and cycles.
    """

    network: Path
    frontend: str
    content: bytes = field(repr=False)
    input_bits: int = 8
    input_signed: bool = False
    objective: str = "heuristic"
    settings: Mapping[str, str] = field(default_factory=dict)
    budgets: Mapping[int, int] = field(default_factory=dict)
    least: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """One target with the values that vary, in the order in which they were asked for.

    variation: (name, value) of budgets (``l1``, in bytes) and, by any other name, options of the
    target, as text.
    """

    target: str
    variation: tuple[tuple[str, str], ...] = ()

    @property
    def label(self) -> str:
        """``gap8`` or ``gap8 l1=22528 cores=4``."""
        return " ".join([self.target, *(f"{name}={value}" for name, value in self.variation)])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What planning one point gave.

    Attributes:
        supported, fits: As for ``dory check``; fits is None when a layer is not supported.
        reason, hint: First problem and hint, empty without one.
        deployable_reason: Why a plan that fits its budgets cannot be deployed.
        totals, operating_point, memory, layers: Parts of plan.json, empty without a plan; layers
            by index.
        traffic: Tiles, parts of layers, and what moves between the levels.
        front: Plans from the fastest to the one with the fewest bytes of L2, as in the document of
            ``dory check --least --json``; empty without ``--least``.
    """

    point: Point
    supported: bool
    fits: bool | None
    reason: str = ""
    hint: str = ""
    deployable_reason: str = ""
    totals: Mapping[str, Any] | None = None
    operating_point: Mapping[str, Any] | None = None
    traffic: Mapping[str, Any] | None = None
    memory: Mapping[str, Any] = field(default_factory=dict)
    layers: tuple[Mapping[str, Any], ...] = ()
    front: tuple[Mapping[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return a column of the document of ``dory compare --json``."""
        return {
            "target": self.point.target,
            "variation": dict(self.point.variation),
            "supported": self.supported,
            "fits": self.fits,
            "reason": self.reason,
            "hint": self.hint,
            "deployable": self.totals is not None and not self.deployable_reason,
            "deployable_reason": self.deployable_reason,
            "totals": None if self.totals is None else dict(self.totals),
            "operating_point": None if self.operating_point is None else dict(self.operating_point),
            "traffic": None if self.traffic is None else dict(self.traffic),
            "memory": dict(self.memory),
            "layers": [dict(layer) for layer in self.layers],
            "front": [dict(one) for one in self.front],
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """All outcomes, in the order of the points."""

    network: str
    frontend: str
    outcomes: tuple[Outcome, ...]

    @property
    def varied(self) -> tuple[str, ...]:
        """Names of what varies."""
        names = (name for o in self.outcomes for name, _ in o.point.variation)
        return tuple(dict.fromkeys(names))

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``dory compare --json``."""
        return {
            "version": COMPARE_VERSION,
            "network": self.network,
            "frontend": self.frontend,
            "varied": list(self.varied),
            "columns": [outcome.to_json() for outcome in self.outcomes],
        }


def grid(targets: Sequence[str], varied: Mapping[str, Sequence[str]]) -> tuple[Point, ...]:
    """Return a point for each target and each combination of values; the last name varies most."""
    combinations = product(*varied.values())
    variations = [tuple(zip(varied, values, strict=True)) for values in combinations]
    return tuple(Point(target, variation) for target in targets for variation in variations)


def measure(study: Study, point: Point) -> Outcome:
    """Plan one point. Raises UsageError for names and values that do not exist."""
    from dory_core.tools import load_plugins

    with _options(study, point) as options:
        front = _front(options) if study.least else ()
        try:
            plan = cli.plan_only(options, load_plugins())
        except NotSupported as error:
            return Outcome(point, False, None, error.message, error.hint)
        except DoesNotFit as error:
            return Outcome(point, True, False, error.message, error.hint, front=front)
    return replace(outcome_of(point, plan), front=front)


def _front(options: cli.CompileOptions) -> tuple[Mapping[str, Any], ...]:
    """Return the plans of a point from the fastest to the smallest; empty where there are none."""
    from dory_core.tools import least_ram, load_plugins

    budgets = {name: options.budgets.get(level) for name, level in cli.BUDGET_NAMES.items()}
    try:
        found = least_ram(
            options.network,
            options.target,
            frontend=options.frontend,
            input_bits=options.input_bits,
            input_signed=options.input_signed,
            l1=budgets["l1"],
            l2=budgets["l2"],
            l3=budgets["l3"],
            settings=options.settings,
            plugins=load_plugins(),
        )
    except (NotSupported, DoesNotFit):
        return ()
    return tuple(found.to_json()["points"])


@contextmanager
def _options(study: Study, point: Point) -> Iterator[cli.CompileOptions]:
    """Give the options of one point, with the network in a file of this machine."""
    from dory_core.tools import load_plugins

    settings = {}
    for name, value in study.settings.items():
        target, dot, key = name.rpartition(".")
        if not dot or target == point.target:
            settings[key] = value
    budgets = dict(study.budgets)
    for name, value in point.variation:
        if name in cli.BUDGET_NAMES:
            budgets[cli.BUDGET_NAMES[name]] = int(value)
        else:
            settings[name] = value
    with TemporaryDirectory(prefix="dory-compare-") as folder:
        network = study.network
        if not network.is_file():
            network = Path(folder, study.network.name)
            network.write_bytes(study.content)
        yield cli.compile_options(
            network,
            point.target,
            load_plugins(),
            frontend=study.frontend,
            input_bits=study.input_bits,
            input_signed=study.input_signed,
            budgets=budgets,
            settings=settings,
            objective=study.objective,
            plan_only=True,
        )


_LAYER_KEYS = (
    "index",
    "name",
    "kind",
    "macs",
    "engine",
    "kernel",
    "tiles",
    "l3_tiles",
    "bytes",
    "estimate",
)


def outcome_of(point: Point, plan: cli.Plan) -> Outcome:
    """Return the results of a point from its plan."""
    document = plan.to_json()
    layers = sorted(document["layers"], key=lambda layer: layer["index"])
    memory = {
        name: {"used": level["used"], "budget": level["budget"]}
        for name, level in document["memory"].items()
    }
    return Outcome(
        point,
        supported=True,
        fits=True,
        deployable_reason=document["reason"],
        totals=document["totals"],
        operating_point=document["operating_point"],
        traffic=_traffic(plan),
        memory=memory,
        layers=tuple({key: layer[key] for key in _LAYER_KEYS} for layer in layers),
    )


def _traffic(plan: cli.Plan) -> dict[str, Any]:
    """Return calls of kernels, runs of tile loops, and transfers with their bytes, of a plan."""
    counts = [step.traffic for step in plan.steps]
    return {
        "tiles": sum(count.calls for count in counts),
        "parts": sum(len(step.parts) for step in plan.steps),
        "l2_l1_transfers": sum(count.transfers for count in counts),
        "l2_l1_bytes": sum(count.bytes for count in counts),
        "l2_l1_stall_cycles": sum(step.estimate.stall_cycles for step in plan.steps),
        "l3_l2_transfers": len(plan.transfers),
        "l3_l2_bytes": sum(transfer.size for transfer in plan.transfers),
        "l3_l2_stall_cycles": sum(plan.timeline.stalls),
    }
