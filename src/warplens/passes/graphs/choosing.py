"""Which capture each launch of a graph replays.

What the recorder or the numbers of graphs say is certain. Else a capture must have nearly the same nodes; among those
that do, the size in the annotations decides, and the order: graphs of one model that are captured one after the other
(piecewise) are replayed one after the other, which tells equal layers apart. All launches of a thread are decided
together, so that one that is unlike all others places its neighbours.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from warplens.model.arrays import places_by_value
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints
from warplens.passes.graphs.aligning import Nodes
from warplens.passes.graphs.captures import CapturedGraph
from warplens.passes.graphs.replays import Replays

Floats = npt.NDArray[np.float64]
LEAST_LIKENESS: Final = 0.5
LIKENESS_WEIGHT, SIZE_WEIGHT, ORDER_WEIGHT = 20.0, 3.0, 1.0
NEVER: Final = -1e9
MOST_STEPS: Final = 1 << 25
"""Launches times captures that are decided together; beyond, each launch is decided by what comes before it."""
EQUAL: Final = 1e-9


class Choice(msgspec.Struct, frozen=True):
    """For each launch the number of its capture, -1 for none, and what else is known of that."""

    capture: Ints
    is_certain: Bools
    likeness: Floats
    """By sequence and capture: the share of nodes that both have."""
    is_unrecorded: Bools
    """The recorder knows the graph of this launch, and has no record of its capture."""


def likeness(sequences: list[Nodes], captures: list[Nodes]) -> Floats:
    """The share of nodes that each sequence and each capture have in common, in whatever order."""
    vocabulary: dict[tuple[int, int], int] = {}
    counted = [[_counts(nodes, vocabulary, kernels=kernels) for nodes in group]
               for group, kernels in ((sequences, True), (captures, False))]  # fmt: skip
    width = len(vocabulary)
    ran, captured = (np.zeros((len(group), width), np.int32) for group in counted)
    for table, group in ((ran, counted[0]), (captured, counted[1])):
        for number, counts in enumerate(group):
            for word, count in counts.items():
                table[number, word] = count
    wild = {kind: word for (kind, name), word in vocabulary.items() if name == NONE}
    kind_of = np.array([kind for kind, _ in vocabulary], np.int64)
    is_wild = np.array([name == NONE for _, name in vocabulary], bool)
    sizes = np.array([len(nodes) for nodes in captures], np.int64)
    result = np.zeros((len(sequences), len(captures)))
    for number, nodes in enumerate(sequences):
        common = np.minimum(captured, ran[number])
        shared = common[:, ~is_wild].sum(axis=1)
        for kind, word in wild.items():  # launches without a name take any other event of their kind
            named = (kind_of == kind) & ~is_wild
            left = ran[number, named].sum() - common[:, named].sum(axis=1)
            shared = shared + np.minimum(captured[:, word], left)
        result[number] = shared / np.maximum(np.maximum(sizes, len(nodes)), 1)
    return result


def _counts(nodes: Nodes, vocabulary: dict[tuple[int, int], int], *, kernels: bool) -> dict[int, int]:
    counts: dict[int, int] = {}
    for kind, name in zip(nodes.kinds.tolist(), nodes.names.tolist(), strict=True):
        word = vocabulary.setdefault((kind, name), len(vocabulary))
        counts[word] = counts.get(word, 0) + 1
    if kernels:  # every kind has its word for nodes without a name
        for kind in {int(kind) for kind in nodes.kinds}:
            vocabulary.setdefault((kind, NONE), len(vocabulary))
    return counts


def choose(replays: Replays, lanes: Ints, graphs: list[CapturedGraph], alike: Floats, known: Ints) -> Choice:
    """`lanes` are the threads of the launches; `known` the captures that are certain, -1 unknown, -2 not recorded."""
    fitness = np.where(alike >= LEAST_LIKENESS, LIKENESS_WEIGHT * alike, NEVER)
    sizes = np.array([NONE if graph.batch is None else graph.batch for graph in graphs], np.int64)
    capture = np.full(len(replays), NONE, np.int64)
    for own in places_by_value(lanes).values():
        scores = _scores(replays, own, fitness, sizes, known)
        capture[own] = _best_path(scores, graphs)
    capture = _one_per_graph(capture, replays.graph_id)
    capture = np.where(known >= 0, known, np.where(known == -2, NONE, capture))
    return Choice(capture, known >= 0, alike, known == -2)


def _scores(replays: Replays, own: Ints, fitness: Floats, sizes: Ints, known: Ints) -> Floats:
    """What each capture is worth to each of these launches, by its nodes and its size."""
    scores: Floats = fitness[replays.sequence[own]].copy()
    for place, launch in enumerate(own.tolist()):
        if known[launch] >= 0:
            scores[place] = NEVER
            scores[place, known[launch]] = LIKENESS_WEIGHT
        elif replays.batch[launch] >= 0:
            fitting = sizes[(sizes >= replays.batch[launch]) & (scores[place] > NEVER / 2)]
            if len(fitting):  # engines pad a batch to the next size that they have captured
                scores[place, sizes == fitting.min()] += SIZE_WEIGHT
    return scores


def _best_path(scores: Floats, graphs: list[CapturedGraph]) -> Ints:
    """The captures of launches that follow each other, best together."""
    number, width = scores.shape
    families = np.array([graph.family for graph in graphs])
    is_first = np.append(True, families[1:] != families[:-1])
    is_last = np.append(is_first[1:], True)
    before = np.where(is_first, NONE, np.arange(width) - 1)
    if number * width > MOST_STEPS:
        return _in_turn(scores, before, is_first, is_last)
    came_from = np.zeros((number, width), np.int32)
    best = scores[0].copy()
    for step in range(1, number):
        top = int(np.argmax(best))
        value, origin = np.full(width, best[top]), np.full(width, top)
        follows = np.where(before >= 0, best[np.maximum(before, 0)] + ORDER_WEIGHT, -np.inf)
        value, origin = np.where(follows > value, follows, value), np.where(follows > value, before, origin)
        last = np.flatnonzero(is_last)[np.argmax(best[is_last])]
        again = np.where(is_first, best[last] + ORDER_WEIGHT, -np.inf)
        value, origin = np.where(again > value, again, value), np.where(again > value, last, origin)
        came_from[step] = origin
        best = scores[step] + value
    path = np.zeros(number, np.int64)
    path[-1] = int(np.argmax(best))
    for step in range(number - 1, 0, -1):
        path[step - 1] = came_from[step, path[step]]
    fits = scores[np.arange(number), path] > NEVER / 2
    return np.where(fits, path, NONE)


def _in_turn(scores: Floats, before: Ints, is_first: Bools, is_last: Bools) -> Ints:
    path = np.full(len(scores), NONE, np.int64)
    previous = NONE
    for step, own in enumerate(scores):
        bonus = np.zeros(len(own))
        if previous >= 0:
            bonus[(before == previous) | (is_first & is_last[previous])] = ORDER_WEIGHT
        chosen = int(np.argmax(own + bonus))
        previous = path[step] = chosen if own[chosen] > NEVER / 2 else NONE
    return path


def _one_per_graph(capture: Ints, graph_id: Ints) -> Ints:
    """Launches of one graph replay one capture: the one that most of them chose."""
    chosen: Ints = capture.copy()
    for number, own in places_by_value(graph_id).items():
        if number >= 0:
            votes = np.bincount(capture[own] + 1)
            chosen[own] = int(np.argmax(votes)) - 1
    return chosen


def rivals(choice: Choice, launch: int, sequence: int, graphs: list[CapturedGraph], batch: int) -> list[int]:
    """Captures of other sizes that fit a launch as well as the chosen one, where no annotation names the size."""
    own = int(choice.capture[launch])
    if own < 0 or choice.is_certain[launch] or batch >= 0:
        return []
    alike = choice.likeness[sequence]
    return [
        number
        for number in np.flatnonzero(alike >= alike[own] - EQUAL).tolist()
        if graphs[number].family != graphs[own].family
    ]
