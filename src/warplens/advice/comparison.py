"""The verdict of a comparison: which run is faster, by how much, and where that comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import polars as pl

from warplens.analyses.diff.columns import BOTH, ONLY_A, ONLY_B
from warplens.analyses.diff.summary import CATEGORY, IDLE, TOTAL, span_us
from warplens.analyses.work.modules import OUTSIDE
from warplens.analyses.workspace import NO_LAUNCH
from warplens.model.table import Table

NEEDED: Final = ("diff_summary", "diff_timeline", "diff_layers", "diff_steps", "diff_categories", "diff_host")
SAME_WORK_PERCENT: Final = 70.0
"""Below this share of matched GPU time the verdict says so."""
UNLIKE_PERCENT: Final = 30.0
"""Below this one it asks whether the traces hold the same work at all."""
OUTLIER: Final = 1.5
"""A step this many times the median is named."""
NOTABLE: Final = 0.1
"""Opposite changes, and what only one run has, are named from this share of the step's time on."""
HOST_BUSY: Final = "host busy"
MANY: Final = 0.2
"""The number of GPU events is named if it changed by more than this share."""
UNEQUAL: Final = 1.1
"""FLOPs that differ by more than this factor are named: the runs do not do the same work, or not all of it."""
SAME: Final = 1.005
"""Ratios below this one are no difference to speak of."""
MOST: Final = 0.6
"""A layer is named if this share of the change of GPU work is in it."""


@dataclass(frozen=True)
class Reading:
    """The tables of a comparison and what the verdict asks of them."""

    tables: Mapping[str, Table]
    matched: tuple[float, float]
    per_step: bool

    def rows(self, name: str) -> list[dict[str, Any]]:
        return self.tables[name].to_dicts()

    @cached_property
    def total(self) -> dict[str, Any]:
        return next(row for row in self.rows("diff_summary") if row["kind"] == TOTAL)

    @cached_property
    def idle(self) -> dict[str, Any]:
        return next(row for row in self.rows("diff_timeline") if row["measure"] == "idle")

    @cached_property
    def busy(self) -> dict[str, Any]:
        return next(row for row in self.rows("diff_timeline") if row["measure"] == "busy")

    def parts(self, kind: str) -> list[dict[str, Any]]:
        """Largest change first; what the runs' own spread explains comes last."""
        found = [row for row in self.rows("diff_summary") if row["kind"] == kind]
        return sorted(found, key=lambda row: bool(row["within_noise"]))

    @property
    def notable_us(self) -> float:
        return NOTABLE * float(min(self.total["a_us"], self.total["b_us"]))

    @property
    def unit(self) -> str:
        return " a step" if self.per_step else ""


def comparison_verdict(tables: Mapping[str, Table], matched: tuple[float, float], *, per_step: bool) -> str:
    """A few sentences, the most important one first."""
    reading = Reading(tables, matched, per_step)
    a, b = reading.total["a_us"], reading.total["b_us"]
    if not a and not b:
        return _without_gpu(reading)
    if not a or not b:
        return f"Only {'A' if a else 'B'} holds GPU work, so that there is nothing to compare it with."
    main = " ".join([*_main(reading), *_attention(reading)])
    return " ".join([main, *_outliers(reading), *_new_and_gone(reading, main), *_matching(reading)])


def _main(reading: Reading) -> list[str]:
    total = reading.total
    span = span_us(total["a_us"], total["b_us"]) + reading.unit
    if total["a_us"] == total["b_us"] and not any(row["delta_us"] for row in reading.parts(CATEGORY)):
        return [f"No difference at all: {span}."]
    if total["within_noise"]:
        step = f"o difference in step time beyond the runs' own spread: {span}"
        if _notable(reading, reading.busy):
            return [*_work(reading), f"But n{step}, {idle_text(reading)}."]
        return [f"N{step}.", *_beyond_noise(reading)]
    if _ratio(total) < SAME:
        return [f"B is as fast as A: {span}.", *_beyond_noise(reading)]
    return [f"B is {_faster(total)}: {span}.", *_from(reading)]


def _work(reading: Reading) -> list[str]:
    """GPU work that changed although the step did not: what the host's pace hides in these runs."""
    busy = reading.busy
    sign = 1 if busy["delta_us"] > 0 else -1
    span = span_us(busy["a_us"], busy["b_us"]) + reading.unit
    top = max(reading.parts(CATEGORY), key=lambda row: sign * row["delta_us"])
    share = _percent(top["delta_us"] / busy["delta_us"])
    text = f"{share} of it from {top['part']}: {top['what_changed']}."
    return [f"B's GPU work is {_faster(busy)}: {span}.", text, *_layer(reading)]


def _ratio(row: Mapping[str, Any]) -> float:
    low, high = sorted((float(row["a_us"]), float(row["b_us"])))
    return high / low if low else float("inf")


def _faster(row: Mapping[str, Any]) -> str:
    return f"{_ratio(row):.2f}× {'slower' if row['delta_us'] > 0 else 'faster'}"


def _from(reading: Reading) -> list[str]:
    """Where the change comes from: idleness, or the kernels of a category."""
    total, idle, busy = (row["delta_us"] for row in (reading.total, reading.idle, reading.busy))
    sign = 1 if total > 0 else -1
    opposed = min(abs(idle), abs(busy)) >= reading.notable_us and idle * busy < 0
    split = [f"GPU work {_signed(busy)}, {idle_text(reading)}."] if opposed else []
    categories = [row for row in reading.parts(CATEGORY) if sign * row["delta_us"] > 0]
    if not categories or sign * idle > sign * categories[0]["delta_us"]:
        return split or [f"{_percent(idle / total)} of it from {idle_text(reading)}{_events(reading)}."]
    top = categories[0]
    of, whole = ("the former", busy) if opposed else ("it", total)
    text = f"{top['part']}: {top['what_changed']}"
    others = [f"{row['part']} {_signed(row['delta_us'])}" for row in categories[1:4] if _notable(reading, row)]
    against = [f"{row['part']} {_signed(row['delta_us'])}" for row in reading.parts(CATEGORY)
               if sign * row["delta_us"] < 0 and row["status"] == BOTH and _notable(reading, row)]  # fmt: skip
    also = [f"Also {_listed(others)}."] if others else []
    but = f", against {_listed(against)}" if against else ""
    return [*split, f"{_percent(top['delta_us'] / whole)} of {of} from {text}{but}.", *also, *_layer(reading)]


def _percent(share: float) -> str:
    """Over 100 % where other parts went the other way."""
    return f"More than all ({100 * share:.0f} %)" if share > 1.05 else f"{100 * min(share, 1):.0f} %"


def _beyond_noise(reading: Reading) -> list[str]:
    """With the same total: parts that did change, each for itself."""
    found = [row for row in reading.parts(CATEGORY) if _notable(reading, row)][:2]
    causes = [row for row in reading.parts(IDLE) if _notable(reading, row)][:1]
    texts = [f"{row['part']} {_signed(row['delta_us'])} ({row['what_changed']})" for row in found]
    texts += [f"idle in {row['part']} {_signed(row['delta_us'])}" for row in causes]
    return [f"Beyond it: {_listed(texts)}."] if texts else []


def _notable(reading: Reading, row: Mapping[str, Any]) -> bool:
    return not row["within_noise"] and abs(row["delta_us"]) >= reading.notable_us


def idle_text(reading: Reading) -> str:
    """Idleness with the cause that changed most."""
    sign = 1 if reading.idle["delta_us"] > 0 else -1
    causes = sorted(reading.parts(IDLE), key=lambda row: -sign * row["delta_us"])
    cause = f" ({causes[0]['part']} {span_us(causes[0]['a_us'], causes[0]['b_us'])})" if causes else ""
    return f"idle time {_signed(reading.idle['delta_us'])}{cause}"


def _events(reading: Reading) -> str:
    """How many GPU events the host had to launch, where that changed."""
    a, b = (sum(row[f"{side}_count"] for row in reading.rows("diff_categories")) for side in "ab")
    return f", {a:,.0f} → {b:,.0f} GPU events{reading.unit}" if abs(a - b) > MANY * max(a, b) else ""


def _layer(reading: Reading) -> list[str]:
    """The layer that holds most of the change of GPU work."""
    rows = reading.rows("diff_layers")
    change = sum(row["delta_us"] for row in rows)
    known = [row for row in rows if row["layer"] not in (OUTSIDE, NO_LAUNCH)]
    if len(known) < 2 or not change or known[0]["status"] != BOTH or known[0]["delta_us"] / change < MOST:
        return []
    return [f"It is in {known[0]['layer']} ({span_us(known[0]['a_us'], known[0]['b_us'])})."]


def _attention(reading: Reading) -> list[str]:
    """Whether one run fuses its attention and the other computes it in parts, with a softmax of its own."""
    rows = reading.rows("diff_categories")
    fused = {row["status"] for row in rows if "Attention" in row["kernel_category"]}
    parts = {row["status"] for row in rows if row["kernel_category"] == "Softmax"}
    for own, other, names in ((ONLY_B, ONLY_A, "BA"), (ONLY_A, ONLY_B, "AB")):
        if fused == {own} and parts == {other}:
            kinds = [row["kernel_category"] for row in rows if "Attention" in row["kernel_category"]]
            return [f"Attention is fused in {names[0]} ({_listed(kinds[:2])}), in parts with a Softmax in {names[1]}."]
    return []


def _new_and_gone(reading: Reading, said: str) -> list[str]:
    """Kinds of work that only one of the runs has, often the change itself, as far as nothing was said of them."""
    rows = [row for row in reading.rows("diff_categories") if row["kernel_category"] not in said]
    texts = []
    for side, status in (("b", ONLY_B), ("a", ONLY_A)):
        found = [f"{row['kernel_category']} ({_time(row[f'{side}_us'])})" for row in rows
                 if row["status"] == status and row[f"{side}_us"] >= 0.2 * reading.notable_us]  # fmt: skip
        if found:
            texts.append(f"Only {side.upper()} runs {_listed(found[:3])}.")
    return texts


def _outliers(reading: Reading) -> list[str]:
    frame = reading.tables["diff_steps"].frame
    return [text for side in "ab" if (text := _outlier(frame, side))]


def _outlier(frame: pl.DataFrame, side: str) -> str:
    steps = frame.filter(pl.col(f"{side}_us").is_not_null())
    if len(steps) < 4:
        return ""
    typical = float(steps[f"{side}_us"].median() or 0.0)  # type: ignore[arg-type]
    top = steps.sort(f"{side}_us", descending=True).row(0, named=True)
    if top[f"{side}_us"] < OUTLIER * typical:
        return ""
    idle = f", {_time(top[f'{side}_idle_us'])} of it idle" if top[f"{side}_idle_us"] > typical / 4 else ""
    step = f"Step {top[f'{side}_step']} of {side.upper()}"
    return f"{step} takes {_time(top[f'{side}_us'])}{idle}; the median is {_time(typical)}."


def _matching(reading: Reading) -> list[str]:
    least = min(reading.matched)
    if least >= SAME_WORK_PERCENT:
        return []
    of = "A" if reading.matched[0] <= reading.matched[1] else "B"
    share = f"Only {least:.0f} %" if least >= 0.5 else "Nothing"
    text = f"{share} of {of}'s GPU time has a counterpart with the same op and shapes"
    return [f"{text}: are these the same work?" if max(reading.matched) < UNLIKE_PERCENT else f"{text}."]


def unequal_work(a_flop: float, b_flop: float) -> str:
    """A sentence where one run does clearly more arithmetic than the other: a faster run may just do less."""
    more, less = ("A", "B") if a_flop > b_flop else ("B", "A")
    ratio = max(a_flop, b_flop) / min(a_flop, b_flop)
    return f" {more} does {ratio:.2f}× the FLOPs of {less}." if ratio > UNEQUAL else ""


def _without_gpu(reading: Reading) -> str:
    host = next((row for row in reading.rows("diff_timeline") if row["measure"] == "host"), None)
    start = "Neither trace holds GPU work"
    if host is None or not host["a_us"] or not host["b_us"]:
        return f"{start}."
    span = f"{span_us(host['a_us'], host['b_us'])} a step on the host"
    if host["within_noise"] or not host["delta_us"]:
        return f"{start}; no difference beyond the runs' own spread: {span}."
    ratio = max(host["a_us"], host["b_us"]) / min(host["a_us"], host["b_us"])
    return f"{start}; B is {ratio:.2f}× {'slower' if host['delta_us'] > 0 else 'faster'}: {span}."


def _signed(us: float) -> str:
    return f"{'+' if us > 0 else '−'}{_time(abs(us))}"


def _time(us: float) -> str:
    return (
        f"{us / 1e3:,.0f} ms"
        if us >= 1e5
        else f"{us / 1e3:.2f} ms"
        if us >= 500
        else f"{us:.1f} µs"
        if us < 10
        else f"{us:.0f} µs"
    )


def _listed(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def noise_line(tables: Mapping[str, Table], *, per_step: bool) -> str:
    """How far the runs' own steps are apart, and what that hides."""
    measures = {row["measure"]: row for row in tables["diff_timeline"].to_dicts()}
    total = measures["total"]
    if "host" in measures and not total["a_us"] and not total["b_us"]:
        return f"differences up to {_time(measures['host']['noise_us'] or 0.0)} a step are marked ~"
    if total["noise_us"] is None:
        return f"unknown: it takes two {'' if per_step else 'marked '}steps on both sides"
    frame = tables["diff_steps"].frame
    spreads = [_spread(frame[f"{side}_us"].drop_nulls()) for side in "ab"]
    text = f"step time varies ±{_time(spreads[0])} (A) and ±{_time(spreads[1])} (B)"
    return f"{text}; ~: inside the spread (step: {_time(total['noise_us'])})"


def caveat(tables: Mapping[str, Table]) -> str:
    """What to mind where the host's pace decides: a profiler slows the host, not the GPU; empty elsewhere."""
    reading = Reading(tables, (100.0, 100.0), per_step=True)
    causes = max(reading.parts(IDLE), key=lambda row: abs(row["delta_us"]), default={"part": ""})
    if abs(reading.idle["delta_us"]) < reading.notable_us or causes["part"] != HOST_BUSY:
        return ""
    return "recording slows the host, with stacks most of all: without it there is less idle time"


def _spread(times: pl.Series) -> float:
    complete = times[:-1] if len(times) > 2 else times
    return float(complete.std() or 0.0)  # type: ignore[arg-type]


def reports_verdict(tables: Sequence[Table]) -> str:
    """For tables without their traces: the total, and in how many tables anything differs."""
    changed = [table.name for table in tables if _differs(table.frame)]
    text = f"{len(changed)} of {len(tables)} tables differ" if changed else f"No difference in {len(tables)} tables"
    totals = [_total_of(table.frame) for table in tables if table.name == "timeline"]
    if totals and totals[0]:
        a, b = totals[0]
        return f"{text}; the total on the GPU: {span_us(1e3 * a, 1e3 * b)}."
    return f"{text}."


def _differs(frame: pl.DataFrame) -> bool:
    deltas = [name for name in frame.columns if name.startswith("delta_")]
    return bool((frame["status"] != BOTH).any()) or any(bool((frame[name] != 0).any()) for name in deltas)


def _total_of(frame: pl.DataFrame) -> tuple[float, float] | None:
    if not {"device", "measure", "a_time_ms", "b_time_ms"} <= set(frame.columns):
        return None
    row = frame.filter((pl.col("device") == "all") & (pl.col("measure") == "total") & (pl.col("status") == BOTH))
    return (float(row["a_time_ms"][0]), float(row["b_time_ms"][0])) if len(row) else None
