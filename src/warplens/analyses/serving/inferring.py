"""Iterations of programs that mark none: loops that generate text, seen by what each pass of the model begins with.

A pass begins with the embedding of its token ids: `[batch, 1]` ids generate, more are a prompt. Without shapes, a pass
embeds and ends with a choice of the next token (argmax, multinomial); the first one, where it takes longer, is the
prompt. Graphs hide both: the same graph launched over and over, with a choice of tokens in between or with kernels
that only decoding has, is a pass per launch. Nothing is inferred for training, nor for loops that might be something
else.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
import numpy as np

from warplens.analyses.serving.spans import Span
from warplens.model.iteration_marks import NOTHING, IterationMark, Phase, RequestSums
from warplens.model.kinds import CODE, NONE
from warplens.model.trace import Ints, Trace
from warplens.passes.climb import climb
from warplens.passes.survey import is_graph_launch

LEAST_PASSES: Final = 3
LONGER_PROMPT: Final = 1.2
"""Without shapes the first pass is a prompt where the GPU works this much longer on it than on the median one, or, in
a loop that appends to a cache, longer than on any other."""
LEAST_JOINS: Final = 4
MOST_PIECES: Final = 512
"""Graph launches of one pass at most: piecewise graphs have a few per layer."""
SAME_SHARE: Final = 0.9
TRAINING: Final = ("autograd::engine::", "Optimizer.step#", "Optimizer.zero_grad#")
SAMPLING: Final = ("aten::argmax", "aten::multinomial", "aten::exponential_", "aten::topk")
DECODING: Final = re.compile(
    r"paged_attention|splitkv|BatchDecode|decode_attention|_fwd_kernel_stage1|mla_decode|reshape_and_cache"
    r"|kernel_unified_attention|fmha_mmha|masked_multihead_attention|flash_decod",
    re.IGNORECASE,
)
"""Kernels of attention over a cache, and those that write it."""
ENGINE: Final = ""
DEEPEST: Final = 64
"""Modules inside modules that are looked through for the outermost one of a pass."""


def is_training(trace: Trace) -> bool:
    return any(trace.names[code].startswith(TRAINING) for code in trace.host_names.tolist())


def inferred_spans(trace: Trace) -> tuple[list[Span], str]:
    """The passes of a loop that generates, and what they were recognised by; empty where none is recognised."""
    if is_training(trace):
        return [], ""
    for recognise in (_by_embedded_shapes, _by_embedding_and_choice, _by_graph_launches):
        spans, reason = recognise(trace)
        if len(spans) >= LEAST_PASSES:
            return spans, reason
    return [], ""


def _named_ops(trace: Trace, *names: str) -> Ints:
    """Rows of ops with these names, by start."""
    codes = [code for code in trace.host_names.tolist() if trace.names[code] in names]
    rows = np.flatnonzero(np.isin(trace.ints("name"), codes) & (trace.ints("kind") == CODE["op"])) if codes else _NONE
    return rows[np.argsort(trace.ints("start_ns")[rows], kind="stable")]


_NONE = np.zeros(0, np.int64)


def _by_embedded_shapes(trace: Trace) -> tuple[list[Span], str]:
    rows = _named_ops(trace, "aten::embedding")
    specs = trace.ints("spec")[rows]
    shapes = {spec: _embedded(trace.specs["input_dims"][spec]) for spec in np.unique(specs).tolist() if spec >= 0}
    vocabulary = max((shape[0] for shape in shapes.values() if shape), default=0)
    chosen = [(row, shape) for row, spec in zip(rows.tolist(), specs.tolist(), strict=True)
              if (shape := shapes.get(spec)) and shape[0] == vocabulary]  # fmt: skip
    if sum(shape[2] == 1 for _, shape in chosen) < LEAST_PASSES - 1:
        return [], ""
    marks = [_mark(batch, tokens) for _, (_, batch, tokens) in chosen]
    return _spans_from(trace, np.array([row for row, _ in chosen]), marks), "the embeddings of token ids"


def _embedded(dims: str) -> tuple[int, int, int] | None:
    """Rows of the table, batch and tokens of each of its ids; None where ids have no batch."""
    try:
        sizes = msgspec.json.decode(dims)
    except msgspec.DecodeError:
        return None
    if not isinstance(sizes, list) or len(sizes) < 2 or not all(_is_pair(size) for size in sizes[:2]):
        return None
    (height, _), (batch, tokens) = sizes[:2]
    return height, batch, tokens


def _is_pair(size: object) -> bool:
    is_list = isinstance(size, list) and len(size) == 2
    return is_list and all(isinstance(number, int) and 0 < number < 1 << 40 for number in size)  # type: ignore[attr-defined]


def _mark(batch: int, tokens: int) -> IterationMark:
    sums = RequestSums(batch, batch * tokens)
    phase: Phase = "decode" if tokens == 1 else "prefill"
    return IterationMark(ENGINE, phase, None, *((NOTHING, sums) if tokens == 1 else (sums, NOTHING)))


def _by_embedding_and_choice(trace: Trace) -> tuple[list[Span], str]:
    rows, choices = _named_ops(trace, "aten::embedding"), _named_ops(trace, "aten::argmax", "aten::multinomial")
    every = len(rows) // len(choices) if len(choices) else 0
    if every < 1 or len(rows) != every * len(choices) or len(choices) < LEAST_PASSES or not _has_attention(trace):
        return [], ""
    anchors = rows[::every]
    start = trace.ints("start_ns")
    if not (start[anchors] < start[choices]).all() or not (start[choices[:-1]] < start[anchors[1:]]).all():
        return [], ""
    spans = _spans_from(trace, anchors, [_unknown("decode")] * len(anchors))
    times = _gpu_times(trace, spans)
    appends = _appends_to_cache(trace, anchors)
    is_prompt = times[0] > LONGER_PROMPT * np.median(times) or (appends and times[0] > times[1:].max())
    if not appends and not is_prompt:
        return [], ""
    marks = [_unknown("prefill" if number == 0 and is_prompt else "decode") for number in range(len(spans))]
    return _spans_from(trace, anchors, marks), "embeddings and choices of tokens"


def _appends_to_cache(trace: Trace, anchors: Ints) -> bool:
    """Whether every pass joins tensors several times, as the keys and values of each layer are to its cache."""
    start = trace.ints("start_ns")
    place = np.searchsorted(start[anchors], start[_named_ops(trace, "aten::cat")], side="right")
    return bool((np.bincount(place, minlength=len(anchors) + 1)[1:] >= LEAST_JOINS).all())


def _has_attention(trace: Trace) -> bool:
    words = ("attention", "aten::softmax", "aten::_softmax", "aten::baddbmm")
    return any(word in trace.names[code] for code in trace.host_names.tolist() for word in words)


def _unknown(phase: Phase) -> IterationMark:
    sums = (RequestSums(), NOTHING) if phase == "prefill" else (NOTHING, RequestSums())
    return IterationMark(ENGINE, phase, None, *sums)


def _gpu_times(trace: Trace, spans: list[Span]) -> Ints:
    """GPU time that each span launched."""
    gpu = trace.gpu_rows
    launch = trace.ints("launch")[gpu]
    moment = trace.ints("start_ns")[np.maximum(launch, 0)]
    place = np.searchsorted(np.array([span.start_ns for span in spans]), moment, side="right") - 1
    known = (launch >= 0) & (place >= 0)
    durations = trace.ints("dur_ns")[gpu]
    return np.bincount(place[known], weights=durations[known], minlength=len(spans)).astype(np.int64)


def _by_graph_launches(trace: Trace) -> tuple[list[Span], str]:
    launches, counts = _graph_launches(trace)
    period = _period(counts)
    if not period or len(launches) < LEAST_PASSES * period:
        return [], ""
    anchors = launches[::period]
    if not _chooses_tokens(trace, anchors) and not _decodes(trace):
        return [], ""
    return _spans_from(trace, anchors, [_unknown("decode")] * len(anchors)), "graph launches that repeat"


def _graph_launches(trace: Trace) -> tuple[Ints, Ints]:
    """Rows of the launches of graphs by start, and how many GPU events each has."""
    launch = trace.ints("launch")[trace.gpu_rows]
    rows, counts = np.unique(launch[launch >= 0], return_counts=True)
    is_graph = is_graph_launch(trace, rows)
    rows, counts = rows[is_graph], counts[is_graph]
    order = np.argsort(trace.ints("start_ns")[rows], kind="stable")
    return rows[order], counts[order]


def _period(sizes: Ints) -> int:
    """After how many launches the sizes of the graphs repeat; 0 where they do not."""
    for period in range(1, min(MOST_PIECES, len(sizes) // LEAST_PASSES) + 1):
        if (sizes[period:] == sizes[:-period]).mean() >= SAME_SHARE:
            return period
    return 0


def _chooses_tokens(trace: Trace, anchors: Ints) -> bool:
    """Whether an op that picks tokens runs after nearly every launch."""
    choices = trace.ints("start_ns")[_named_ops(trace, *SAMPLING)]
    place = np.searchsorted(trace.ints("start_ns")[anchors], choices, side="right")
    return len(np.unique(place[place > 0])) >= SAME_SHARE * len(anchors) - 1


def _decodes(trace: Trace) -> bool:
    codes = np.unique(trace.ints("name")[trace.gpu_rows]).tolist()
    return any(DECODING.search(trace.names[code][:400]) for code in codes)


def _spans_from(trace: Trace, anchors: Ints, marks: list[IterationMark]) -> list[Span]:
    """From where each pass begins, the outermost module around its anchor where modules are recorded, to the next."""
    start = trace.ints("start_ns")
    begins = start[_outermost_modules(trace, anchors)]
    begins = np.maximum.accumulate(begins)
    lengths = np.diff(begins)
    usual = int(np.median(lengths)) if len(lengths) else 0
    ends = np.append(begins[1:], begins[-1:] + usual)
    lanes = trace.ints("lane")[anchors]
    return [
        Span(mark, "", lane, begin, end, engine_written=False)
        for mark, lane, begin, end in zip(marks, lanes.tolist(), begins.tolist(), ends.tolist(), strict=True)
    ]


def _outermost_modules(trace: Trace, rows: Ints) -> Ints:
    """The outermost module call around each row, else the row itself."""
    is_module, parent = trace.ints("kind") == CODE["module"], trace.ints("parent")
    outermost = current = rows.astype(np.int64)
    for _ in range(DEEPEST):
        current = climb(np.where(current >= 0, parent[np.maximum(current, 0)], NONE), parent, is_module)
        inside = current[current >= 0]
        if not len(inside) or len(np.unique(inside)) < len(inside):  # one around several passes is the program's
            break
        outermost = np.where(current >= 0, current, outermost)
    return outermost
