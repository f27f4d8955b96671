"""Nsight Compute's own reports (`.ncu-rep`): `ncu` prints its pages, or NVIDIA's module `ncu_report` reads them.

Both run in a process of their own. `ncu` comes first: what it prints is read like the pages that a user exports. The
module serves machines that have it alone.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Final

import msgspec

from warplens.model.call_paths import CallPaths
from warplens.model.kinds import NONE
from warplens.model.quality import Note
from warplens.model.trace import Meta
from warplens.readers.ncu import report_dump
from warplens.readers.ncu.counters import wanted
from warplens.readers.ncu.reader import EXPORT, call_paths
from warplens.readers.ncu.rows import RAW, MachineInstruction, Pages, ProfiledLaunch, RuleMessage, read_pages
from warplens.readers.ncu.source_page import SourcePage, SourceSection, read_source_page, with_source
from warplens.readers.ncu.values import Cell
from warplens.readers.shared.vendor_tool import output_of, stored_report
from warplens_run.base import bounded
from warplens_run.base.errors import FormatError

SOURCE_VIEWS: Final = ("sass", "cuda,sass")
"""All instructions, and those with lines below their lines."""


class DumpedInstruction(msgspec.Struct, frozen=True):
    """An instruction as `report_dump` prints it."""

    address: int
    text: str
    executed: int
    samples: int
    stalls: dict[str, int]
    numbers: dict[str, float]
    file: str
    line: int


class DumpedLaunch(msgspec.Struct, frozen=True):
    """A launch as `report_dump` prints it."""

    kernel: str
    metrics: dict[str, tuple[str, str]]
    rules: list[RuleMessage]
    instructions: list[DumpedInstruction]
    source_lines: list[tuple[str, int, str]]


def read(text: bytes, meta: Meta, notes: list[Note]) -> CallPaths:
    ncu, spec = shutil.which("ncu"), importlib.util.find_spec("ncu_report")
    module = spec.origin if spec is not None else None
    if ncu is None and module is None:
        what = "an Nsight Compute report (.ncu-rep), which only NVIDIA's tools can read"
        raise FormatError(what, where=meta.source, hint=EXPORT)
    with stored_report(text, "report.ncu-rep") as report:
        if ncu is not None:
            return _printed(ncu, report, meta, notes)
        return _dumped(Path(str(module)), report, meta, notes)


def _printed(ncu: str, report: Path, meta: Meta, notes: list[Note]) -> CallPaths:
    """From the pages that `ncu` prints of a report."""

    def page(*options: str) -> str:
        command = [ncu, "--import", str(report), "--csv", "--page", *options]
        return output_of(command, meta.source, EXPORT).decode("utf-8", "replace")

    pages = read_pages(page("raw", "--print-units", "base"), wanted)
    if not pages.launches:
        hint = "no kernel was profiled, or this ncu is older than the report"
        raise FormatError("an Nsight Compute report of which ncu prints no kernels", where=meta.source, hint=hint)
    rules = {(launch.process, launch.id): launch.rules for launch in read_pages(page("details"), wanted).launches}
    for launch in pages.launches:
        launch.rules = rules.get((launch.process, launch.id), [])
    views: list[SourcePage] = []
    for view in SOURCE_VIEWS:
        try:
            views.append(read_source_page(page("source", "--print-source", view)))
        except FormatError as error:  # older versions have fewer views; the counters are worth having without
            notes = [*notes, Note("report_part", detail=error.message)]
    lines = {place: text for view in views for place, text in view.source_lines.items()}
    return call_paths(with_source(pages, views), lines, meta, notes)


def _dumped(module: Path, report: Path, meta: Meta, notes: list[Note]) -> CallPaths:
    """From what NVIDIA's module reads of a report, in another process."""
    command = [sys.executable, "-I", report_dump.__file__, str(module.parent), str(report)]
    try:
        dumped = msgspec.json.decode(output_of(command, meta.source, EXPORT), type=list[DumpedLaunch])
    except msgspec.DecodeError as error:
        raise FormatError(f"ncu_report does not read it ({error})", where=meta.source, hint=EXPORT) from None
    if not dumped:
        raise FormatError("an Nsight Compute report without kernels", where=meta.source, hint="no kernel was profiled")
    launches = [_launch(number, launch) for number, launch in enumerate(dumped)]
    sections = [SourceSection(launch.kernel, True, [_instruction(i) for i in launch.instructions]) for launch in dumped]
    lines = {(file, number): line for launch in dumped for file, number, line in launch.source_lines}
    pages = with_source(Pages({RAW}, launches), [SourcePage(sections)])
    return call_paths(pages, lines, meta, notes)


def _launch(number: int, launch: DumpedLaunch) -> ProfiledLaunch:
    metrics = {name: Cell(*cell) for name, cell in launch.metrics.items() if wanted(name)}
    device, stream, *compute = (launch.metrics.get(name, ("", ""))[0] for name in report_dump.IDENTITY)
    return ProfiledLaunch(
        id=number,
        process=NONE,
        kernel=launch.kernel,
        grid="",
        block="",
        device=bounded.whole(device, NONE, 0),
        stream=bounded.whole(stream, NONE, 0),
        compute=".".join(filter(None, compute)),
        metrics=metrics,
        rules=launch.rules,
    )


def _instruction(dumped: DumpedInstruction) -> MachineInstruction:
    return MachineInstruction(
        address=dumped.address,
        text=dumped.text,
        executed=dumped.executed,
        samples=dumped.samples,
        stalls=tuple(dumped.stalls.items()),
        numbers=tuple(dumped.numbers.items()),
        file=dumped.file,
        line=dumped.line,
    )
