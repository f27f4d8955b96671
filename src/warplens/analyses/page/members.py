"""Which row of which table each GPU event belongs to.

With this, a table can be made again for some of the events alone: a step, a range of time. The page does so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.roofline.costing import costing
from warplens.analyses.roofline.tables import roofline_rows, transfers
from warplens.analyses.shared import shared
from warplens.analyses.time.phases import phase_of
from warplens.analyses.work.chains import chain_rows
from warplens.analyses.work.comm import KEYS as KEYS_OF_COMM
from warplens.analyses.work.comm import described_collectives
from warplens.analyses.work.launches import launch_rows
from warplens.analyses.work.modules import frame_parts, line_codes, line_context, module_codes, module_context
from warplens.analyses.work.ops import SPEC_COLUMNS
from warplens.analyses.work.repeated_calls import repeated_rows
from warplens.analyses.workspace import Workspace
from warplens.model.kinds import NONE
from warplens.model.table import Table
from warplens.model.trace import Ints

KEYS: Final = {
    # table: the columns that identify its rows; `_described` has them for each GPU event
    "kernel_categories": ("kernel_category",),
    "kernels": ("op", "kernel", "device", "stream"),
    "launch_categories": ("op", "kernel_category"),
    "ops": ("op",),
    "phases": ("phase",),
    "short_kernels": ("kernel",),
    "cost_coverage": ("reason",),
}
BACKWARD: Final = ".backward"


def members(work: Workspace, tables: Mapping[str, Table]) -> dict[str, Ints]:
    """Per table that GPU events can be divided over: for each event of `work.gpu` its row, -1 for none.

    `modules.backward` and `python_lines.backward` say which pass events count for in their row: 0 forward, 1 backward
    (they came there through a backward op), 2 neither (the optimizer).
    """
    rows_of_events = {name: members_of(work, tables[name]) for name in MEMBER_TABLES}
    rows_of_events[f"modules{BACKWARD}"] = module_context(work).passes
    rows_of_events[f"python_lines{BACKWARD}"] = line_context(work).backward.astype(np.int64)
    return rows_of_events


def members_of(work: Workspace, table: Table) -> Ints:
    """For each event of `work.gpu` its row in one of the `MEMBER_TABLES`, -1 for none."""
    if table.name in SPECIAL:
        return SPECIAL[table.name](work, table.frame)
    keys = KEYS[table.name]
    rows = _joined(_described(work).select(keys), table.frame.select(keys))
    if table.name == "short_kernels":
        rows[work.gpu["dur_ns"].to_numpy() >= work.options.short_ns] = NONE
    return rows


@shared
def _described(work: Workspace) -> pl.DataFrame:
    reasons = costing(work).groups["reason"].gather(costing(work).event_group)
    return work.gpu.select("op", "kernel", "kernel_category", "device", "stream", "owner", "op_row").with_columns(
        phase_of(work), reasons.alias("reason")
    )


def _joined(events: pl.DataFrame, rows: pl.DataFrame) -> Ints:
    """For each event the row with the same values, -1 for none."""
    numbered = rows.with_row_index("row").unique(rows.columns, keep="first")
    joined = events.join(numbered, on=rows.columns, how="left", maintain_order="left", nulls_equal=True)
    event_rows: Ints = joined["row"].cast(pl.Int64).fill_null(NONE).to_numpy().copy()
    return event_rows


def _op_shapes(work: Workspace, rows: pl.DataFrame) -> Ints:
    op_row = work.gpu["op_row"].to_numpy()
    direct = (op_row >= 0) & (op_row == work.gpu["owner"].to_numpy())
    row = np.where(direct, op_row, 0)
    spec = work.trace.events["spec"].gather(row) if len(work.trace) else pl.Series("spec", [], pl.Int32)
    specs = work.trace.specs.with_row_index("spec").with_columns(pl.col("spec").cast(pl.Int32))
    keys = ["op", *(column.name for column in SPEC_COLUMNS)]
    events = work.gpu.select("op").with_columns(spec).join(specs, on="spec", how="left", maintain_order="left")
    events = events.with_columns(pl.col(name).fill_null("") for name in keys[1:])
    return np.where(direct, _joined(events.select(keys), rows.select(keys)), NONE)


def _modules(work: Workspace, rows: pl.DataFrame) -> Ints:
    codes, texts = module_codes(work)
    row_of_module = {module: row for row, module in enumerate(rows["module"].to_list())}
    return np.array([row_of_module.get(text, NONE) for text in texts], np.int64)[codes]


def _lines(work: Workspace, rows: pl.DataFrame) -> Ints:
    codes, texts = line_codes(work)
    row_of_line = {parts: row for row, parts in enumerate(rows.select("file", "line", "function").iter_rows())}
    used = np.unique(codes)
    of_code = np.full(len(texts), NONE, np.int64)
    of_code[used] = [row_of_line[frame_parts(texts[code])] for code in used.tolist()]
    return of_code[codes]


def _comm(work: Workspace, rows: pl.DataFrame) -> Ints:
    described = described_collectives(work)
    event_rows = np.full(len(work.gpu), NONE, np.int64)
    positions = np.searchsorted(work.gpu["id"].to_numpy(), described["id"].to_numpy())
    event_rows[positions] = _joined(described.select(KEYS_OF_COMM), rows.select(KEYS_OF_COMM))
    return event_rows


SPECIAL: Final[dict[str, Callable[[Workspace, pl.DataFrame], Ints]]] = {
    "op_shapes": _op_shapes,
    "roofline": lambda work, _: roofline_rows(work),
    "transfer": lambda work, _: transfers(work).event_row,
    "launches": lambda work, _: launch_rows(work),
    "chains": lambda work, _: chain_rows(work),
    "repeated_calls": lambda work, _: repeated_rows(work),
    "modules": _modules,
    "python_lines": _lines,
    "comm": _comm,
}
MEMBER_TABLES: Final = (*KEYS, *SPECIAL)
