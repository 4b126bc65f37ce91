"""Coverage of the kit: calls and shapes of each kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dory_core.ir import Layer
from dory_core.testing.kernel_cases import KernelCase
from dory_core.testing.kernels import Machine

__all__ = ["Ran", "coverage_lines", "ran_in"]

_MULTIPLES = (64, 32, 16, 8, 4, 2, 1)


@dataclass(slots=True)
class Ran:
    """The coverage of one kernel. Each set holds texts.

    Attributes:
        layers: Number of layers.
        calls: Number of calls.
        sizes: Sizes of windows.
        multiples: The largest power of two up to 64 that divides the channels (input, output) of a
            layer.
    """

    kernel: str
    layers: int = 0
    calls: int = 0
    kinds: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    sizes: set[str] = field(default_factory=set)
    strides: set[str] = field(default_factory=set)
    pads: set[str] = field(default_factory=set)
    multiples: set[str] = field(default_factory=set)

    def add(self, layer: Layer, calls: int) -> None:
        """Add a layer with the number of its calls."""
        self.layers += 1
        self.calls += calls
        op, x, y = layer.op, layer.inputs[0], layer.output
        self.kinds.add(op.kind)
        self.types.add(f"{x.type_name}>{y.type_name}")
        self.multiples.add(f"{_multiple(x.channels)}>{_multiple(y.channels)}")
        window = layer.op.sliding
        if window is not None:
            self.sizes.add("x".join(map(str, window.kernel)))
            self.strides.add("x".join(map(str, window.strides)))
            self.pads.add(",".join(map(str, window.pads)))
        elif op.reads_vector:
            self.sizes.add("x".join(map(str, (x.height, x.width))))

    def merge(self, other: Ran) -> None:
        """Add the coverage of the same kernel in another run."""
        self.layers += other.layers
        self.calls += other.calls
        for name in ("kinds", "types", "sizes", "strides", "pads", "multiples"):
            getattr(self, name).update(getattr(other, name))

    def to_json(self) -> dict[str, object]:
        """Return the coverage as a document."""
        document = {name: getattr(self, name) for name in self.__slots__}
        return {n: sorted(v) if isinstance(v, set) else v for n, v in document.items()}

    @classmethod
    def from_json(cls, document: dict[str, object]) -> Ran:
        """Return the coverage from a document of :meth:`to_json`."""
        fields = {n: set(v) if isinstance(v, list) else v for n, v in document.items()}
        return cls(**fields)  # type: ignore[arg-type]


def _multiple(channels: int) -> int:
    return next(m for m in _MULTIPLES if channels % m == 0)


def ran_in(machine: Machine) -> dict[str, Ran]:
    """Return the coverage of a machine by the names of kernels."""
    pairs = zip(machine.cases, machine.calls, strict=True)
    return gathered((case, calls) for case, calls in pairs if calls)


def gathered(runs: Iterable[tuple[KernelCase, int]]) -> dict[str, Ran]:
    """Return the coverage of cases with their calls, by the names of kernels."""
    found: dict[str, Ran] = {}
    for case, calls in runs:
        found.setdefault(case.kernel.name, Ran(case.kernel.name)).add(case.layer, calls)
    return found


def coverage_lines(runs: Sequence[Ran]) -> list[str]:
    """Return the runs as text, two lines or more for each kernel."""
    lines: list[str] = []
    for ran in runs:
        lines.append(f"{ran.kernel}: {ran.calls} calls on {ran.layers} layers")
        for title, values in (
            ("kinds", ran.kinds),
            ("types", ran.types),
            ("windows", ran.sizes),
            ("strides", ran.strides),
            ("pads", ran.pads),
            ("channels in multiples of", ran.multiples),
        ):
            if values:
                lines.append(f"  {title}: {' '.join(sorted(values, key=_natural))}")
    return lines


def _natural(text: str) -> tuple[object, ...]:
    numbers = text.replace(">", " ").replace("x", " ").replace(",", " ").split()
    return (0, *map(int, numbers)) if all(n.isdigit() for n in numbers) else (1, text)
