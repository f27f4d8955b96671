"""Nsight Compute's CSV files: counters of single kernel launches (`ncu --page raw|details|source --csv`).

Reads: time, DRAM traffic, use of the units, caches, occupancy and its limit, stalls; on the details page what the rules
said; on the source page the machine instructions with their lines, samples and counters; of any section set, in scaled
or base units, with the profiler's and the program's lines around the table. Ignores: the other metrics, instances, the
session page, and summaries over launches. `report` has Nsight Compute export binary reports (.ncu-rep) to these pages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Final

import msgspec
import numpy as np

from warplens.model.budget import spend
from warplens.model.call_paths import CallPaths
from warplens.model.kinds import NONE
from warplens.model.measured import ISSUED
from warplens.model.quality import Note, Quality
from warplens.model.trace import Device, Meta
from warplens.model.tree import Tree, build_tree
from warplens.readers.ncu.counters import DEVICE_ATTRIBUTES, LaunchValues, wanted
from warplens.readers.ncu.rows import DETAILS, HEADER, SOURCE, Pages, ProfiledLaunch, read_pages
from warplens.readers.ncu.source_page import NO_FIGURES, START, SourcePage, read_source_page, with_source
from warplens.readers.ncu.tables import (
    MeasuredLaunch,
    counters_table,
    instructions_table,
    rules_table,
    stalls_table,
)
from warplens.readers.ncu.values import base_unit, has_decimal_comma
from warplens.readers.shared.stored_file import UNFINISHED
from warplens_run.base.errors import FormatError

EXPORT: Final = "export it with: ncu --page raw --csv --import x.ncu-rep > x.csv"
SOURCE_EXPORT: Final = "export it with: ncu --page source --print-source cuda,sass --csv --import x.ncu-rep > x.csv"
SASS_EXPORT: Final = "without lines: ncu --page source --print-source sass --csv --import x.ncu-rep > x.csv"
UNNAMED: Final = "(kernel without a name)"

_PROFILER_LINE: Final = re.compile(r"^\ufeff?==(?:PROF|WARNING|ERROR)== ", re.MULTILINE)
_SUMMARY: Final = re.compile(r'^\ufeff?"?Process ID"?[,;\t][^\n]{0,400}Invocations\b', re.MULTILINE)
_SESSION: Final = re.compile(r'\A\ufeff?Launch Settings\r?\n"Launch Attribute"')
_OTHER_PAGES: Final = (
    # (mark, what it is, hint; without a hint the matched line says what is wrong)
    (_SUMMARY, "a summary over launches", "export it without --print-summary"),
    (NO_FIGURES, "the source page without figures", SOURCE_EXPORT),
    (START, "a source page without instructions", SOURCE_EXPORT),
    (_SESSION, "the session page", EXPORT),
    (re.compile(r"^ +Section: \S", re.MULTILINE), "printed text, not CSV", "add --csv to the command"),
    (re.compile(r"^\ufeff?==ERROR== [^\n]{1,200}", re.MULTILINE), "only an error message", ""),
    (re.compile(r"^\ufeff?==WARNING== No lineinfo ", re.MULTILINE), "of kernels without source lines", SASS_EXPORT),
)
ADDITIVE: Final[dict[str, Callable[[MeasuredLaunch], Decimal | None]]] = {
    "dram_bytes": lambda result: result.dram_bytes,
    "dram_read_bytes": lambda result: result.numbers.get("dram_read"),
    "dram_write_bytes": lambda result: result.numbers.get("dram_write"),
    "instructions": lambda result: result.numbers.get("instructions"),
}
"""The metrics that add up over launches: those of the tree."""


def matches(head: bytes) -> bool:
    """Whether the first bytes of a file are of a CSV page, or of what the profiler printed around one."""
    text = _decode(head)
    return any(pattern.search(text) for pattern in (HEADER, _PROFILER_LINE, _SUMMARY, START, NO_FIGURES, _SESSION))


def read(text: bytes, meta: Meta, notes: list[Note]) -> CallPaths:
    decoded = _decode(text)
    pages = read_pages(decoded, wanted)
    source = read_source_page(decoded) if START.search(decoded) else SourcePage()
    pages = with_source(pages, [source])
    if not pages.launches:
        raise _refusal(decoded, meta, pages)
    if "\ufffd" in decoded:
        notes = [*notes, Note("bad_text")]
    return call_paths(pages, source.source_lines, meta, notes)


def call_paths(pages: Pages, source_lines: Mapping[tuple[str, int], str], meta: Meta, notes: list[Note]) -> CallPaths:
    """The launches as a tree with the tables of this format; `source_lines` are texts of lines of kernels."""
    values = LaunchValues(has_decimal_comma(_texts(pages)))
    measured = [_measure(launch, values) for launch in pages.launches]
    all_notes = [*notes, *_notes(pages, values, measured)]
    meta = msgspec.structs.replace(
        meta, format="ncu", devices=_devices(measured, values), events_in_file=len(measured), facts=_facts(pages)
    )
    tables = (
        counters_table(measured, values),
        stalls_table(measured),
        instructions_table([result.launch for result in measured]),
        rules_table([result.launch for result in measured], decimal_comma=values.decimal_comma),
    )
    tree, device = _tree(measured)
    extra = tuple(table for table in tables if len(table))
    return CallPaths(meta, tree, Quality(tuple(all_notes)), device, extra, source_lines)


def _decode(text: bytes) -> str:
    # PowerShell writes what it redirects as UTF-16.
    encoding = "utf-16" if text[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return text.decode(encoding, "replace").replace("\0", "")


def _refusal(text: str, meta: Meta, pages: Pages) -> FormatError:
    if not pages.kinds:
        for pattern, what, hint in _OTHER_PAGES:
            match = pattern.search(text)
            if match:
                said = "" if hint else f" ({match[0].strip()})"
                return FormatError(f"Nsight Compute output, but {what}{said}", where=meta.source, hint=hint or EXPORT)
        return FormatError("Nsight Compute output without a table", where=meta.source, hint=EXPORT)
    hint = UNFINISHED if pages.truncated else "no kernel was profiled"
    return FormatError("an Nsight Compute file without kernels", where=meta.source, hint=hint)


def _texts(pages: Pages) -> Iterator[str]:
    return (cell.text for launch in pages.launches for cell in launch.metrics.values())


def _units(pages: Pages) -> set[str]:
    return {cell.unit for launch in pages.launches for cell in launch.metrics.values()}


def _measure(launch: ProfiledLaunch, values: LaunchValues) -> MeasuredLaunch:
    grid, block = launch.grid or values.sizes(launch, "grid"), launch.block or values.sizes(launch, "block")
    named = replace(launch, kernel=launch.kernel or UNNAMED, grid=grid, block=block)
    return MeasuredLaunch(named, values.of(launch), values.stalls(launch), values.limits(launch))


def _tree(measured: list[MeasuredLaunch]) -> tuple[Tree, tuple[int, ...]]:
    """The root with a node per kernel name and below it one per sampled line, and the GPU of each node."""
    names = list(dict.fromkeys(result.launch.kernel for result in measured))
    node_of_kernel = {name: node for node, name in enumerate(names, start=1)}
    node = np.array([node_of_kernel[result.launch.kernel] for result in measured], np.int64)
    samples = _samples_by_place(measured)
    lines = [(kernel, file, line) for kernel, file, line in samples if file]
    size = len(names) + len(lines) + 1
    self_ns = np.zeros(size, np.int64)
    np.add.at(self_ns, node, np.array([_time_ns(result) for result in measured], np.int64))
    parent = np.array([-1, *[0] * len(names), *(node_of_kernel[kernel] for kernel, _, _ in lines)], np.int64)
    count = np.bincount(node, minlength=size)
    kinds = ["root", *["kernel"] * len(names), *["line"] * len(lines)]
    line_names = [f"{file}({line}): {kernel}" for kernel, file, line in lines]
    tree = build_tree(parent, ["all", *names, *line_names], kinds, self_ns, count, "GPU time")
    used: list[set[int]] = [set() for _ in range(size)]
    for number, result in zip(node.tolist(), measured, strict=True):
        used[number].add(result.launch.device)
    sums = {
        metric: np.bincount(node, np.array([float(value or 0) for value in amounts]), size).astype(np.float64)
        for metric, amounts in ((metric, [take(result) for result in measured]) for metric, take in ADDITIVE.items())
        if any(value is not None for value in amounts)
    }
    node_of_line = {place: number for number, place in enumerate(lines, start=len(names) + 1)}
    for place, counts in samples.items():
        for metric, samples_there in counts.items():
            if metric not in sums:
                spend(size, f"lines × {len(counts)} counts of samples")
            column = sums.setdefault(metric, np.zeros(size))
            column[node_of_line.get(place, node_of_kernel[place[0]])] += samples_there
    return tree.with_metrics(sums), tuple(devices.pop() if len(devices) == 1 else NONE for devices in used)


def _samples_by_place(measured: list[MeasuredLaunch]) -> dict[tuple[str, str, int], Counter[str]]:
    """By kernel, file and line the samples, under the names of Proton's trees; no file where there is no line."""
    sums: dict[tuple[str, str, int], Counter[str]] = {}
    for result in measured:
        for instruction in result.launch.instructions:
            if instruction.samples:
                counts = sums.setdefault((result.launch.kernel, instruction.file, instruction.line), Counter())
                waits = {f"stalled_{reason}": count for reason, count in instruction.stalls}
                issued = waits.get(f"stalled_{ISSUED}", 0)
                counts.update(
                    waits | {"num_samples": instruction.samples, "num_stalled_samples": instruction.samples - issued}
                )
    return sums


def _time_ns(result: MeasuredLaunch) -> int:
    return max(0, round(result.numbers.get("time", Decimal())))


def _devices(measured: list[MeasuredLaunch], values: LaunchValues) -> tuple[Device, ...]:
    """The GPUs that the launches ran on, as far as the file describes them: a source page does not."""
    if not any(result.launch.compute or DEVICE_ATTRIBUTES.keys() & result.launch.metrics for result in measured):
        return ()
    facts_of: dict[int, dict[str, str | int]] = {}
    for launch in (result.launch for result in measured):
        facts = facts_of.setdefault(max(0, launch.device), {"compute": launch.compute})
        for metric, name in DEVICE_ATTRIBUTES.items():
            if name not in facts and metric in launch.metrics:
                text = launch.metrics[metric].text
                facts[name] = text if name == "name" else int(values.number(launch, metric) or 0)
    return tuple(msgspec.convert({"id": number, **facts}, Device) for number, facts in sorted(facts_of.items()))


def _notes(pages: Pages, values: LaunchValues, measured: list[MeasuredLaunch]) -> Iterator[Note]:
    yield Note("kernel_by_kernel")
    if DETAILS in pages.kinds and any(base_unit(unit)[1] for unit in _units(pages)):
        yield Note("rounded_page")
    is_only_source = pages.kinds == {SOURCE}  # which has no figures of whole launches
    if not is_only_source and all(result.dram_bytes is None for result in measured):
        yield Note("no_dram_bytes")
    names = ", ".join(name for name, _ in values.bad.most_common(3))
    counted = {
        "missing_duration": (0 if is_only_source else sum("time" not in result.numbers for result in measured), ""),
        "negative_duration": (sum(result.numbers.get("time", 0) < 0 for result in measured), ""),
        "bad_args": (len(values.bad_launches), names),
        "damaged": (pages.damaged, "incomplete rows of the table"),
    }
    yield from (Note(code, count, detail) for code, (count, detail) in counted.items() if count)
    if pages.truncated:
        yield Note("truncated", detail="the last row of the table is incomplete")


def _facts(pages: Pages) -> dict[str, str]:
    processes = {launch.process for launch in pages.launches}
    facts = {"page": ", ".join(sorted(pages.kinds)), "profiled launches": f"{len(pages.launches):,}"}
    return facts | ({"processes": f"{len(processes):,}"} if len(processes) > 1 else {})
