"""The verdict: one sentence on what limits the time, and on where it goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import polars as pl

from warplens.advice.figures import TAKING_TURNS, TraceFigures
from warplens.advice.limits import (
    COMMUNICATION,
    GPU,
    HOST,
    NOT_THE_HOST,
    STREAMS,
    is_host_bound,
    is_mostly_earlier,
    limits,
    savings_ms,
)
from warplens.advice.rows import CategoryRow
from warplens.advice.serving_verdict import serving_sentence
from warplens.advice.thresholds import COMMUNICATION_BOUND_PERCENT, IDLE_BOUND_PERCENT, THRESHOLDS
from warplens.analyses.graph.bounds import StepBounds
from warplens.analyses.workspace import COMMUNICATION as COMMUNICATION_KERNELS
from warplens.categories import OTHER
from warplens.model.finding import Finding
from warplens.model.idle_causes import DEPENDENCY, KIND_OF_CAUSE, LAUNCHING, SHORT_GAPS, UNKNOWN, largest_cause
from warplens.model.iteration_marks import parse_mark
from warplens.model.table import Table
from warplens_run.base.units import format_short_ms, listed

Findings: TypeAlias = Callable[[], Sequence[Finding]]
SYNC: Final = "host sync"
BECAUSE: Final = {
    "host busy": "the host is still preparing the next launch",
    SYNC: "the host waits for the GPU before it continues",
    "memory allocation": "the host is allocating memory",
    "kernel loading": "the host is loading kernels",
    "data loading": "the host waits for data",
    LAUNCHING: "launches take long",
    DEPENDENCY: "launched work waits for other streams, copies or events",
    SHORT_GAPS: "of many short gaps between kernels",
    TAKING_TURNS: "one GPU works after the other",
}
FASTER: Final = {
    GPU: "a faster GPU",
    HOST: "a faster host",
    COMMUNICATION: "free communication",
    STREAMS: "no waits between streams",
}
SYNCHRONISING: Final = "WL301"
IDLE_RULES: Final = ("WL101", "WL104", "WL107", "WL108", "WL109", SYNCHRONISING, "WL303", "WL304", "WL601")
"""What the rules on idle time of the GPU find."""
ALL_PERCENT: Final = 99.0
EARLIER_SHARE: Final = 0.05
"""From this share of the time on, waits for work from before the recording are named."""


def verdict(tables: Mapping[str, Table], bounds: StepBounds | None = None, findings: Findings = list) -> str:
    """With the `bounds` of the step, what limits it; without, what the GPU's busy and idle time suggests.

    The `findings`, largest gain first, say whether the host prepares work late because it waited for the GPU.
    """
    figures = TraceFigures(tables, bounds=bounds)
    if not figures.measures:
        return _without_gpu(tables["quality"])
    if not figures.has_gpu:
        return "No GPU time: every GPU event of this trace lasts 0 ns."
    limit = _by_busy_time(figures) if bounds is None else _by_bounds(figures, bounds, findings)
    return f"{served} {limit}" if (served := serving_sentence(tables)) else limit


def _by_bounds(figures: TraceFigures, bounds: StepBounds, findings: Findings) -> str:
    """`Host-bound: 21.4 ms a step; a faster GPU would save 0.2 ms, a faster host up to 15.6 ms; …`."""
    limiting, savings = limits(bounds), _savings(bounds, limits(bounds))
    about, whole = "about " if bounds.is_estimated else "", _amount(bounds.plain_ms, bounds)
    earlier = _amount(bounds.earlier_ms, bounds)
    if is_mostly_earlier(bounds):
        return f"Mostly idle: {earlier} of {about}{whole} are waits for work from before the recording; {savings}."
    of = f"a {_step_name(figures)}" if figures.has_steps else "in all"
    if bounds.earlier_ms > EARLIER_SHARE * bounds.plain_ms:
        of += f", {earlier} of it behind earlier work"
    return f"{bound_name(limiting)}: {about}{whole} {of}; {savings}{_more(figures, limiting, findings)}."


def bound_name(limiting: tuple[str, ...]) -> str:
    """What limits a step in a word or two: `GPU-bound`."""
    if not limiting:
        return "Balanced"
    if limiting == (STREAMS,):
        return "Bound by waits between streams"
    if len(limiting) == 1:
        return f"{limiting[0][0].upper()}{limiting[0][1:]}-bound"
    return f"Mixed, {listed([f'{part}-' for part in limiting[:-1]] + [f'{limiting[-1]}-bound'])}"


def _savings(bounds: StepBounds, limiting: tuple[str, ...]) -> str:
    """What does not limit the step comes first, for comparison; of several that do, the largest."""
    saved = savings_ms(bounds)
    others = [part for part in (GPU, HOST) if part not in limiting and len(limiting) < 2]
    amounts = [(part, _amount(saved[part], bounds)) for part in others]
    amounts += [(part, f"up to {_amount(saved[part], bounds)}") for part in limiting]
    alone, verbs = "" if limiting or is_mostly_earlier(bounds) else " alone", (" would save", *[""] * len(amounts))
    return ", ".join(
        f"{FASTER[part]}{alone}{verb} {amount}" for (part, amount), verb in zip(amounts, verbs, strict=False)
    )


def _amount(ms: float, bounds: StepBounds) -> str:
    """What is saved, in the unit of the step's time."""
    nothing, text = (format_short_ms(value, bounds.plain_ms) for value in (0.0, max(0.0, ms)))
    return "nothing" if text == nothing else text


def _more(figures: TraceFigures, limiting: tuple[str, ...], findings: Findings) -> str:
    """Why the GPU waits where the host limits the step; what it does where it is the limit itself.

    A host that waits for the GPU has no launches ahead of it afterwards: what it prepares then is idle time of the
    same wait, as the simulated step without the wait shows.
    """
    if HOST in limiting:
        times = ((idle.cause, idle.percent_of_idle) for idle in figures.idle_causes if idle.cause not in NOT_THE_HOST)
        cause = largest_cause(times)
        if KIND_OF_CAUSE.get(cause) == "launch" and any(idle.cause == SYNC for idle in figures.idle_causes):
            first = next((finding.code for finding in findings() if finding.code in IDLE_RULES), "")
            cause = SYNC if first == SYNCHRONISING else cause
        is_idle = figures.percent("idle") >= THRESHOLDS.idle_percent and cause
        return f"; the GPU is idle mostly because {BECAUSE[cause]}" if is_idle else ""
    is_told = GPU in limiting and COMMUNICATION not in limiting and not _has_phases(figures)
    return f"; {_top_category(figures)}" if is_told else ""


def _step_name(figures: TraceFigures) -> str:
    """Passes of a served model are its steps, unless the program marks others."""
    names = figures.frame("steps")["name"].head(1).to_list()
    return "pass" if names and parse_mark(names[0]) is not None else "step"


def _has_phases(figures: TraceFigures) -> bool:
    """Prefill and decode do different work: what takes most of both together says nothing of either."""
    phases = figures.tables.get("serving_phases")
    return phases is not None and phases.frame.height > 1


def _by_busy_time(figures: TraceFigures) -> str:
    idle, exposed = figures.percent("idle"), figures.percent("exposed_communication")
    if idle >= IDLE_BOUND_PERCENT:
        if figures.main_idle_cause == UNKNOWN:
            return f"Mostly idle: the GPU is idle {idle:.1f} % of the time, and this trace does not record why."
        name = "Host-bound" if is_host_bound(figures) else "Mostly idle"
        cause = BECAUSE[figures.main_idle_cause]
        return f"{name}: the GPU is idle {idle:.1f} % of the time, mostly because {cause}."
    if exposed >= COMMUNICATION_BOUND_PERCENT:
        return f"Communication-bound: {exposed:.1f} % of the time is exposed communication."
    top, percent = _largest_category(figures), figures.percent("busy")
    taken = min(percent, percent * _share_of_busy(figures, top))
    busy = f"the GPU is busy {percent:.1f} % of the time"
    return f"GPU-bound: {busy}; {_taking(top)} {taken:.1f} % of it{_in_graphs(figures)}."


def _top_category(figures: TraceFigures) -> str:
    """In the unit of the step's time, whose part it is."""
    assert figures.bounds is not None
    top = _largest_category(figures)
    taken_ms = min(figures.bounds.plain_ms, _share_of_busy(figures, top) * figures.base.measures_ms["busy"])
    return f"{_taking(top)} {_amount(taken_ms, figures.bounds)} of it{_in_graphs(figures)}"


def _largest_category(figures: TraceFigures) -> CategoryRow:
    """Communication is not what a GPU is busy with where it is not the limit: it runs beside computation."""
    computing = (category for category in figures.categories if category.kernel_category != COMMUNICATION_KERNELS)
    return next(computing, figures.categories[0])


def _share_of_busy(figures: TraceFigures, category: CategoryRow) -> float:
    """Streams that run at once make more kernel time than there is busy time, which the category is a part of."""
    devices = figures.frame("timeline").filter((pl.col("device") != "all") & (pl.col("measure") == "busy"))
    busy_us = 1e3 * float(devices["time_ms"].sum())
    kernel_us = float(figures.frame("kernel_categories")["total_us"].sum())
    return category.percent / 100 * max(1.0, kernel_us / busy_us if busy_us else 1.0)


def _taking(category: CategoryRow) -> str:
    if category.kernel_category == OTHER:
        return "kernels of no known category take"
    return f"{category.kernel_category} takes"


def _in_graphs(figures: TraceFigures) -> str:
    """Inside graphs there are no ops to book time on; the reader should know why most rows say GraphLaunch."""
    frame = figures.frame("launch_categories")
    inside, whole = float(frame.filter("is_graph")["total_us"].sum()), float(frame["total_us"].sum())
    percent = 100 * inside / whole if whole else 0.0
    if percent < THRESHOLDS.graph_percent:
        return ""
    return f"; {'all' if percent > ALL_PERCENT else 'most'} GPU work is inside graph launches"


def _without_gpu(quality: Table) -> str:
    """Not the same: a run without a GPU, one whose GPU was not recorded, a file whose rest is lost, and one whose kinds
    are guessed."""
    codes = set(quality.frame["code"].to_list())
    if codes & {"truncated", "damaged"}:
        return "No GPU work in the readable part of this trace."
    if "regions_only" in codes:
        return "Regions inside kernels, warp by warp: the table regions has their times; no GPU time is recorded."
    if "chrome" in codes:
        return "No GPU work recognised: nothing in this Chrome trace is named after a GPU."
    if "other_accelerator" in codes:
        return "No GPU work: this trace is of another accelerator, and only its host side is reported."
    if "counters_only" in codes:
        return "Hardware counters of kernels, but no times of GPU work: the table counters has them by kernel and op."
    if "launches_only" in codes:
        return "No GPU work recorded: this trace has only the host side of a program that uses a GPU."
    if "no_cuda" in codes:
        return "No GPU work recorded: this trace has only ranges of the host."
    return "CPU only: this trace has no GPU work."
