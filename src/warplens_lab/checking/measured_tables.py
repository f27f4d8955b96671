"""Tables of measured kernels: `kernel_measured`, a row per compilation; `kernel_stalls`, a row per sampled line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from warplens.model.measured import LineSamples
from warplens.model.table import Column, Table
from warplens_lab.facts.browsing import machine_code
from warplens_lab.facts.instruction_classes import class_of
from warplens_lab.measured.joining import KernelMeasurements

if TYPE_CHECKING:
    from warplens_lab.checking.checks import KernelCheck
    from warplens_lab.compiling.compiling import Artefacts

Row = dict[str, Any]
MOST_NAMES: Final = 6
"""Different instructions of a line that are named; the rest are counted."""
TELLING: Final = (
    "matrix", "global_load", "global_store", "async_copy", "atomic", "shared_load", "shared_store", "local", "sync",
    "special", "shuffle",
)  # fmt: skip
"""Classes that say what a line does, before the arithmetic of its addresses."""
KEY: Final = (
    Column("kernel", "its name", "", pl.String),
    Column("target", "what it was compiled for", "", pl.String),
    Column("config", "constants and options", "", pl.String),
)
MEASURED: Final = (
    *KEY,
    Column("profile_kernel", "its name in the profile", "", pl.String),
    Column("profile", "the file that the times are from", "", pl.String),
    Column("count", "launches", "", pl.Int64),
    Column("total_us", "sum of their durations", "us", pl.Float64),
    Column("mean_us", "mean duration", "us", pl.Float64),
    Column("percent", "share of all GPU time of the profile", "%", pl.Float64),
    Column("flop", "floating operations of a launch", "flop", pl.Float64),
    Column("bytes", "bytes that a launch must move", "bytes", pl.Float64),
    Column("work_from", "who says so: a trace of the same launch, or the program's own metrics", "", pl.String),
    Column("dram_bytes", "bytes of a launch that the GPU's counters saw", "bytes", pl.Float64),
    Column("tflops", "operations over the mean duration", "TFLOP/s", pl.Float64),
    Column("tbps", "bytes over the mean duration", "TB/s", pl.Float64),
    Column("card", "GPU whose limits hold", "", pl.String),
    Column("bound", "what a launch needs most time for: a unit with its type, or memory", "", pl.String),
    Column("roofline_us", "the least time that the card needs for it", "us", pl.Float64),
    Column("percent_of_roofline", "roofline_us over mean_us", "%", pl.Float64),
    Column("ceiling", "where that limit comes from: measured, or the data sheet", "", pl.String),
    Column("flag", "why the share is not to be taken at face value", "", pl.String),
    Column("samples", "samples of the program counter in it", "count", pl.Int64),
    Column("stalled_percent", "those in which a warp waited", "%", pl.Float64),
    Column("top_stall", "what it waited for most", "", pl.String),
    Column("top_stall_percent", "share of that among the waits", "%", pl.Float64),
    Column("notes", "what has to be said of the match", "", pl.String),
)
STALLS: Final = (
    Column(
        "place",
        "file and line that was sampled; (whole kernel) where samples have no lines",
        "",
        pl.String,
    ),
    Column("percent", "share of the kernel's samples", "%", pl.Float64),
    Column("top_stall", "what warps waited for most there", "", pl.String),
    Column("top_stall_percent", "share of that among the line's waits", "%", pl.Float64),
    Column("code", "machine instructions of the line, as compiled here, what moves data first", "", pl.String),
    Column("source", "text of the line", "", pl.String),
    Column("time_us", "the same share of the kernel's measured time", "us", pl.Float64),
    Column("samples", "samples of the program counter on it", "count", pl.Int64),
    Column("stalled_percent", "those in which a warp waited", "%", pl.Float64),
    Column("stalls", "all that it waited for, with their shares of the waits", "", pl.String),
    Column("instructions", "machine instructions of the line, as compiled here", "", pl.Int64),
    Column("in_loops", "those of them inside loops", "", pl.Int64),
    *KEY,
    Column("file", "file of the line", "", pl.String),
    Column("line", "line of the Python source", "", pl.Int64),
    Column("profile", "the file that the samples are from", "", pl.String),
)
WHOLE: Final = "(whole kernel)"


def kernel_measured(checks: Iterable[KernelCheck]) -> Table:
    """The measured times of the checks that a profile was joined to."""
    joined = _joined(checks)
    notes = dict.fromkeys(note for _, measured in joined for note in measured.notes)
    rows = [_measured_row(check, measured) for check, measured in joined]
    return Table.from_rows("kernel_measured", "one row per compilation compared with a profile", MEASURED, rows, *notes)


def kernel_stalls(checks: Iterable[KernelCheck]) -> Table:
    """The sampled lines of the checks that a profile was joined to."""
    rows = [row for check, measured in _joined(checks) for row in _stall_rows(check, measured)]
    return Table.from_rows("kernel_stalls", "one row per line of a kernel that was sampled", STALLS, rows)


def _joined(checks: Iterable[KernelCheck]) -> list[tuple[KernelCheck, KernelMeasurements]]:
    return [(check, check.measured) for check in checks if check.measured is not None]


def measured_tables(checks: Sequence[KernelCheck]) -> list[Table]:
    """Both tables."""
    return [kernel_measured(checks), kernel_stalls(checks)]


def _key(check: KernelCheck) -> Row:
    return {"kernel": check.facts.kernel, "target": check.facts.target, "config": check.facts.config}


def _measured_row(check: KernelCheck, measurements: KernelMeasurements) -> Row:
    work, reached = measurements.work, measurements.reached
    return {
        **_key(check),
        "profile_kernel": ", ".join(measurements.kernels) or None,
        "profile": measurements.source or None,
        "count": measurements.count or None,
        "total_us": measurements.total_us or None,
        "mean_us": measurements.mean_us or None,
        "percent": measurements.gpu_percent if measurements.total_ns else None,
        "flop": work.total_flop if work else None,
        "bytes": work.bytes if work else None,
        "work_from": work.source if work else None,
        "dram_bytes": measurements.dram_bytes or None,
        "tflops": reached.tflops if reached else None,
        "tbps": reached.tbps if reached else None,
        "card": reached.card if reached else None,
        "bound": reached.bound if reached else None,
        "roofline_us": reached.roofline_us if reached else None,
        "percent_of_roofline": reached.percent if reached else None,
        "ceiling": reached.ceiling if reached else None,
        "flag": (reached.flag if reached else "") or None,
        **_waits(whole_kernel(measurements)),
        "notes": "; ".join(measurements.notes) or None,
    }


def whole_kernel(measurements: KernelMeasurements) -> LineSamples:
    """The samples of all lines together."""
    reasons: Counter[str] = Counter()
    for sample in measurements.samples:
        reasons.update(dict(sample.reasons))
    return LineSamples(
        measurements.sample_count, sum(sample.stalled for sample in measurements.samples), tuple(reasons.most_common())
    )


def _waits(line: LineSamples) -> Row:
    if not line.samples:
        return dict.fromkeys(("samples", "stalled_percent", "top_stall", "top_stall_percent"))
    top, most = line.reasons[0] if line.reasons else (None, 0)
    return {
        "samples": line.samples,
        "stalled_percent": 100 * line.stalled / line.samples,
        "top_stall": top,
        "top_stall_percent": 100 * most / max(1, sum(count for _, count in line.reasons)),
    }


def stalls_text(line: LineSamples, most: int | None = None) -> str:
    """
    >>> stalls_text(LineSamples(10, 8, (("wait", 6), ("barrier", 2))))
    'wait 75 %, barrier 25 %'
    """
    total = max(1, sum(count for _, count in line.reasons))
    largest = line.reasons[:most]
    return ", ".join(f"{name} {100 * count / total:.0f} %" for name, count in largest)


def _stall_rows(check: KernelCheck, measurements: KernelMeasurements) -> Iterator[Row]:
    artefacts = check.artefacts
    code = line_code(artefacts) if artefacts is not None and measurements.has_lines else {}
    counts = {(PurePath(line.place.file).name, line.place.line): line for line in check.facts.lines}
    for sample in measurements.samples:
        place = (PurePath(sample.file.replace("\\", "/")).name, sample.line)
        own = counts.get(place) if sample.line else None
        share = sample.samples / measurements.sample_count if measurements.sample_count else 0.0
        yield {
            **_key(check),
            "place": f"{place[0]}:{place[1]}" if sample.line else WHOLE,
            "file": place[0] if sample.line else None,
            "line": sample.line or None,
            "source": (own.source if own else sample.source) or None,
            **_waits(sample),
            "percent": 100 * share,
            "time_us": measurements.total_us * share or None,
            "stalls": stalls_text(sample),
            "instructions": own.instructions if own else None,
            "in_loops": own.in_loops if own else None,
            "code": code.get(place),
            "profile": measurements.sampled_in,
        }


def line_code(artefacts: Artefacts) -> dict[tuple[str, int], str]:
    """The machine instructions of each line of the user's files, by name: `HGMMA ×4, LDGSTS.E.128 ×8`."""
    names: dict[tuple[str, int], Counter[str]] = {}
    for instruction in machine_code(artefacts):
        place = instruction.place
        if place is not None:
            names.setdefault((PurePath(place.file).name, place.line), Counter())[instruction.name] += 1
    return {place: _listed(counts, artefacts.target.vendor) for place, counts in names.items()}


def _listed(counts: Counter[str], vendor: str) -> str:
    ordered = sorted(counts, key=lambda name: (_rank(name, vendor), -counts[name], name))
    rest = sum(counts[name] for name in ordered[MOST_NAMES:])
    texts = [f"{name} ×{counts[name]}" if counts[name] > 1 else name for name in ordered[:MOST_NAMES]]
    return ", ".join([*texts, *([f"{rest} more"] if rest else [])])


def _rank(name: str, vendor: str) -> int:
    kind = class_of(vendor, name)
    return TELLING.index(kind) if kind in TELLING else len(TELLING)
