"""`token_latency` and `slow_iterations`: how long a request waits for its next token, and what makes some waits long.

The interval of a token is the time from the end of one pass that generates to the end of the next: passes that only
prefill in between are part of it. It counts once for every request that generates in the pass. Requests whose prompt
was in between had no token before it: their interval begins at the end of the prompt's pass.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.serving.iterations import Windows, served, windows
from warplens.analyses.serving.notes import notes
from warplens.analyses.serving.plain_times import plain_times
from warplens.analyses.serving.steady import steady_state
from warplens.analyses.serving.tables import GROUPS, OTHER, iteration_rows
from warplens.analyses.shared import shared
from warplens.analyses.workspace import Workspace
from warplens.model.intervals import covered_until, union
from warplens.model.table import Column, Table
from warplens.model.trace import Ints
from warplens.model.tree import Floats
from warplens_run.base.units import format_short_ms

SLOW: Final = 1.25
"""An interval is slow from this many times the median on: intervals of one batch size differ by less."""
MOST_ROWS: Final = 200
PREFILL: Final = "prefill in between"
MIXED: Final = "prefill in the same pass"
HOST: Final = "gap: launched late"
WAIT: Final = "gap: launched, not started"
INSIDE: Final = "idle inside"
GROUP_NAMES: Final = {
    "gemm_ms": "matrix products",
    "attention_ms": "attention",
    "moe_ms": "experts",
    "communication_ms": "collectives",
    "quantization_ms": "quantisation",
    OTHER: "other GPU work",
}
MEANINGS: Final = {
    "interval": "from one generated token to the next of the same request",
    PREFILL: "passes that only prefill, run between two passes that generate",
    HOST: "the GPU had nothing to do, since the host had not launched yet",
    WAIT: "the GPU had nothing to do although the host had launched",
    INSIDE: "the GPU was idle between events of the pass",
    MIXED: "GPU time of passes with prompts beyond that of the median pass without",
} | {name: f"GPU time of {name}; kernels may overlap" for name in GROUP_NAMES.values()}
LATENCY_COLUMNS: Final = (
    Column("part", "the interval between two tokens of a request, then its parts", "", pl.String),
    Column("tokens", "intervals: one per request and pass", "", pl.Int64),
    Column("mean_ms", "mean", "ms", pl.Float64),
    Column("p50_ms", "median", "ms", pl.Float64),
    Column("p90_ms", "nine of ten are at most this", "ms", pl.Float64),
    Column("p99_ms", "99 of 100 are at most this", "ms", pl.Float64),
    Column("max_ms", "longest", "ms", pl.Float64),
    Column("percent", "share of the mean interval", "%", pl.Float64),
    Column(
        "plain_p50_ms",
        "median of the interval without the profiler, simulated; empty where not known",
        "ms",
        pl.Float64,
    ),
    Column("meaning", "what it is", "", pl.String),
)
SLOW_COLUMNS: Final = (
    Column("iteration", "number of the forward pass", "", pl.Int64),
    Column("phase", "decode, or mixed: with a prefill in the same pass", "", pl.String),
    Column("requests", "requests that generate in it", "", pl.Int64),
    Column("start_ms", "start on the host, since the trace's start", "ms", pl.Float64),
    Column("interval_ms", "time since the end of the last pass that generated", "ms", pl.Float64),
    Column("median_ms", "median interval", "ms", pl.Float64),
    Column("excess_ms", "how much longer than the median it is", "ms", pl.Float64),
    Column("cause", "the part that is longest beyond its own median", "", pl.String),
    Column("cause_ms", "how much longer than its median that part is", "ms", pl.Float64),
    Column("parts", "all parts that are longer than their medians, largest first", "", pl.String),
)
TABLES: Final = {
    "token_latency": ("the time between two tokens, and its parts", LATENCY_COLUMNS),
    "slow_iterations": (
        f"one row per pass whose tokens took over {SLOW:g} times the median, longest first",
        SLOW_COLUMNS,
    ),
}


def token_latency(work: Workspace) -> Table:
    frame = _parts(work)
    tokens = np.maximum(frame["tokens"].to_numpy(), 0)
    whole = float((frame["interval"].to_numpy() * tokens).sum())
    rows = []
    for name in MEANINGS if len(frame) else ():
        values = frame[name].to_numpy()
        summed = float((values * tokens).sum())
        if name != "interval" and not values.any():
            continue
        p50, p90, p99 = _percentiles(values, tokens)
        mean = summed / max(1, int(tokens.sum()))
        share = 100 * summed / whole if whole else 0.0
        plain = _plain_p50_ms(work) if name == "interval" else None
        longest = float(values.max())
        rows.append((name, int(tokens.sum()), mean, p50, p90, p99, longest, share, plain, MEANINGS[name]))
    empty = () if len(frame) else ("fewer than two passes generate: there is no time between two tokens",)
    return Table.from_rows("token_latency", *TABLES["token_latency"], rows, *empty, *notes(work))


def slow_iterations(work: Workspace) -> Table:
    frame = _parts(work)
    rows = []
    if len(frame):
        usual = {name: float(frame[name].median()) for name in MEANINGS}  # type: ignore[arg-type]
        slow = frame.filter(pl.col("interval") > SLOW * usual["interval"]).sort("interval", descending=True)
        slow = slow.unique("iteration", keep="first", maintain_order=True)
        rows = [_slow_row(row, usual) for row in slow.head(MOST_ROWS).iter_rows(named=True)]
    return Table.from_rows("slow_iterations", *TABLES["slow_iterations"], rows, *notes(work))


def _slow_row(row: dict[str, float | str], usual: dict[str, float]) -> tuple[object, ...]:
    excess = {name: row[name] - usual[name] for name in MEANINGS if name != "interval"}  # type: ignore[operator]
    if row["phase"] == "mixed":
        # GPU work beyond the usual is that of the prompt in the same pass.
        excess = {name: value for name, value in excess.items() if name not in GROUP_NAMES.values()}
    longer = sorted(((value, name) for name, value in excess.items() if value > 0), reverse=True)
    cause = longer[0] if longer else (0.0, "")
    interval: float = row["interval"]  # type: ignore[assignment]
    parts = ", ".join(
        f"{name} +{format_short_ms(value, interval)}" for value, name in longer if value > 0.01 * interval
    )
    shown = (row["iteration"], row["phase"], row["requests"], row["start_ms"], interval, usual["interval"])
    return (*shown, interval - usual["interval"], cause[1], cause[0], parts)


@shared
def _parts(work: Workspace) -> pl.DataFrame:
    """One row per interval between two passes that generate, in steady state where there is one: parts in ms."""
    times, rows = windows(work), iteration_rows(work)
    own, between, tokens = _intervals(work, times)
    interval = times.time_ns[own] + between
    late = _late_ns(work, own)
    inside = times.time_ns[own] - times.gap_ns[own] - times.busy_ns[own] + _busy_in_gap(work, own)
    parts: dict[str, Ints | Floats] = {
        "interval": interval,
        PREFILL: between,
        HOST: late,
        WAIT: times.gap_ns[own] - late,
        INSIDE: np.maximum(0, inside),
    }
    parts[MIXED] = _beyond_usual(rows, own)
    frame = rows[own].select("iteration", "phase", "start_ms", "generated_tokens", *GROUPS, OTHER)
    return frame.with_columns(
        *(pl.Series(name, values / 1e6) for name, values in parts.items()),
        frame["generated_tokens"].alias("requests"),
        pl.Series("tokens", tokens),
    ).rename(GROUP_NAMES)


def _intervals(work: Workspace, times: Windows) -> tuple[Ints, Ints, Ints]:
    """The passes that end an interval, the time of prompts in each, and its tokens, with these times of passes."""
    found = served(work)
    assert found is not None
    generating = np.array([span.mark.phase != "prefill" for span in found.spans]) & times.has_gpu
    ordered = times.order[generating[times.order]]
    chosen = steady_state(work).chosen
    pairs = [(before, own) for before, own in zip(ordered[:-1].tolist(), ordered[1:].tolist(), strict=True)
             if (chosen[before] and chosen[own]) or not chosen.any()]  # fmt: skip
    before, own = (np.array(side, np.int64) for side in (zip(*pairs, strict=True) if pairs else ((), ())))
    between = times.end_ns[own] - times.end_ns[before] - times.time_ns[own]
    return _waiting_and_new(iteration_rows(work), times.order, own, between)


def _plain_p50_ms(work: Workspace) -> float | None:
    plain = plain_times(work)
    if plain is None:
        return None
    own, between, tokens = _intervals(work, plain.windows)
    interval_ms = (plain.windows.time_ns[own] + between).astype(np.float64) * (plain.scale / 1e6)
    return _percentiles(interval_ms, tokens)[0]


def _waiting_and_new(rows: pl.DataFrame, order: Ints, own: Ints, between: Ints) -> tuple[Ints, Ints, Ints]:
    """Each pass once for the requests that waited for prompts, and once for those that the prompts began.

    Gives the passes, the time of prompts in the interval of each, and its tokens. Where nothing says how many requests
    a pass has, none is taken to have waited.
    """
    tokens = rows["generated_tokens"].fill_null(1).to_numpy()
    begun = np.minimum(_begun_since(rows, order)[own], tokens[own])
    waiting = np.where(between > 0, tokens[own] - begun, 0)
    new = tokens[own] - waiting
    kept = np.flatnonzero(np.stack([waiting, new], axis=1).ravel() > 0)
    doubled = [np.stack(pair, axis=1).ravel()[kept] for pair in ((own, own), (between, 0 * between), (waiting, new))]
    return doubled[0], doubled[1], doubled[2]


def _begun_since(rows: pl.DataFrame, order: Ints) -> Ints:
    """For each pass, the requests of passes that only prefill since the last one that generates."""
    many = np.iinfo(np.int64).max // (len(rows) + 1)
    requests = rows["requests"].fill_null(many).to_numpy()
    prefills = (rows["phase"] == "prefill").to_numpy()
    begun = np.zeros(len(rows), np.int64)
    since = 0
    for number in order.tolist():
        begun[number] = since
        since = since + int(requests[number]) if prefills[number] else 0
    return begun


def _beyond_usual(rows: pl.DataFrame, own: Ints) -> Floats:
    """GPU time, in ns, of mixed passes beyond that of the median pass that only decodes; 0 for others."""
    busy = rows["busy_ms"].to_numpy()
    decoding = (rows["phase"] == "decode").to_numpy()
    usual = float(np.median(busy[decoding])) if decoding.any() else 0.0
    is_mixed = (rows["phase"] == "mixed").to_numpy() & decoding.any()
    return np.where(is_mixed, np.maximum(0.0, busy - usual), 0.0)[own] * 1e6


def _busy_in_gap(work: Workspace, own: Ints) -> Ints:
    """GPU work of no iteration that runs in the gap before a pass: it is not idle time of the pass."""
    times = windows(work)
    start = work.gpu["start_ns"].to_numpy()
    busy = union(start, start + work.gpu["dur_ns"].to_numpy())
    return covered_until(busy, times.start_ns[own] + times.gap_ns[own]) - covered_until(busy, times.start_ns[own])


def _late_ns(work: Workspace, own: Ints) -> Ints:
    """The part of each gap that passes before the first launch of the iteration."""
    found, times = served(work), windows(work)
    assert found is not None
    iteration, launch = found.event_iteration, work.gpu["launch"].to_numpy()
    known = (iteration >= 0) & (launch >= 0)
    first = np.full(len(found), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(first, iteration[known], work.trace.ints("start_ns")[launch[known]])
    late: Ints = np.clip(first[own] - times.start_ns[own], 0, times.gap_ns[own])
    return late


def _percentiles(values: Floats, weights: Ints) -> tuple[float, float, float]:
    """p50, p90 and p99 of values that count so often each.

    >>> _percentiles(np.array([1.0, 9.0, 2.0]), np.array([60, 1, 39]))
    (1.0, 2.0, 2.0)
    """
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    if not len(reached) or not reached[-1]:
        return 0.0, 0.0, 0.0
    places = [int(np.searchsorted(reached, share * reached[-1])) for share in (0.5, 0.9, 0.99)]
    p50, p90, p99 = (float(values[order][place]) for place in places)
    return p50, p90, p99
