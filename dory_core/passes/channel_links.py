"""Which channels of the tensors of a network stay or go together, and which ones are needed.

A depthwise layer, a sum or a pool has as many channels after it as before it: these stay or go
together. Layers that read all channels for each output need those that make a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from dory_core.ir import Graph, Layer
from dory_core.ir.bounds import Interval
from dory_core.ir.kinds.channels import Ints, Mask


@dataclass(slots=True)
class Kept:
    """The channels that stay, grown until nothing more is needed.

    Attributes:
        classes: Number of the class of each channel of each tensor; channels of a class stay or go
            together.
        stays: Whether a class stays.
    """

    classes: dict[str, Ints]
    stays: Mask

    @classmethod
    def of(cls, graph: Graph) -> Kept:
        """Return the classes of a network, of which only those stay that have to."""
        starts, count = {}, 0
        for name, tensor in graph.tensors.items():
            starts[name] = count
            count += tensor.channels
        pairs, fixed = [], [*graph.sources, *graph.sinks]
        for layer in graph.layers:
            op = layer.op
            linked = op.channel_links(layer.inputs, layer.output)
            if linked is None:
                fixed += [*op.inputs, op.output]
                continue
            for number, before, after in linked:
                pairs.append((starts[op.inputs[number]] + before, starts[op.output] + after))
            if not op.is_dense:  # an operand whose one channel serves all channels
                numbers = {number for number, _, _ in linked}
                fixed += [name for n, name in enumerate(op.inputs) if n not in numbers]
        labels = _components(count, pairs)
        classes = {
            name: labels[start : start + graph.tensors[name].channels]
            for name, start in starts.items()
        }
        stays = np.zeros(count, np.bool_)
        for name in fixed:
            stays[classes[name]] = True
        return cls(classes, stays)

    def mask(self, tensor: str) -> Mask:
        """Return which channels of a tensor stay."""
        return self.stays[self.classes[tensor]]

    def add(self, tensor: str, channels: Mask | Ints) -> bool:
        """Let channels stay, with all that go with them; return whether that is news."""
        wanted = self.classes[tensor][channels]
        news = not self.stays[wanted].all()
        self.stays[wanted] = True
        return news

    def grow(self, graph: Graph, intervals: Mapping[str, Interval]) -> None:
        """Let everything stay that a channel which stays depends on."""
        dense = [layer for layer in reversed(graph.layers) if layer.op.is_dense]
        news = True
        while news:
            news = False
            for layer in dense:
                news |= self.add(layer.op.inputs[0], self._read(layer, intervals))

    def _read(self, layer: Layer, intervals: Mapping[str, Interval]) -> Mask:
        """Return the input channels that make a difference to outputs that stay."""
        op, [source] = layer.op, layer.inputs
        rows = self.mask(op.output) & ~intervals[op.output].constant
        return op.needed_inputs(rows, intervals[source.name], source)

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


def _components(count: int, pairs: Iterable[tuple[Ints, Ints]]) -> Ints:
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
