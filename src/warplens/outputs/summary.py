"""The one-screen summary of a report: the Answer, and below it what takes most of the time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from warplens.model.answer import Answer, AnsweredFinding, Part
from warplens.model.table import Table
from warplens.outputs.answer_text import finding_text, part_text, step_text, whose_step
from warplens.outputs.document import Document
from warplens.outputs.furthest import furthest_text
from warplens.outputs.power_text import power_text
from warplens.outputs.summary_lists import (
    Line,
    bar,
    category_list,
    holder_list,
    host_op_list,
    kernel_list,
    kernel_list_of_step,
    memory_text,
    path_list,
    region_list,
    share_text,
    stall_list,
)
from warplens.outputs.terminal import TableText, render_table
from warplens_run.base.printable import clean
from warplens_run.base.text import cell_width, elide, fold
from warplens_run.base.units import format_joule, plural

LABEL = 10
"""The width that a summary is made for; on narrower screens it takes more lines instead of cutting."""
SPARKS = " ▁▂▃▄▅▆▇█"
MAX_WARNINGS = 3
MAX_LIMITS = 2
MAX_PARTS = 6
MAX_BAR = 16
PART_ROOM = 66
"""Cells for the name of a part of the step."""
LEAST_ROOM = 8
"""Of a name; a terminal that is narrower breaks the line."""
CAUSE_ROOM = 48
"""Of those for its cause."""
MAX_FINDINGS = 3
NO_STEP_TIME = " without a gain in step time"
SHOWN_APART = ("quality", "findings", "evidence")
MAX_ROWS = 10
MAX_TEXT = 1200
REPLAY_WORDS = {
    # what a replay on a GPU measures; one on a CPU claims none of it
    "same kernels": "{:.1f} % of that by the same kernels",
    "in range": "{:.1f} % in the trace's own range",
    "replayed / traced": "{:.2f} × the traced time",
}


def render_summary(document: Document, *, width: int, written: Sequence[str] = ()) -> TableText:
    """All lines of the first screen."""
    answer, tables = document.answer, {table.name: table for table in document.tables}
    lines = [
        *((line, "bold") for line in _whole(" · ".join(answer.opened), width)),
        *_warnings(answer, width),
        *_labelled("verdict", answer.verdict, width, "bold"),
        *_step(answer, width),
        *_limits(answer, width),
        *_findings(answer.findings, width),
        *_parts(answer, width),
        *_more(document, tables, width),
        ("", "none"),
        *(_labelled("wrote", ", ".join(written), width) if written else []),
        *_commands(answer),
    ]
    return TableText(tuple(lines))


def _more(document: Document, tables: dict[str, Table], width: int) -> list[Line]:
    """What is not part of the Answer but says more of what was opened."""
    if document.kind == "job":
        return _of_job(document, width)
    if "kernel_categories" not in tables:
        return _first_rows(document, width)
    if "timeline" not in tables:
        kernels = tables["kernels"]
        return [
            *category_list(tables["kernel_categories"], width),
            *(kernel_list(kernels, width) if len(kernels) else path_list(tables["call_paths"], width)),
            *stall_list(tables["stalls"], width),
            *region_list(tables["regions"], width),
        ]
    answer, clock = document.answer, document.answer.clock
    return [
        *(_furthest(tables, width) if not answer.findings else []),
        *_sparkline(tables["activity"], width),
        *_power(tables, width),
        *_memory(tables, width),
        *(kernel_list_of_step(answer, width, clock) if clock else host_op_list(tables["ops"], width)),
        *region_list(tables["regions"], width),
        *_replay(tables, width),
    ]


def _of_job(document: Document, width: int) -> list[Line]:
    """The kernels of the rank whose step is shown, and the stragglers; of a single one the verdict says all."""
    answer, lines = document.answer, list[Line]()
    if answer.clock is not None and answer.kernels:
        lines += kernel_list_of_step(answer, width, answer.clock)
    stragglers = next((table for table in document.tables if table.name == "stragglers"), None)
    is_told = lines and stragglers is not None and len(stragglers) == 1
    return lines if is_told else [*lines, *_first_rows(document, width)]


def _first_rows(document: Document, width: int) -> list[Line]:
    """The first rows of the first table that has some."""
    first = next((table for table in document.tables if len(table) and table.name not in SHOWN_APART), None)
    if first is None:
        return []
    rows = render_table(first, top=MAX_ROWS, width=width).lines
    return [*(holder_list(first, width) if first.name == "memory_peak" else []), ("", "none"), *rows]


def _step(answer: Answer, width: int) -> list[Line]:
    """The clock: all times of the screen are of this step."""
    clock = answer.clock
    if clock is None:
        return []
    return _labelled(clock.whole, step_text(clock), width)


def _warnings(answer: Answer, width: int) -> list[Line]:
    """What affects the numbers stands before them."""
    lines: list[Line] = []
    for number, text in enumerate(answer.warnings[:MAX_WARNINGS]):
        lines += _labelled("" if number else "quality", f"! {text}", width, "yellow")
    if len(answer.warnings) > MAX_WARNINGS:
        more = plural(len(answer.warnings) - MAX_WARNINGS, "more warning")
        lines += _labelled("", f"… {more}: table quality", width, "dim")
    return lines


def _limits(answer: Answer, width: int) -> list[Line]:
    limits = answer.limits
    if not limits:
        complete = "complete: stacks, shapes, steps and launches are recorded"
        return _labelled("quality", complete, width) if answer.clock is not None and not answer.warnings else []
    lines: list[Line] = []
    for number, text in enumerate(limits[:MAX_LIMITS]):
        lines += _labelled("" if number else "quality", text, width, "yellow")
    if len(limits) > MAX_LIMITS:
        more = plural(len(limits) - MAX_LIMITS, "more note")
        lines += _labelled("", f"… {more}: table quality", width, "dim")
    return lines


def _parts(answer: Answer, width: int) -> list[Line]:
    """Where one step goes, the largest part first; the shares add up to 100 %."""
    clock, parts = answer.clock, answer.largest
    if clock is None or not parts:
        return []
    shown, rest = parts[:MAX_PARTS], parts[MAX_PARTS:]
    if len(rest) > 1:
        time_ms, percent, low_ms, high_ms = (
            sum(getattr(part, name) for part in rest) for name in ("time_ms", "percent", "low_ms", "high_ms")
        )
        name = plural(len(rest), "more part", "more parts")
        shown = (*shown, Part(name, "", time_ms, percent, low_ms=low_ms, high_ms=high_ms))
    else:
        shown = parts
    times = [clock.between(part.low_ms, part.high_ms) for part in shown]
    time_room = max(10, *map(len, times))
    of = f", shares of {clock.of_step(clock.step_ms)}" if clock.low_ms < clock.high_ms else ""
    title = f"where {whose_step(answer, clock)} goes{of}"
    longest_name = max(cell_width(clean(text)) for text in (title, *map(_part_name, shown)))
    name_room = max(LEAST_ROOM, min(PART_ROOM, longest_name, width - 14 - time_room))
    title = title if cell_width(title) <= name_room else title.removesuffix(of)
    room = max(0, min(MAX_BAR, width - name_room - 14 - time_room))
    header = f"{title:<{name_room}}{' ' * (room + 2 if room else 0)}  share  {'time':>{time_room}}"
    lines: list[Line] = [("", "none"), (header, "bold")]
    longest = max(part.percent for part in shown)
    for part, time in zip(shown, times, strict=True):
        length = f"  {bar(100 * part.percent / max(longest, 1e-9), room)}" if room else ""
        name, *rest_of_name = _whole(_part_name(part), name_room)
        numbers = f"{share_text(part.percent):>6}%  {time:>{time_room}}"
        lines.append((f"{name:<{name_room}}{length}{numbers}", "none"))
        lines += [(f"  {line}", "none") for line in rest_of_name]
    return lines


def _part_name(part: Part) -> str:
    """`GPU idle · host: forward (model.py:12 forward)`; a long name of a range or a file is cut in its middle."""
    name = part_text(replace(part, cause=elide(clean(part.cause), CAUSE_ROOM, middle=True)))
    with_place = f"{name} ({part.place})"
    has_place = part.place and part.place.strip("()") not in part.cause and cell_width(clean(with_place)) <= PART_ROOM
    return with_place if has_place else name


def _labelled(label: str, text: str, width: int, style: str = "none") -> list[Line]:
    lines = _whole(text, max(20, width - LABEL)) or [""]
    return [(f"{label if number == 0 else '':<{LABEL}}{line}", style) for number, line in enumerate(lines)]


def _whole(text: str, width: int) -> list[str]:
    """Sentences stay whole; only what no sentence is long enough for, a name of thousands of characters, is cut."""
    return fold(elide(clean(text), MAX_TEXT), width)


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


def _findings(findings: Sequence[AnsweredFinding], width: int) -> list[Line]:
    """The first that win something; suggestions for a kernel have no gains, so that the first of all are shown."""
    if not findings:
        return []
    shown = [finding for finding in findings if finding.wins or not any(each.gain for each in findings)][:MAX_FINDINGS]
    lines: list[Line] = [("", "none"), ("findings", "bold")]
    for finding in shown:
        first, *rest = _whole(finding_text(finding), max(20, width - 7))
        lines += [(f"{finding.code}  {first}", "none"), *((f"       {line}", "none") for line in rest)]
        lines += [(f"       {line}", "none") for line in _whole(finding.proof, max(20, width - 7))]
        place = f"{finding.place}: " if finding.place else ""
        advice = _whole(place + finding.advice, max(20, width - 7))
        lines += [(f"       {line}", "dim") for line in advice]
    if others := [finding for finding in findings if finding not in shown]:
        without = "" if any(each.wins or not each.gain for each in others) else NO_STEP_TIME
        lines.append((f"       … {plural(len(others), 'more finding', 'more findings')}{without}", "dim"))
    return lines


def _furthest(tables: Mapping[str, Table], width: int) -> list[Line]:
    text = furthest_text(tables["roofline"], tables["kernel_categories"])
    return [*_labelled("limit", text, width)] if text else []


def _commands(answer: Answer) -> list[Line]:
    """Commands to paste stay whole, however long the path."""
    return [
        (f"{'' if number else 'try':<{LABEL}}{clean(command)}", "dim") for number, command in enumerate(answer.next)
    ]
