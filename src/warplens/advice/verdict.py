"""The verdict: one sentence on where the time goes."""

from __future__ import annotations

from collections.abc import Mapping

from warplens.advice.figures import TAKING_TURNS, TraceFigures
from warplens.advice.thresholds import IDLE_BOUND_PERCENT, THRESHOLDS
from warplens.analyses.time.gaps import SHORT_GAPS, UNKNOWN
from warplens.model.table import Table

COMMUNICATION_BOUND_PERCENT = 30.0
BECAUSE = {
    "host busy": "the host is still preparing the next launch",
    "host sync": "the host waits for the GPU before it continues",
    "memory allocation": "the host is allocating memory",
    "kernel loading": "the host is loading kernels",
    "data loading": "the host waits for data",
    "launch call": "launch calls take long",
    "dependency": "work waits on other streams or on launch latency",
    SHORT_GAPS: "of many short gaps between kernels",
    TAKING_TURNS: "one GPU works after the other",
}


def verdict(tables: Mapping[str, Table]) -> str:
    figures = TraceFigures(tables)
    if not figures.measures:
        return _without_gpu(tables["quality"])
    if not figures.has_gpu:
        return "No GPU time: every GPU event of this trace lasts 0 ns."
    idle, exposed = figures.percent("idle"), figures.percent("exposed_communication")
    if idle >= IDLE_BOUND_PERCENT:
        if figures.main_idle_cause == UNKNOWN:
            return f"Mostly idle: the GPU is idle {idle:.1f} % of the time, and this trace does not record why."
        cause = BECAUSE[figures.main_idle_cause]
        return f"Host-bound: the GPU is idle {idle:.1f} % of the time, mostly because {cause}."
    if exposed >= COMMUNICATION_BOUND_PERCENT:
        return f"Communication-bound: {exposed:.1f} % of the time is exposed communication."
    top = figures.categories[0]
    kinds = f"{top.kernel_category} takes {top.percent:.0f} % of the GPU time"
    return f"GPU-bound: the GPU is busy {figures.percent('busy'):.1f} % of the time; {kinds}{_in_graphs(figures)}."


def _in_graphs(figures: TraceFigures) -> str:
    """Inside graphs there are no ops to book time on; the reader should know why most rows say GraphLaunch."""
    frame = figures.frame("launch_categories")
    inside, whole = float(frame.filter("is_graph")["total_us"].sum()), float(frame["total_us"].sum())
    percent = 100 * inside / whole if whole else 0.0
    return f" ({percent:.0f} % of it inside graph launches)" if percent >= THRESHOLDS.graph_percent else ""


def _without_gpu(quality: Table) -> str:
    """Not the same: a run without a GPU, a file whose rest is lost, and one whose kinds are guessed."""
    codes = set(quality.frame["code"].to_list())
    if codes & {"truncated", "damaged"}:
        return "No GPU work in the readable part of this trace."
    if "regions_only" in codes:
        return "Regions inside kernels, warp by warp: the table regions has their times; no GPU time is recorded."
    if "chrome" in codes:
        return "No GPU work recognised: nothing in this Chrome trace is named after a GPU."
    return "CPU only: this trace has no GPU work."
