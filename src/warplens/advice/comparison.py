"""The verdict of a comparison: which run is faster, by how much, and where that comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median, stdev
from typing import Final, NamedTuple

import polars as pl

from warplens.advice.compared_steps import BUSY, CORRECTED, HOST, SAME, Clocks, StepChange, counted_steps, step_change
from warplens.advice.verdict import Verdict
from warplens.analyses.diff.summary import CATEGORY, IDLE, REST, TOTAL, span_us
from warplens.analyses.work.modules import OPTIMIZER, OUTSIDE
from warplens.analyses.workspace import NO_LAUNCH
from warplens.model.clock import RECORDED
from warplens.model.diff_rows import (
    BOTH,
    ONLY_A,
    ONLY_B,
    CategoryDiff,
    JudgedDiff,
    LayerDiff,
    MeasureDiff,
    PartDiff,
    TimeDiff,
)
from warplens.model.table import Table
from warplens_run.base.units import listed

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
MOST_TIMES: Final = 100
"""More than that says only that one of the two hardly has any."""
NEAR: Final = 0.05
"""The GPU's span is the step where it differs by less than this share."""
NEAR_CHANGE: Final = 0.2
"""And where its change differs by less than this one."""
UNEQUAL: Final = 1.1
"""FLOPs that differ by more than this factor are named: the runs do not do the same work, or not all of it."""
EVERYTHING: Final = (100.0, 100.0)
"""All GPU time is matched."""
OVERLAP: Final = "kernels overlap each other, or the next step, more in one run than in the other"
MOST: Final = 0.6
"""A layer is named if this share of the change of GPU work is in it."""


class StepTime(NamedTuple):
    """A step of one side of a comparison."""

    number: int
    time_us: float
    idle_us: float


@dataclass(frozen=True)
class ComparisonFigures:
    """The tables of a comparison and what the verdict asks of them."""

    tables: Mapping[str, Table]
    matched: tuple[float, float]
    per_step: bool
    clocks: Clocks | None = None
    runs: tuple[int, int] | None = None
    """Steps that times are means of; None where the steps were asked for."""
    is_corrected: bool = False

    @cached_property
    def step(self) -> StepChange:
        """A step on the clock that both runs have; the whole traces where no steps are compared."""
        steps = self.tables["diff_steps"]
        return step_change(
            self.measures, steps, self.clocks, self.runs, per_step=self.per_step, is_corrected=self.is_corrected
        )

    @cached_property
    def summary(self) -> list[PartDiff]:
        return self.tables["diff_summary"].records(PartDiff)

    @cached_property
    def measures(self) -> dict[str, MeasureDiff]:
        return {row.measure: row for row in self.tables["diff_timeline"].records(MeasureDiff)}

    @cached_property
    def categories(self) -> list[CategoryDiff]:
        return self.tables["diff_categories"].records(CategoryDiff)

    @property
    def total(self) -> PartDiff:
        return next(part for part in self.summary if part.kind == TOTAL)

    @property
    def idle(self) -> MeasureDiff:
        return self.measures["idle"]

    @property
    def busy(self) -> MeasureDiff:
        return self.measures["busy"]

    def parts(self, kind: str) -> list[PartDiff]:
        """Largest change first; what the runs' own spread explains comes last."""
        return sorted((part for part in self.summary if part.kind == kind), key=lambda part: bool(part.within_noise))

    def steps(self, side: str) -> list[StepTime]:
        """The steps of A (`a`) or B (`b`)."""
        frame = self.tables["diff_steps"].frame.filter(pl.col(f"{side}_us").is_not_null())
        return [StepTime(*step) for step in frame.select(f"{side}_step", f"{side}_us", f"{side}_idle_us").iter_rows()]

    @property
    def rest_us(self) -> float:
        """The change that is in no category and in no idle time."""
        return sum(part.delta_us for part in self.summary if part.part == REST)

    @property
    def notable_us(self) -> float:
        return NOTABLE * min(self.total.a_us, self.total.b_us)

    @property
    def unit(self) -> str:
        return " per step" if self.per_step else ""


def comparison_verdict(
    tables: Mapping[str, Table],
    matched: tuple[float, float],
    *,
    per_step: bool,
    runs: tuple[int, int] | None,
    clocks: Clocks | None = None,
    is_corrected: bool = False,
) -> Verdict:
    """A few sentences, the most important one first."""
    figures = ComparisonFigures(tables, matched, per_step, clocks, runs, is_corrected)
    a, b = figures.total.a_us, figures.total.b_us
    if not a and not b:
        return Verdict(_without_gpu(figures, "Neither trace has GPU work"), figures.step.certainty)
    if not a or not b:
        start = f"Only {'A' if a else 'B'} has GPU work, so the host's ops are compared"
        return Verdict(_without_gpu(figures, start), figures.step.certainty)
    main = " ".join([*_main(figures), *_attention(figures)])
    text = " ".join([main, *_outliers(figures), *_new_and_gone(figures, main), *_matching(figures)])
    return Verdict(text, figures.step.certainty)


def _main(figures: ComparisonFigures) -> list[str]:
    step, total = figures.step, figures.total
    if not any(part.delta_us for part in figures.summary) and not step.delta_us:
        return [f"No difference: {step.span}."]
    same_way = step.delta_us * total.delta_us > 0
    if not step.is_shown:
        work = _notable(figures, figures.busy)
        idle = f", {idle_text(figures)}" if work and step.is_recorded and not figures.idle.within_noise else ""
        parts = _work(figures, "But B's") if work else _beyond_noise(figures)
        return [f"No difference in {step.whole} time is shown: {step.span}{idle}; {step.unseen}.", *parts]
    if step.ratio < SAME:
        return [f"B is as fast as A: {step.span}.", *_beyond_noise(figures)]
    undecided = [f"Cannot tell which unprofiled {step.whole} is longer: {step.undecided}."] if step.undecided else []
    as_recorded = "As recorded, " if step.undecided else ""
    first = [*undecided, f"{as_recorded}B is {step.compared.text}: {step.span}.", *_sure(figures)]
    if same_way and not total.within_noise:
        return [*first, *_part_on_gpu(figures), *_from(figures)]
    if figures.busy.delta_us * step.delta_us > 0 and _notable(figures, figures.busy):
        return [*first, *_work(figures, "B's")]
    return first


def _sure(figures: ComparisonFigures) -> list[str]:
    """What shows the difference, where the spread of the steps does not."""
    step = figures.step
    if step.is_apart and step.unseen_percent is not None and 100 * (step.ratio - 1) < step.unseen_percent:
        longer = "longer" if step.delta_us > 0 else "shorter"
        hedge = ", by no more than their spread (~)" if figures.total.a_us and figures.total.within_noise else ""
        if step.varies == BUSY:
            return [f"In every step of B the GPU works {longer} than in every step of A{hedge}."]
        return [f"Every step of B is {longer} than every step of A{hedge}."]
    unknown = figures.per_step and figures.runs is not None and step.unseen_percent is None
    return [f"{step.unseen[0].upper()}{step.unseen[1:]}."] if unknown else []


def _part_on_gpu(figures: ComparisonFigures) -> list[str]:
    """The GPU's recorded span of a step, which the parts add up to, where it is not the time compared."""
    step, total = figures.step, figures.total
    near = all(abs(ours - spans) <= NEAR * ours for ours, spans in ((step.a_us, total.a_us), (step.b_us, total.b_us)))
    if near and abs(step.delta_us - total.delta_us) <= NEAR_CHANGE * abs(step.delta_us):
        return []
    made = CORRECTED if figures.is_corrected else RECORDED
    counted = f" in {counted_steps(figures.runs)}" if figures.per_step and figures.runs else ""
    return [f"On the GPU, as {made}{counted}: {span_us(total.a_us, total.b_us)}{figures.unit}."]


def _work(figures: ComparisonFigures, whose: str) -> list[str]:
    """GPU work that changed, where the recorded step did not or went the other way: the host's pace hides it."""
    busy = figures.busy
    sign = 1 if busy.delta_us > 0 else -1
    span = span_us(busy.a_us, busy.b_us) + figures.unit
    main = f"{whose} GPU work is {_faster(busy)}: {span}."
    top = max(figures.parts(CATEGORY), key=lambda row: sign * row.delta_us)
    if sign * top.delta_us <= 0:
        return [main, f"No category is {_direction(sign)}: {OVERLAP}."]
    if top.within_noise:
        return [main]
    share = _percent(top.delta_us / busy.delta_us)
    return [main, f"{share} of it from {top.part}: {top.what_changed}.", *_layer(figures, sign)]


def _ratio(row: TimeDiff) -> float:
    low, high = sorted((row.a_us, row.b_us))
    return high / low if low else float("inf")


def _faster(row: TimeDiff) -> str:
    ratio = _ratio(row)
    return f"{f'{ratio:.2f}' if ratio <= MOST_TIMES else f'more than {MOST_TIMES}'}× {_direction(row.delta_us)}"


def _direction(change: float) -> str:
    return "slower" if change > 0 else "faster"


def _from(figures: ComparisonFigures) -> list[str]:
    """Where the change comes from: idle time, the kernels of a category, or how much of them overlaps.

    Only what is larger than the spread of the steps: what the table marks ~ may be chance.
    """
    total, idle, busy = (row.delta_us for row in (figures.total, figures.idle, figures.busy))
    sign = 1 if total > 0 else -1
    is_idle_sure = not figures.idle.within_noise and sign * idle > 0
    opposed = _notable(figures, figures.idle) and _notable(figures, figures.busy) and idle * busy < 0
    split = [f"GPU work {_signed(busy)}, {idle_text(figures)}."] if opposed else []
    changed = [part for part in figures.parts(CATEGORY) if not part.within_noise]
    categories = [part for part in changed if sign * part.delta_us > 0]
    largest = max(sign * idle, *(sign * part.delta_us for part in categories), 0.0)
    if sign * figures.rest_us > largest:
        return [*split, f"{_percent(figures.rest_us / total)} of it from {REST}: {OVERLAP}."]
    is_work_other = opposed and sign * busy < 0
    if not categories or is_work_other or sign * idle > sign * categories[0].delta_us:
        if split or not is_idle_sure:
            return split or ["No part of it is shown to differ: each is within the spread of the steps."]
        return [f"{_percent(idle / total)} of it from {idle_text(figures)}{_events(figures)}."]
    top = categories[0]
    of, whole = ("the change in GPU work", busy) if opposed else ("it", total)
    others = [_change(part) for part in categories[1:4] if _notable(figures, part)]
    against = [
        _change(part)
        for part in changed
        if sign * part.delta_us < 0 and part.status == BOTH and _notable(figures, part)
    ]
    also = [f"Also {listed(others)}."] if others else []
    but = f", against {listed(against)}" if against else ""
    text = f"{_percent(top.delta_us / whole)} of {of} from {top.part}: {top.what_changed}{but}."
    return [*split, text, *also, *_layer(figures, sign)]


def _change(part: PartDiff) -> str:
    return f"{part.part} {_signed(part.delta_us)}"


def _percent(share: float) -> str:
    """Over 100 % where other parts went the other way."""
    return f"More than all ({100 * share:.0f} %)" if share > 1.05 else f"{100 * min(share, 1):.0f} %"


def _beyond_noise(figures: ComparisonFigures) -> list[str]:
    """With the same total: parts that did change."""
    categories = [part for part in figures.parts(CATEGORY) if _notable(figures, part)][:2]
    causes = [part for part in figures.parts(IDLE) if _notable(figures, part)][:1]
    texts = [f"{_change(part)} ({part.what_changed})" for part in categories]
    texts += [f"idle in {_change(part)}" for part in causes]
    return [f"What changed: {listed(texts)}."] if texts else []


def _notable(figures: ComparisonFigures, row: JudgedDiff) -> bool:
    return not row.within_noise and abs(row.delta_us) >= figures.notable_us


def idle_text(figures: ComparisonFigures) -> str:
    """Idle time with the cause that changed most, of those that changed by more than the spread of the steps."""
    sign = 1 if figures.idle.delta_us > 0 else -1
    causes = [part for part in figures.parts(IDLE) if sign * part.delta_us > 0 and not part.within_noise]
    most = max(causes, key=lambda part: sign * part.delta_us, default=None)
    cause = f" ({most.part} {span_us(most.a_us, most.b_us)})" if most else ""
    return f"idle time {_signed(figures.idle.delta_us)}{cause}"


def _events(figures: ComparisonFigures) -> str:
    """How many GPU events the host had to launch, where that changed."""
    a, b = (
        sum(counts)
        for counts in ([row.a_count for row in figures.categories], [row.b_count for row in figures.categories])
    )
    return f", {a:,.0f} → {b:,.0f} GPU events{figures.unit}" if abs(a - b) > MANY * max(a, b) else ""


def _layer(figures: ComparisonFigures, sign: int) -> list[str]:
    """The layer that has most of the change of GPU work, if that went the way that the verdict names (`sign`)."""
    layers = figures.tables["diff_layers"].records(LayerDiff)
    change = sum(layer.delta_us for layer in layers)
    named = [layer for layer in layers if layer.layer not in (OUTSIDE, OPTIMIZER, NO_LAUNCH)]
    if len(named) < 2 or sign * change <= 0 or named[0].status != BOTH or named[0].delta_us / change < MOST:
        return []
    if named[0].within_noise:
        return []
    return [f"It is in {named[0].layer} ({span_us(named[0].a_us, named[0].b_us)})."]


def _attention(figures: ComparisonFigures) -> list[str]:
    """Whether one run fuses its attention and the other computes it in parts, with a softmax of its own."""
    fused = [row for row in figures.categories if "Attention" in row.kernel_category]
    fused_in = {row.status for row in fused}
    softmax_in = {row.status for row in figures.categories if row.kernel_category == "Softmax"}
    for own, other, names in ((ONLY_B, ONLY_A, "BA"), (ONLY_A, ONLY_B, "AB")):
        if fused_in == {own} and softmax_in == {other}:
            kinds = listed([row.kernel_category for row in fused][:2])
            return [f"Attention is fused in {names[0]} ({kinds}), in parts with a Softmax in {names[1]}."]
    return []


def _new_and_gone(figures: ComparisonFigures, verdict: str) -> list[str]:
    """Categories that only one of the runs has, often the change itself, unless the verdict has named them."""
    unnamed = [row for row in figures.categories if row.kernel_category not in verdict]
    texts = []
    for side, status in (("B", ONLY_B), ("A", ONLY_A)):
        times = [
            (row.kernel_category, row.b_us if side == "B" else row.a_us) for row in unnamed if row.status == status
        ]
        notable = [f"{name} ({_time(us)})" for name, us in times if us >= 0.2 * figures.notable_us]
        if notable:
            texts.append(f"Only {side} runs {listed(notable[:3])}.")
    return texts


def _outliers(figures: ComparisonFigures) -> list[str]:
    return [text for side in "ab" if (text := _outlier(figures.steps(side), side.upper()))]


def _outlier(steps: Sequence[StepTime], side: str) -> str:
    if len(steps) < 4:
        return ""
    typical_us = median(step.time_us for step in steps)
    longest = max(steps, key=lambda step: step.time_us)
    if longest.time_us < OUTLIER * typical_us:
        return ""
    idle = f", {_time(longest.idle_us)} of it idle" if longest.idle_us > typical_us / 4 else ""
    step = f"Step {longest.number} of {side} takes {_time(longest.time_us)}"
    return f"{step}{idle}; the median is {_time(typical_us)}."


def _matching(figures: ComparisonFigures) -> list[str]:
    least = min(figures.matched)
    if least >= SAME_WORK_PERCENT:
        return []
    of = "A" if figures.matched[0] <= figures.matched[1] else "B"
    share = f"Only {least:.0f} %" if least >= 0.5 else "Nothing"
    text = f"{share} of {of}'s GPU time is matched by op and shapes"
    return [f"{text}: are these the same work?" if max(figures.matched) < UNLIKE_PERCENT else f"{text}."]


class SetupDifference(NamedTuple):
    """Something about the runs themselves that is not the same in both."""

    what: str
    a: str
    b: str


def setup_sentence(differences: Sequence[SetupDifference]) -> str:
    """What differs before any time is compared; empty where nothing does.

    >>> setup_sentence([SetupDifference("GPU", "A100", "H100"), SetupDifference("torch", "2.7", "2.9")])
    'Not the same setup: GPU (A100 → H100) and torch (2.7 → 2.9). '
    """
    texts = [f"{difference.what} ({difference.a} → {difference.b})" for difference in differences]
    return f"Not the same setup: {listed(texts)}. " if texts else ""


def unequal_work(a_flop: float, b_flop: float) -> str:
    """A sentence where one run does clearly more arithmetic than the other: a faster run may just do less."""
    more, less = ("A", "B") if a_flop > b_flop else ("B", "A")
    ratio = max(a_flop, b_flop) / min(a_flop, b_flop)
    return f" {more} does {ratio:.2f}× the FLOPs of {less}." if ratio > UNEQUAL else ""


def _without_gpu(figures: ComparisonFigures, start: str) -> str:
    host = figures.measures.get(HOST)
    if host is None or not host.a_us or not host.b_us:
        return f"{start}."
    step = figures.step
    if not step.delta_us:
        return f"{start}. No difference: {step.span}."
    if not step.is_shown:
        return f"{start}. No difference in step time is shown: {step.span}; {step.unseen}."
    if step.ratio < SAME:
        return f"{start}; B is as fast as A: {step.span}."
    faster = f"{start}; B is {step.compared.text}: {step.span}."
    return " ".join([faster, *_sure(figures)])


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


def noise_line(tables: Mapping[str, Table], *, per_step: bool) -> str:
    """How much the steps of each run differ, and what that hides."""
    figures = ComparisonFigures(tables, EVERYTHING, per_step)
    total, host = figures.measures["total"], figures.measures.get("host")
    is_of_host = not total.a_us or not total.b_us
    if is_of_host and host is not None and host.noise_us is not None:
        return f"differences up to {_time(host.noise_us)} per step are marked ~"
    if is_of_host or total.noise_us is None:
        return f"unknown: at least two {'' if per_step else 'marked '}steps are needed on both sides"
    spreads = [_spread([step.time_us for step in figures.steps(side)]) for side in "ab"]
    text = f"a step's GPU span varies ±{_time(spreads[0])} (A) and ±{_time(spreads[1])} (B)"
    return f"{text}; ~: within the spread (span: {_time(total.noise_us)})"


def caveat(tables: Mapping[str, Table]) -> str:
    """A warning where the host's pace decides: a profiler slows the host, not the GPU; empty elsewhere."""
    figures = ComparisonFigures(tables, EVERYTHING, per_step=True)
    main = max(figures.parts(IDLE), key=lambda part: abs(part.delta_us), default=None)
    if not figures.notable_us or abs(figures.idle.delta_us) < figures.notable_us:
        return ""
    if main is None or main.part != HOST_BUSY:
        return ""
    return "recording slows the host, most of all with stacks: without it there is less idle time"


def _spread(times_us: Sequence[float]) -> float:
    complete = times_us[:-1] if len(times_us) > 2 else times_us
    return stdev(complete) if len(complete) > 1 else 0.0


def gpu_time_sentence(a_us: float, b_us: float) -> str:
    """Of all that was recorded: how often each ran what is not known.

    >>> gpu_time_sentence(2000, 1000), gpu_time_sentence(2000, 2000), gpu_time_sentence(0, 10)
    ("B's GPU time is 2.00× shorter: 2.00 → 1.00 ms in all. ", '', '')
    """
    if not a_us or not b_us or max(a_us, b_us) < SAME * min(a_us, b_us):
        return ""
    longer = "longer" if b_us > a_us else "shorter"
    return f"B's GPU time is {max(a_us, b_us) / min(a_us, b_us):.2f}× {longer}: {span_us(a_us, b_us)} in all. "


def tables_verdict(tables: Sequence[Table]) -> str:
    """For profiles without timelines: in how many tables anything differs."""
    changed = sum(_differs(table.frame) for table in tables)
    return f"{changed} of {len(tables)} tables differ." if changed else f"No difference in {len(tables)} tables."


def _differs(frame: pl.DataFrame) -> bool:
    deltas = [name for name in frame.columns if name.startswith("delta_")]
    return bool((frame["status"] != BOTH).any()) or any(bool((frame[name] != 0).any()) for name in deltas)
