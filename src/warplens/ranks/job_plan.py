"""The order in which the moments of a job can be computed: level by level, each from earlier ones only.

A meeting is a node of its own, after the moments: its arrivals lead to it, and it leads to the ends of its ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warplens.analyses.graph.records import Floats
from warplens.model.trace import Ints
from warplens.ranks.condensing import END


@dataclass(frozen=True, eq=False)
class Plan:
    """Links between nodes, sorted by the level of their target and by target."""

    count: int
    """Moments; later nodes are meetings."""
    level: Ints
    """Of each node; -1 for one that waits for itself."""
    ends: Ints
    """The moments that are ends of collectives."""
    meeting: Ints
    """Of each of `ends`: the node of its meeting."""
    source: Ints
    target: Ints
    origin: Ints
    """Where each link's length is: among the graph's ways, then arrivals (of length 0), then ends."""
    first: Ints
    """The first link of each node of `nodes`."""
    nodes: Ints
    """Nodes that links lead to, by level."""
    levels: list[tuple[int, int, int, int]]
    """Of each level: its first and last link, its first and last of `nodes`."""

    @property
    def order(self) -> Ints:
        """The moments that can be computed, each after all that it depends on."""
        level = self.level[: self.count]
        order: Ints = np.argsort(level, kind="stable")[int((level < 0).sum()) :]
        return order

    def lengths(self, ways_ns: Floats, transfer_ns: Floats) -> Floats:
        """The lengths of all links."""
        lengths: Floats = np.concatenate([ways_ns, np.zeros(len(self.ends)), transfer_ns[self.ends]])[self.origin]
        return lengths

    def times(self, begun: Floats, lengths: Floats, least: Floats) -> Floats:
        """When each node is reached: `begun` where nothing leads to it, and not before `least`."""
        times: Floats = begun.copy()
        reached, best = np.empty(len(lengths)), np.empty(len(self.nodes))
        local = self.first - np.repeat([each[0] for each in self.levels], [each[3] - each[2] for each in self.levels])
        for begin, end, low, high in self.levels:
            np.add(times[self.source[begin:end]], lengths[begin:end], out=reached[begin:end])
            np.maximum.reduceat(reached[begin:end], local[low:high], out=best[low:high])
            nodes = self.nodes[low:high]
            times[nodes] = np.maximum(best[low:high], least[nodes])
        return times

    def binding(self, times: Floats, lengths: Floats) -> Ints:
        """The link that each node waits for longest; -1 for none."""
        reached = times[self.source] + lengths
        best = np.maximum.reduceat(reached, self.first) if len(self.first) else reached
        sizes = np.diff(np.append(self.first, len(reached)))
        latest = np.flatnonzero(reached == np.repeat(best, sizes))[::-1]
        binding: Ints = np.full(len(times), -1)
        binding[self.target[latest]] = latest
        return binding

    def summed(self, binding: Ints, parts: Floats) -> Floats:
        """The sums of the links' `parts` over the chains of what each node waited for."""
        sums = np.zeros(len(binding))
        for _, _, low, high in self.levels:
            nodes = self.nodes[low:high]
            link = binding[nodes]
            sums[nodes] = sums[self.source[link]] + parts[link]
        return sums


def plan(first_way: Ints, source: Ints, kind: Ints, match: Ints) -> Plan:
    """The plan of a graph; see `JobGraph` for its parts."""
    count, ends = len(kind), np.flatnonzero(kind == END)
    alone = -2 - np.arange(len(ends))
    numbers, place = np.unique(np.where(match[ends] >= 0, match[ends], alone), return_inverse=True)
    meeting = count + place.ravel()
    sources = np.concatenate([source, ends - 1, meeting])
    targets = np.concatenate([np.repeat(np.arange(count), np.diff(first_way)), meeting, ends])
    level = _levels(sources, targets, count + len(numbers))
    usable = np.flatnonzero(level[targets] >= 0)
    origin = usable[np.lexsort((targets[usable], level[targets[usable]]))]
    sources, targets = sources[origin], targets[origin]
    first = np.flatnonzero(np.diff(targets, prepend=-1))
    nodes = targets[first]
    depth = int(level.max(initial=-1)) + 1
    links = np.searchsorted(level[targets], np.arange(depth + 1)).tolist()
    places = np.searchsorted(level[nodes], np.arange(depth + 1)).tolist()
    levels = [each for each in zip(links, links[1:], places, places[1:], strict=False) if each[1] > each[0]]
    return Plan(count, level, ends, meeting, sources, targets, origin, first, nodes, levels)


def _levels(source: Ints, target: Ints, count: int) -> Ints:
    """How many links the longest chain to each node has."""
    left = np.bincount(target, minlength=count)
    by_source = np.argsort(source, kind="stable")
    first = np.searchsorted(source[by_source], np.arange(count + 1))
    sizes, following = np.diff(first), target[by_source]
    level: Ints = np.full(count, -1)
    front, number = np.flatnonzero(left == 0), 0
    while len(front):
        level[front] = number
        own = sizes[front]
        place = np.arange(int(own.sum())) - np.repeat(np.cumsum(own) - own, own)
        reached = following[np.repeat(first[front], own) + place]
        np.subtract.at(left, reached, 1)
        front = np.unique(reached)
        front = front[left[front] == 0]
        number += 1
    return level
