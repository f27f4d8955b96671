"""The one-screen summary of a report: what the file is, the verdict, where the time goes, what to do next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from shlex import quote

import msgspec
import polars as pl

from warplens.model.finding import is_only_gpu_time
from warplens.model.idle_causes import largest_cause
from warplens.model.table import Table
from warplens.model.time_base import TimeBase, time_base, whole_trace
from warplens.outputs.document import Document
from warplens.outputs.furthest import furthest_text
from warplens.outputs.power_text import power_text
from warplens.outputs.summary_lists import (
    Line,
    bar,
    holder_list,
    host_op_list,
    kernel_list,
    memory_text,
    path_list,
    region_list,
    stall_list,
)
from warplens.outputs.terminal import TableText, render_table
from warplens_run.base.printable import clean
from warplens_run.base.text import elide, fold
from warplens_run.base.units import format_bytes, format_count, format_joule, format_ms, format_percent, plural

LABEL = 10
"""The width that a summary is made for; on narrower screens it takes more lines instead of cutting."""
SPARKS = " ▁▂▃▄▅▆▇█"
MAX_QUALITY = 3
STEP_NOTE = "plain_step"
"""The note that the summary has a line of its own for."""
MAX_CATEGORIES = 9
MAX_FINDINGS = 3
SHOWN_APART = ("quality", "findings", "evidence")
MAX_ROWS = 10
MAX_TEXT = 1200
MAX_TABLES = 3
WORTH_A_LOOK = ("stalls", "regions", "counter_instructions", "scopes", "counters")
"""Tables of profiles without a timeline that say more than the summary."""
REPLAY_WORDS = {
    # what a replay on a GPU measures; one on a CPU claims none of it
    "same kernels": "{:.1f} % of that by the same kernels",
    "in range": "{:.1f} % in the trace's own range",
    "replayed / traced": "{:.2f} × the traced time",
}


class NoteRow(msgspec.Struct, frozen=True):
    """A row of `quality`."""

    code: str
    severity: str
    message: str


class CategoryShare(msgspec.Struct, frozen=True):
    """A row of `kernel_categories`."""

    kernel_category: str
    count: int
    total_us: float
    percent: float


class FindingRow(msgspec.Struct, frozen=True):
    """A row of `findings`."""

    code: str
    title: str
    gain_ms: float
    gain_percent: float
    gpu_gain_ms: float
    bound: bool
    place: str
    advice: str
    gain_bytes: int
    proved_gain_ms: float | None = None
    proved_on: str = ""


def render_summary(
    document: Document, *, width: int, written: Sequence[str] = (), options: Sequence[str] = ()
) -> TableText:
    """`options` are those of the command line that the proposed commands need too."""
    tables = {table.name: table for table in document.tables}
    if "kernel_categories" not in tables:
        return _of_tables(document, width, written)
    if "timeline" not in tables:
        return _of_paths(document, tables, width, written)
    lines = [
        *_headline(document, width),
        *_quality(tables["quality"], width),
        *_labelled("verdict", document.facts["verdict"], width, "bold"),
        *_step_time(document, tables["steps"], width),
        *_findings(tables["findings"], width, is_per_step=bool(len(tables["steps"]))),
        *(_furthest(tables, width) if not len(tables["findings"]) else []),
        *_times(tables, width),
        *_power(tables, width),
        *_memory(tables, width),
        *_categories(tables["kernel_categories"], width),
        *(kernel_list(tables["kernels"], width) if len(tables["kernels"]) else host_op_list(tables["ops"], width)),
        *region_list(tables["regions"], width),
        *_replay(tables, width),
        ("", "none"),
        *_next(document, written, tables, width, options),
    ]
    return TableText(tuple(lines))


def _of_paths(document: Document, tables: dict[str, Table], width: int, written: Sequence[str]) -> TableText:
    """The summary of a profile without a timeline."""
    rich = [name for name in WORTH_A_LOOK if len(tables.get(name, ()))]
    suggestions = ["tree {trace}", *(f"show {{trace}} {name}" for name in rich[:MAX_TABLES])]
    lines = [
        *_headline(document, width),
        *_quality(tables["quality"], width),
        *_labelled("verdict", document.facts["verdict"], width, "bold"),
        *_categories(tables["kernel_categories"], width),
        *(kernel_list(tables["kernels"], width) if len(tables["kernels"]) else path_list(tables["call_paths"], width)),
        *stall_list(tables["stalls"], width),
        *region_list(tables["regions"], width),
        ("", "none"),
        *(_labelled("wrote", ", ".join(written), width) if written else []),
        *_commands(document, suggestions, width),
    ]
    return TableText(tuple(lines))


def _of_tables(document: Document, width: int, written: Sequence[str]) -> TableText:
    """The summary of what is not a profile: the verdict, then the first rows of the first table that has some.

    Notes and findings, where there are such tables, are shown as those of a trace are.
    """
    known = {table.name: table for table in document.tables if table.name in SHOWN_APART}
    findings = known.get("findings")
    first = next((table for table in document.tables if len(table) and table.name not in known), None)
    rows = render_table(first, top=MAX_ROWS, width=width).lines if first is not None else ()
    others = [table.name for table in document.tables if len(table) and table is not first and table.name not in known]
    lines = [
        *_headline(document, width),
        *(_quality(known["quality"], width) if len(known.get("quality", ())) else []),
        *_labelled("verdict", document.facts.get("verdict", ""), width, "bold"),
        *(holder_list(first, width) if first is not None and first.name == "memory_peak" else []),
        *(_findings(findings, width, is_per_step=True) if findings is not None else []),
        ("", "none"),
        *rows,
        ("", "none"),
        *(_labelled("wrote", ", ".join(written), width) if written else []),
        *_commands(document, [f"show {{trace}} {name}" for name in others[:MAX_TABLES]], width),
    ]
    return TableText(tuple(lines))


def _labelled(label: str, text: str, width: int, style: str = "none") -> list[Line]:
    lines = _whole(text, max(20, width - LABEL)) or [""]
    return [(f"{label if number == 0 else '':<{LABEL}}{line}", style) for number, line in enumerate(lines)]


def _whole(text: str, width: int) -> list[str]:
    """Sentences stay whole; only what no sentence is long enough for, a name of thousands of characters, is cut."""
    return fold(elide(clean(text), MAX_TEXT), width)


def _headline(document: Document, width: int) -> list[Line]:
    parts = [document.source.rpartition("/")[2], *document.headline]
    return [(line, "bold") for line in _whole(" · ".join(parts), width)]


def _quality(quality: Table, width: int) -> list[Line]:
    notes = [note for note in quality.records(NoteRow) if note.code != STEP_NOTE]
    if not notes:
        return _labelled("quality", "complete: stacks, shapes, steps and launches are recorded", width)
    lines: list[Line] = []
    for number, note in enumerate(notes[:MAX_QUALITY]):
        mark = "! " if note.severity == "warning" else ""
        style = "yellow" if mark else "none"
        lines += _labelled("quality" if number == 0 else "", mark + note.message, width, style)
    if len(notes) > MAX_QUALITY:
        more = plural(len(notes) - MAX_QUALITY, "more note", "more notes")
        lines += _labelled("", f"… {more}: warplens show TRACE quality", width, "dim")
    return lines


def _step_time(document: Document, steps: Table, width: int) -> list[Line]:
    """A step, or the run without steps, with and without the profiler."""
    text = document.facts.get("step time", "")
    return _labelled("step" if len(steps) else "run", text, width) if text else []


def _times(tables: dict[str, Table], width: int) -> list[Line]:
    if not len(tables["timeline"]):
        steps = _step_line(tables["steps"], width)
        return [("", "none"), *steps] if steps else []
    base = time_base(tables["steps"], tables["timeline"])
    measures, total = base.measures_ms, base.whole_ms
    busy, idle = measures["busy"], measures["idle"]
    parts = [_base_text(base, tables["timeline"]), f"busy {_share(busy, total)}", f"idle {_share(idle, total)}"]
    cause = largest_cause(tables["idle"].frame.group_by("cause").agg(pl.col("total_us").sum()).iter_rows())
    if idle and cause:
        parts[-1] += f" (mostly {cause})"
    for measure, words in (("exposed_communication", "exposed comm"), ("exposed_memcpy", "exposed copies")):
        if measures[measure] > 0.001 * total:
            parts.append(f"{words} {_share(measures[measure], total)}")
    lines = _labelled("time", " · ".join(parts), width)
    return [("", "none"), *lines, *_step_line(tables["steps"], width), *_sparkline(tables["activity"], width)]


def _memory(tables: dict[str, Table], width: int) -> list[Line]:
    """Who holds the memory, where that is recorded."""
    peak = tables.get("memory_peak")
    if peak is None or not len(peak):
        return []
    whose = "of the snapshot: " if "memory_other_run" in tables["quality"].frame["code"] else ""
    return _labelled("memory", whose + memory_text(peak), width)


def _power(tables: dict[str, Table], width: int) -> list[Line]:
    """What the GPU draws, where that was sampled."""
    text = power_text(tables.get("gpu_counters"), tables.get("step_energy"))
    return _labelled("power", text, width) if text else []


def _replay(tables: dict[str, Table], width: int) -> list[Line]:
    """What a replay of this trace measured, where one is given."""
    if "replay" not in tables:
        return []
    measures: dict[str, float] = dict(tables["replay"].frame.select("measure", "value").iter_rows())
    is_on_a_cpu = measures["covered"] > 0 and "replayed" not in measures  # its times are compared with nothing
    parts = [f"{measures['covered']:.1f} % of the GPU time run alone{', on a CPU' if is_on_a_cpu else ''}"]
    parts += [words.format(measures[name]) for name, words in REPLAY_WORDS.items() if name in measures]
    if "active energy" in measures:
        parts.append(f"{format_joule(measures['active energy'])} above {measures['idle power']:.0f} W idle")
    return [("", "none"), *_labelled("replay", " · ".join(parts), width)]


def _base_text(base: TimeBase, timeline: Table) -> str:
    """The one place that says what shares of the time are of; with steps, the whole trace may be much longer."""
    text = f"{format_ms(base.whole_ms)} on the GPU{' per step' if base.steps else ''} = 100%"
    whole_ms = whole_trace(timeline)["total"]
    return text if format_ms(whole_ms) == format_ms(base.whole_ms) else f"{text}, {format_ms(whole_ms)} in all"


def _share(part: float, whole: float) -> str:
    return format_percent(100 * part / whole if whole else 0.0)


def _step_line(steps: Table, width: int) -> list[Line]:
    if not len(steps):
        return []
    column = "gpu_ms" if steps.frame["gpu_ms"].sum() else "host_ms"
    times = steps.frame[column].sort()
    where = "GPU" if column == "gpu_ms" else "host"
    median = (times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2
    text = f"{len(times)} · median {format_ms(median)} on the {where}"
    if len(times) > 1:
        text += f" ({format_ms(times[0])} to {format_ms(times[-1])})"
    return _labelled("steps", text, width)


def _sparkline(activity: Table, width: int) -> list[Line]:
    if not len(activity):
        return []
    cells = max(10, min(len(activity), width - LABEL - 24))
    shares = activity.frame["busy_percent"].to_list()
    bounds = [round(cell * len(shares) / cells) for cell in range(cells + 1)]
    means = [sum(shares[a:b]) / max(1, b - a) for a, b in pairwise(bounds)]
    # Rounded up: only a slice without any work looks empty.
    line = "".join(SPARKS[math.ceil(min(mean, 100.0) / 100 * (len(SPARKS) - 1))] for mean in means)
    return [(f"{'activity':<{LABEL}}{line}| busy over time", "cyan")]


def _categories(categories: Table, width: int) -> list[Line]:
    rows = categories.records(CategoryShare)
    if not rows:
        return []
    shown, rest = rows[:MAX_CATEGORIES], rows[MAX_CATEGORIES:]
    if rest:
        shown.append(_together(rest))
    longest = max(row.percent for row in shown)
    room = width - 70 if width >= 78 else 0  # of bars, for which a narrow screen has none
    header = f"{'GPU time by kernel category':<{28 + (room + 2 if room else 0)}}    share         time    events"
    lines: list[Line] = [("", "none"), (header, "bold")]
    for row in shown:
        length = f"  {bar(100 * row.percent / max(longest, 1e-9), room)}" if room else ""
        name = elide(row.kernel_category, 28)
        time = format_ms(row.total_us / 1e3)
        numbers = f"{row.percent:6.1f}%  {time:>11}  {format_count(row.count):>8}"
        lines.append((f"{name:<28}{length}  {numbers}", "none"))
    return lines


def _together(categories: Sequence[CategoryShare]) -> CategoryShare:
    return CategoryShare(
        plural(len(categories), "more category", "more categories"),
        sum(category.count for category in categories),
        sum(category.total_us for category in categories),
        sum(category.percent for category in categories),
    )


def _findings(findings: Table, width: int, *, is_per_step: bool) -> list[Line]:
    rows = findings.records(FindingRow)
    if not rows:
        return []
    lines: list[Line] = [("", "none"), ("findings", "bold")]
    for row in rows[:MAX_FINDINGS]:
        gain, of = "", " per step" if is_per_step else ""
        if is_only_gpu_time(row):
            gain = f"{format_ms(row.gpu_gain_ms)} of GPU time{of} · "
        elif row.gain_ms > 0:
            gain = f"{'≤ ' if row.bound else ''}{format_ms(row.gain_ms)}{of} · "
        elif row.gain_bytes:
            gain = f"{'≤ ' if row.bound else ''}{format_bytes(row.gain_bytes)} of memory · "
        first, *rest = _whole(gain + row.title, max(20, width - 7))
        lines += [(f"{row.code}  {first}", "none"), *((f"       {line}", "none") for line in rest)]
        lines += [(f"       {line}", "none") for line in _whole(_proved(row, of), max(20, width - 7))]
        place = f"{row.place}: " if row.place else ""
        advice = _whole(place + row.advice, max(20, width - 7))
        lines += [(f"       {line}", "dim") for line in advice]
    if len(rows) > MAX_FINDINGS:
        lines.append((f"       … {len(rows) - MAX_FINDINGS} more: warplens advise TRACE", "dim"))
    return lines


def _proved(row: FindingRow, of: str) -> str:
    if row.proved_gain_ms is None:
        return ""
    won = f"{format_ms(row.proved_gain_ms)}{of}" if row.proved_gain_ms > 0 else "does not help"
    return f"proved on {row.proved_on}: {won}"


def _furthest(tables: Mapping[str, Table], width: int) -> list[Line]:
    text = furthest_text(tables["roofline"], tables["kernel_categories"])
    return [*_labelled("limit", text, width)] if text else []


def _next(
    document: Document, written: Sequence[str], tables: dict[str, Table], width: int, options: Sequence[str]
) -> list[Line]:
    wrote = _labelled("wrote", ", ".join(written), width) if written else []
    return [*wrote, *_commands(document, [_suggestion(tables), ""], width, options)]


def _suggestion(tables: dict[str, Table]) -> str:
    """What to look at next: the first of these that this trace has something to say on."""
    has_shapes = not {"no_shapes", "no_op_shapes"} & set(tables["quality"].frame["code"].to_list())
    if len(tables["regions"]):
        return "show {trace} regions"
    if len(tables.get("token_latency", ())):
        return "show {trace} token_latency"
    if "serving_phases" in tables:
        return "show {trace} serving_phases"
    if "counters_only" in tables["quality"].frame["code"]:
        return "show {trace} counters"
    if not len(tables["kernels"]):
        return "show {trace} ops --sort cpu_self_us --top 10"
    if len(tables["gaps"]) and _idle_matters(tables):
        return "show {trace} gaps --top 10"
    if len(tables["modules"]) > 1:
        return "tree {trace} --context module"
    if len(tables["python_lines"]) > 1 and not has_shapes:
        return "show {trace} python_lines --top 10"
    return "show {trace} op_shapes --top 10" if has_shapes else "tree {trace}"


def _commands(document: Document, suggestions: Sequence[str], width: int, options: Sequence[str] = ()) -> list[Line]:
    """Commands to copy stay whole: where the path is too long for the line, TRACE stands for it."""
    lines: list[Line] = []
    for number, suggestion in enumerate(suggestions):
        sources = (quote(document.source), "TRACE")
        texts = [" ".join([f"warplens {suggestion.format(trace=trace)}", *options]) for trace in sources]
        text = texts[LABEL + len(texts[0]) > width] if suggestion else "warplens explain"
        lines.append((f"{'' if number else 'try':<{LABEL}}{clean(text)}", "dim"))
    return lines


def _idle_matters(tables: dict[str, Table]) -> bool:
    base = time_base(tables["steps"], tables["timeline"])
    return base.measures_ms.get("idle", 0.0) > 0.1 * base.whole_ms
