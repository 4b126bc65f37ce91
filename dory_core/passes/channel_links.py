"""Which channels of the tensors of a network stay or go together, and which ones are needed.

A depthwise layer, a sum or a pool has as many channels behind it as before it: these stay or go
together. Layers that read all channels for each output need those that make a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dory_core.ir import Graph, Layer, Tensor, ops
from dory_core.ir.intervals import Interval, taps_of

_Ints = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]

#: Layers of which every output channel reads every input channel.
Dense = ops.Conv | ops.Linear | ops.ConvTranspose


def is_dense(layer: Layer) -> bool:
    """Whether the inputs and outputs of a layer may lose channels apart from each other."""
    op = layer.op
    return isinstance(op, ops.Linear | ops.ConvTranspose) or (
        isinstance(op, ops.Conv) and op.groups == 1
    )


def links(layer: Layer) -> Iterator[tuple[int, _Ints, _Ints]] | None:
    """Return (input number, its channels, channels of the output) that stay or go together.

    None when the layer needs all channels of all its tensors. Of a dense layer nothing is linked.
    """
    op, source, output = layer.op, layer.inputs[0], layer.output
    same = np.arange(source.channels)
    if is_dense(layer):
        return iter(())
    if isinstance(op, ops.Conv):
        return _groups(op.groups, source.channels, output.channels)
    if isinstance(op, ops.MaxPool | ops.AvgPool | ops.Lut | ops.Resize):
        return iter([(0, same, same)])
    if isinstance(op, ops.Pairwise):
        wide = [n for n, one in enumerate(layer.inputs) if one.channels == output.channels]
        return iter([(n, same, same) for n in wide])
    if isinstance(op, ops.Concat):
        return _joined(op, layer.inputs)
    if isinstance(op, ops.Slice) and abs(op.step[0]) == 1:
        taken = np.arange(op.size[0])
        return iter([(0, op.begin[0] + taken * op.step[0], taken)])
    if isinstance(op, ops.Pad):
        return iter([(0, same, op.before[0] + same)])
    if isinstance(op, ops.Transpose) and op.perm[0] == 0:
        return iter([(0, same, same)])
    if isinstance(op, ops.Reshape):
        return _reshaped(source, output)
    return None


def _groups(groups: int, inputs: int, outputs: int) -> Iterator[tuple[int, _Ints, _Ints]]:
    """Link all channels of each group."""
    before, behind = np.arange(inputs), np.arange(outputs)
    fan_in, fan_out = inputs // groups, outputs // groups
    yield 0, before, before // fan_in * fan_out
    yield 0, behind // fan_out * fan_in, behind


def _joined(op: ops.Concat, inputs: tuple[Tensor, ...]) -> Iterator[tuple[int, _Ints, _Ints]]:
    at = 0
    for number, source in enumerate(inputs):
        channels = np.arange(source.channels)
        yield number, channels, channels + at
        at += source.channels if op.axis == 0 else 0


def _reshaped(source: Tensor, output: Tensor) -> Iterator[tuple[int, _Ints, _Ints]] | None:
    """Link what a new shape puts together; None where pixels are cut in the middle."""
    before, behind = source.channels, output.channels
    if max(before, behind) % min(before, behind):
        return None
    wider = np.arange(max(before, behind))
    return iter([(0, wider % before, wider % behind)])


@dataclass(slots=True)
class Kept:
    """The channels that stay, grown until nothing more is needed.

    classes: number of the class of each channel of each tensor; channels of a class stay or go
    together. stays: whether a class stays.
    """

    classes: dict[str, _Ints]
    stays: _Mask

    @classmethod
    def of(cls, graph: Graph) -> Kept:
        """Return the classes of a network, of which only those stay that have to."""
        starts, count = {}, 0
        for name, tensor in graph.tensors.items():
            starts[name] = count
            count += tensor.channels
        pairs, fixed = [], [*graph.sources, *graph.sinks]
        for layer in graph.layers:
            linked = links(layer)
            if linked is None:
                fixed += [*layer.op.inputs, layer.op.output]
                continue
            for number, before, behind in linked:
                first = starts[layer.op.inputs[number]] + before
                pairs.append((first, starts[layer.op.output] + behind))
            fixed += _whole_operands(layer)
        labels = _components(count, pairs)
        classes = {
            name: labels[start : start + graph.tensors[name].channels]
            for name, start in starts.items()
        }
        stays = np.zeros(count, np.bool_)
        for name in fixed:
            stays[classes[name]] = True
        return cls(classes, stays)

    def mask(self, tensor: str) -> _Mask:
        """Return which channels of a tensor stay."""
        return self.stays[self.classes[tensor]]

    def add(self, tensor: str, channels: _Mask | _Ints) -> bool:
        """Let channels stay, with all that go with them; return whether that is news."""
        wanted = self.classes[tensor][channels]
        news = not self.stays[wanted].all()
        self.stays[wanted] = True
        return news

    def grow(self, graph: Graph, intervals: Mapping[str, Interval]) -> None:
        """Let everything stay that a channel which stays depends on."""
        dense = [layer for layer in reversed(graph.layers) if is_dense(layer)]
        news = True
        while news:
            news = False
            for layer in dense:
                news |= self.add(layer.op.inputs[0], self._read(layer, intervals))

    def _read(self, layer: Layer, intervals: Mapping[str, Interval]) -> _Mask:
        """Return the input channels that make a difference to outputs that stay."""
        name = layer.op.output
        rows = self.mask(name) & ~intervals[name].constant
        return needed_inputs(layer, rows, intervals[layer.op.inputs[0]])

    def fill(
        self, graph: Graph, multiples: Mapping[str, int], intervals: Mapping[str, Interval]
    ) -> bool:
        """Let more channels stay until each tensor has a multiple; return whether there are news.

        Preferred are classes whose channels are constant, for nothing has to be read for those.
        """
        cost = np.zeros(len(self.stays), np.int64)
        for name, classes in self.classes.items():
            np.add.at(cost, classes, ~intervals[name].constant)
        news = False
        for name in graph.tensors:
            classes = self.classes[name]
            for candidate in classes[np.argsort(cost[classes], kind="stable")]:
                count = int(self.mask(name).sum())
                if count == len(classes) or (count and count % multiples[name] == 0):
                    break
                news |= not self.stays[candidate]
                self.stays[candidate] = True
        return news


def _whole_operands(layer: Layer) -> list[str]:
    """Return the operands of a pair whose one channel serves all channels of the output."""
    if not isinstance(layer.op, ops.Pairwise):
        return []
    return [one.name for one in layer.inputs if one.channels != layer.output.channels]


def _components(count: int, pairs: Iterable[tuple[_Ints, _Ints]]) -> _Ints:
    """Return for each of ``count`` nodes the lowest node that it is joined with."""
    labels = np.arange(count)
    joined = [(a, b) for a, b in pairs]
    if not joined:
        return labels
    first, second = (np.concatenate(ends) for ends in zip(*joined, strict=True))
    while True:
        low = np.minimum(labels[first], labels[second])
        after = labels.copy()
        np.minimum.at(after, first, low)
        np.minimum.at(after, second, low)
        after = after[after]
        if (after == labels).all():
            return labels
        labels = after


def needed_inputs(layer: Layer, rows: _Mask, source: Interval) -> _Mask:
    """Return which input channels of a dense layer the outputs ``rows`` cannot do without.

    A channel that changes is needed where a weight is not zero. A constant one is not, unless its
    sum depends on the place: at the border of the image padding stands for it.
    """
    op, tensor = layer.op, layer.inputs[0]
    assert isinstance(op, Dense)
    if isinstance(op, ops.Linear):
        weights = op.weights.values[rows].reshape(-1, tensor.channels)
        return np.asarray(~source.constant & weights.any(axis=0))
    by_tap = op.weights.values[rows].any(axis=0).reshape(tensor.channels, -1)
    if isinstance(op, ops.ConvTranspose):
        depends = ~(source.constant & (source.lo == op.zero_point))
        return np.asarray(depends & by_tap.any(axis=1))
    taps = taps_of(op.window, tensor, layer.output)
    varying = ~source.constant & by_tap[:, ~taps.outside].any(axis=1)
    border = (
        source.constant & (source.lo != op.window.pad_value) & by_tap[:, taps.mixed].any(axis=1)
    )
    return np.asarray(varying | border)
