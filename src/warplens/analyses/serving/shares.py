"""Parts of an iteration that several kernel categories share: choosing tokens, exposed collectives, padded graphs."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from warplens.analyses.serving.iterations import served, windows
from warplens.analyses.time.timeline import device_work
from warplens.analyses.workspace import Workspace
from warplens.model.intervals import covered_until, subtract
from warplens.model.iteration_marks import parse_capture
from warplens.model.kinds import CODE
from warplens.model.trace import Ints
from warplens.model.tree import Floats
from warplens.passes.climb import climb

CHOOSING_CALLERS: Final = re.compile(
    r"nn\.Module: (?:\w*Sampler|LogitsProcessor)(?:_\d+)?"
    r"|gpu_model_runner: sample"
    r"|(?=.*\Z).*/(?:sampler|logits_processor)\.py\(\d+\): .*"
    r"|.*\.py\(\d+\): (?:compute_logits|sample_tokens)"
)
"""Modules, annotations and frames of engines that compute logits and choose tokens."""
CHOOSING_OPS: Final = frozenset({"aten::argmax", "aten::multinomial", "aten::exponential_", "aten::sort"})


def sampling_ns(work: Workspace) -> Ints:
    """GPU time of each iteration for logits and the choice of tokens; logits only where callers are recorded."""
    found, trace = served(work), work.trace
    assert found is not None
    is_choice = np.zeros(len(trace.names), bool)
    for code in trace.host_names.tolist():
        name = trace.names[code][:400]
        is_choice[code] = name in CHOOSING_OPS or CHOOSING_CALLERS.fullmatch(name) is not None
    own = found.event_iteration
    if not is_choice.any():
        return np.zeros(len(found), np.int64)
    owner = work.gpu["owner"].to_numpy()
    stop = is_choice[trace.ints("name")] & (trace.ints("kind") != CODE["kernel"])
    chosen = (climb(owner, trace.ints("parent"), stop) >= 0) & (own >= 0)
    return _summed(own[chosen], work.gpu["dur_ns"].to_numpy()[chosen], len(found))


def exposed_communication_ns(work: Workspace) -> Ints:
    """Time in the window of each iteration in which collectives run and nothing computes."""
    found, times = served(work), windows(work)
    assert found is not None
    parts = device_work(work, None)
    exposed = subtract(parts.communication, parts.computation)
    lengths: Ints = covered_until(exposed, times.end_ns) - covered_until(exposed, times.start_ns)
    return np.where(times.has_gpu, lengths, 0)


def graph_batches(work: Workspace) -> list[int | None]:
    """The size of the graph that each iteration replays: by its mark, else by the capture that it is joined with."""
    found, launches = served(work), work.trace.graph_launches
    assert found is not None
    sizes = [span.mark.padded_batch for span in found.spans]
    if not len(launches):
        return sizes
    rows = launches["id"].to_numpy().astype(np.int64)
    trace = work.trace
    iteration = found.iteration_at(trace, trace.ints("lane")[rows], trace.ints("start_ns")[rows])
    for number, label in zip(iteration.tolist(), launches["captured_as"].to_list(), strict=True):
        capture = parse_capture((label or "").partition(" #")[0])
        if number >= 0 and capture is not None and found.spans[number].mark.padded_batch is None:
            sizes[number] = max(capture.batch, sizes[number] or 0)
    return sizes


def padding_percent(work: Workspace) -> list[float | None]:
    """The share of the graph's batch that is not used; None where one of the sizes is not known."""
    found = served(work)
    assert found is not None
    return [
        100 * max(0.0, 1 - span.mark.batch / size) if size and span.mark.batch is not None else None
        for span, size in zip(found.spans, graph_batches(work), strict=True)
    ]


def _summed(group: Ints, values: Ints | Floats, count: int) -> Ints:
    return np.bincount(group, weights=values, minlength=count).astype(np.int64)
