"""An interface with the names of TraceLens, for scripts that use it already, on top of the same tables.

Categories are off by default; with `use_kernel_name_categories=True` the kernel summary gains
`kernel_category`, and the launcher summary splits each op, and so each graph launch, by category.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import polars as pl

from warplens.api import open as open_profile
from warplens.model.table import Table
from warplens.outputs import plan_outputs, write
from warplens.profiles.trace import Profile

CATEGORY_COLUMN = "kernel_category"
CATEGORY_TABLES = ("kernel_categories", "launch_categories")
REPORT_TABLES = (
    "timeline", "kernel_categories", "kernels", "launch_categories", "ops", "op_shapes", "modules", "steps", "comm",
)  # fmt: skip


class TreePerfAnalyzer:
    """Data frames about one trace file.

    >>> analyzer = TreePerfAnalyzer("samples/kineto/cudagraph_infer.json.gz", use_kernel_name_categories=True)
    >>> analyzer.get_df_kernel_launchers_summary().row(0, named=True)["kernel_category"]
    'GEMM'
    """

    def __init__(self, trace_file: str | os.PathLike[str], use_kernel_name_categories: bool = False) -> None:
        self.profile: Profile = open_profile(trace_file).with_timeline()
        self.use_kernel_name_categories = use_kernel_name_categories

    def get_df_gpu_timeline(self) -> pl.DataFrame:
        """Time and percent of each measure: busy, idle, computation, exposed communication …"""
        return self.profile.table("timeline").frame

    def get_df_kernels(self) -> pl.DataFrame:
        """One row per op, kernel and stream."""
        return self._without_category(self.profile.table("kernels").frame)

    def get_df_kernel_launchers(self) -> pl.DataFrame:
        """One row per call (op, or graph launch) that launched GPU work, in order of launch."""
        keys = ["owner", "op", "op_category"]
        by_time = pl.col("dur_ns").sum().over(*keys, CATEGORY_COLUMN)
        frame = (
            self.profile.gpu_events()
            .with_columns(by_time.alias("category_ns"))
            .group_by(keys)
            .agg(
                pl.len().alias("count"),
                (pl.col("dur_ns").sum() / 1000).alias("total_us"),
                pl.col("start_ns").min(),
                pl.col(CATEGORY_COLUMN).sort_by("category_ns", CATEGORY_COLUMN).last(),
            )
            .sort("start_ns", "owner")
            .drop("owner")
        )
        return self._without_category(frame)

    def get_df_kernel_launchers_summary(self) -> pl.DataFrame:
        """One row per launching op; with categories one per op and category, with the percent of the op's time."""
        if self.use_kernel_name_categories:
            return self.profile.table("launch_categories").frame
        ops = self.profile.table("ops").frame
        return ops.filter(pl.col("kernel_us") > 0)

    def _without_category(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame if self.use_kernel_name_categories else frame.drop(CATEGORY_COLUMN)


def generate_perf_report_pytorch(
    trace_file: str | os.PathLike[str],
    use_kernel_name_categories: bool = False,
    output_xlsx_path: str | os.PathLike[str] | None = None,
    output_csvs_dir: str | os.PathLike[str] | None = None,
) -> dict[str, pl.DataFrame]:
    """The report's frames by name, written to a workbook and to CSV files where paths are given."""
    profile = open_profile(trace_file)
    tables = [_shown(profile.table(name), use_kernel_name_categories) for name in REPORT_TABLES]
    chosen = [table for table in tables if use_kernel_name_categories or table.name not in CATEGORY_TABLES]
    document = replace(profile.document(()), tables=chosen)
    paths = [] if output_xlsx_path is None else [os.fspath(output_xlsx_path)]
    paths += [] if output_csvs_dir is None else [str(Path(output_csvs_dir)) + "/"]
    names, inputs = [table.name for table in chosen], [os.fspath(trace_file)]
    for target in plan_outputs(paths, tables="csv", force=True, names=names, inputs=inputs):
        write(target, document)
    return {table.name: table.frame for table in chosen}


def _shown(table: Table, with_categories: bool) -> Table:
    if with_categories or CATEGORY_COLUMN not in table.frame.columns:
        return table
    columns = tuple(column for column in table.columns if column.name != CATEGORY_COLUMN)
    return Table(table.name, table.meaning, columns, table.frame.drop(CATEGORY_COLUMN), table.notes)
