"""Nsight Compute's CSV files: counters of single kernel launches (`ncu --page raw --csv`, `--page details --csv`).

Reads: time, DRAM traffic, use of the units, caches, occupancy and its limit, stalls, and on the details page what the
rules said; of any section set, in scaled or base units, with the profiler's and the program's lines around the table.
Ignores: the other metrics, instances, the source and session pages, and summaries over launches. Binary reports
(.ncu-rep) are left to Nsight Compute, which exports them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Final

import msgspec
import numpy as np

from warplens.errors import FormatError
from warplens.model.call_paths import CallPaths
from warplens.model.kinds import NONE
from warplens.model.quality import Note, Quality
from warplens.model.trace import Device, Meta
from warplens.model.tree import Tree, build_tree
from warplens.readers.ncu.counters import DEVICE_ATTRIBUTES, LaunchValues, wanted
from warplens.readers.ncu.rows import DETAILS, HEADER, Pages, ProfiledLaunch, read_pages
from warplens.readers.ncu.tables import MeasuredLaunch, counters_table, rules_table, stalls_table
from warplens.readers.ncu.values import base_unit, has_decimal_comma
from warplens.readers.shared.stored_file import UNFINISHED

EXPORT: Final = "export it with: ncu --page raw --csv --import x.ncu-rep > x.csv"
UNNAMED: Final = "(kernel without a name)"

_PROFILER_LINE: Final = re.compile(r"^==PROF== ", re.MULTILINE)
_SUMMARY: Final = re.compile(r'^\ufeff?"?Process ID"?[,;\t][^\n]{0,400}Invocations\b', re.MULTILINE)
_SOURCE: Final = re.compile(r'\A\ufeff?"Kernel Name","[^\n]*\n"(?:#|Address|Source)"')
_SESSION: Final = re.compile(r'\A\ufeff?Launch Settings\r?\n"Launch Attribute"')
_OTHER_PAGES: Final = (
    # (mark, what it is, hint; without a hint the matched line says what is wrong)
    (_SUMMARY, "a summary over launches", "export it without --print-summary"),
    (_SOURCE, "the source page", EXPORT),
    (_SESSION, "the session page", EXPORT),
    (re.compile(r"^ +Section: \S", re.MULTILINE), "printed text, not CSV", "add --csv to the command"),
    (re.compile(r"^==ERROR== [^\n]{1,200}", re.MULTILINE), "only an error message", ""),
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
    return any(pattern.search(text) for pattern in (HEADER, _PROFILER_LINE, _SUMMARY, _SOURCE, _SESSION))


def read(text: bytes, meta: Meta, notes: list[Note]) -> CallPaths:
    decoded = _decode(text)
    pages = read_pages(decoded, wanted)
    if not pages.launches:
        raise _refusal(decoded, meta, pages)
    values = LaunchValues(has_decimal_comma(_texts(pages)))
    measured = [_measure(launch, values) for launch in pages.launches]
    all_notes = [*notes, *_notes(decoded, pages, values, measured)]
    meta = msgspec.structs.replace(
        meta, format="ncu", devices=_devices(measured, values), events_in_file=len(measured), facts=_facts(pages)
    )
    tables = (
        counters_table(measured, values),
        stalls_table(measured),
        rules_table([result.launch for result in measured], decimal_comma=values.decimal_comma),
    )
    tree, device = _tree(measured)
    return CallPaths(meta, tree, Quality(tuple(all_notes)), device, tuple(table for table in tables if len(table)))


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
    """The root with a node per kernel name, and the GPU of each node."""
    names = list(dict.fromkeys(result.launch.kernel for result in measured))
    node_of_kernel = {name: node for node, name in enumerate(names, start=1)}
    node = np.array([node_of_kernel[result.launch.kernel] for result in measured], np.int64)
    size = len(names) + 1
    self_ns = np.zeros(size, np.int64)
    np.add.at(self_ns, node, np.array([_time_ns(result) for result in measured], np.int64))
    parent = np.array([-1, *[0] * len(names)], np.int64)
    count = np.bincount(node, minlength=size)
    tree = build_tree(parent, ["all", *names], ["root", *["kernel"] * len(names)], self_ns, count, "GPU time")
    used: list[set[int]] = [set() for _ in range(size)]
    for number, result in zip(node.tolist(), measured, strict=True):
        used[number].add(result.launch.device)
    sums = {
        metric: np.bincount(node, np.array([float(value or 0) for value in amounts]), size).astype(np.float64)
        for metric, amounts in ((metric, [take(result) for result in measured]) for metric, take in ADDITIVE.items())
        if any(value is not None for value in amounts)
    }
    return tree.with_metrics(sums), tuple(devices.pop() if len(devices) == 1 else NONE for devices in used)


def _time_ns(result: MeasuredLaunch) -> int:
    return max(0, round(result.numbers.get("time", Decimal())))


def _devices(measured: list[MeasuredLaunch], values: LaunchValues) -> tuple[Device, ...]:
    """The GPUs that the launches ran on, as far as the file describes them."""
    facts_of: dict[int, dict[str, str | int]] = {}
    for launch in (result.launch for result in measured):
        facts = facts_of.setdefault(max(0, launch.device), {"compute": launch.compute})
        for metric, name in DEVICE_ATTRIBUTES.items():
            if name not in facts and metric in launch.metrics:
                text = launch.metrics[metric].text
                facts[name] = text if name == "name" else int(values.number(launch, metric) or 0)
    return tuple(msgspec.convert({"id": number, **facts}, Device) for number, facts in sorted(facts_of.items()))


def _notes(text: str, pages: Pages, values: LaunchValues, measured: list[MeasuredLaunch]) -> Iterator[Note]:
    yield Note("kernel_by_kernel")
    if DETAILS in pages.kinds and any(base_unit(unit)[1] for unit in _units(pages)):
        yield Note("rounded_page")
    if all(result.dram_bytes is None for result in measured):
        yield Note("no_dram_bytes")
    names = ", ".join(name for name, _ in values.bad.most_common(3))
    counted = {
        "missing_duration": (sum("time" not in result.numbers for result in measured), ""),
        "negative_duration": (sum(result.numbers.get("time", 0) < 0 for result in measured), ""),
        "bad_args": (len(values.bad_launches), names),
        "damaged": (pages.damaged, "incomplete rows of the table"),
    }
    yield from (Note(code, count, detail) for code, (count, detail) in counted.items() if count)
    if pages.truncated:
        yield Note("truncated", detail="the last row of the table is incomplete")
    if "\ufffd" in text:
        yield Note("bad_text")


def _facts(pages: Pages) -> dict[str, str]:
    processes = {launch.process for launch in pages.launches}
    facts = {"page": ", ".join(sorted(pages.kinds)), "profiled launches": f"{len(pages.launches):,}"}
    return facts | ({"processes": f"{len(processes):,}"} if len(processes) > 1 else {})
