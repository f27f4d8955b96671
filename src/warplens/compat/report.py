"""`generate_perf_report_pytorch`: TraceLens' report of one trace, as frames, a workbook and CSV files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from warplens.compat import launchers, metrics, unified
from warplens.compat.absent import refuse
from warplens.compat.analyzer import OneOrMore, TreePerfAnalyzer
from warplens.compat.frame import Frame
from warplens.compat.kernels import kernel_summary as summary_of_kernels
from warplens.compat.kernels import short_kernels
from warplens.compat.launchers import DETAILS, STATISTICS, with_truncated
from warplens.compat.metrics import Arch
from warplens.compat.names import (
    AGGREGATES,
    CATEGORY_TIMES,
    KERNEL_CATEGORY,
    ONE_SHEET,
    OP_SHEETS,
    OVERLAP,
    build_sheet_category_to_op_names,
)
from warplens.compat.timeline import collectives, gpu_timeline
from warplens.hardware import gpu_named
from warplens.outputs.workbook import plain_workbook_bytes
from warplens.profiles.options import AnyPath
from warplens_run.base import bounded
from warplens_run.base.errors import FormatError, MissingExtra, UsageError
from warplens_run.base.files import check_inputs, whole_files

OVERLAPPING: Final = "_kl_overlap"
COSTED_BACKWARD: Final = frozenset(
    {
        "flash_attn::_flash_attn_varlen_backward",
        "aten::convolution_backward",
        "ConvBias_Backward",
        "ConvBiasReLU_Backward",
    }
)
"""Backward ops with models of their own: their rows are in the backward sheet, those of their forward ops are not."""
NOT_BY_FORWARD: Final = frozenset({"aten::convolution", "ConvBias_", "ConvBiasReLU_"})
WITHOUT_BACKWARD: Final = "vllm::unified_attention_with_output"


class Sheets(Mapping[str, Any]):
    """The names of what was written, where pandas is missing; a frame raises the sentence that says so."""

    def __init__(self, sheets: Mapping[str, Frame]) -> None:
        self._sheets = sheets

    def __getitem__(self, name: str) -> Any:
        return self._sheets[name].to_pandas()

    def __iter__(self) -> Iterator[str]:
        return iter(self._sheets)

    def __len__(self) -> int:
        return len(self._sheets)


def generate_perf_report_pytorch(
    profile_json_path: AnyPath,
    output_xlsx_path: AnyPath | None = None,
    output_csvs_dir: AnyPath | None = None,
    include_unlinked_kernels: bool = False,
    enable_pseudo_ops: bool = False,
    micro_idle_thresh_us: float | None = None,
    collective_analysis: bool = True,
    include_overlap_info: bool = False,
    include_first_occurrence_time: bool = False,
    kernel_summary: bool = False,
    short_kernel_study: bool = False,
    short_kernel_threshold_us: float = 10,
    short_kernel_histogram_bins: int = 100,
    topk_short_kernels: int | None = None,
    topk_ops: int | None = None,
    topk_roofline_ops: int | None = None,
    comparison_json_path: AnyPath | None = None,
    extension_file: AnyPath | None = None,
    python_path: str | None = None,
    gpu_arch_json_path: AnyPath | None = None,
    gpu_arch_platform: str | None = None,
    gpu_arch: Mapping[str, Any] | None = None,
    inductor_cache_dir: str | None = None,
    group_by_num_kernels: bool = False,
    enable_origami: bool = False,
    detect_recompute: bool = False,
    include_call_stack: bool = False,
    *,
    use_kernel_name_categories: bool = False,
    rules: OneOrMore = (),
    cache: bool = True,
) -> Mapping[str, Any]:
    """Writes TraceLens' workbook and returns its sheets as pandas frames by name.

    The workbook is `TRACE_perf_report.xlsx` beside the trace; `output_xlsx_path` names another file, `output_csvs_dir`
    a folder for a CSV file per sheet, instead of the workbook where it is given alone. Files that exist are replaced.
    The files need no pandas. With `use_kernel_name_categories` the sheet `kernel_summary` has the category of each
    kernel, and `kernel_summary_by_category` splits the time of each op and graph launch by category. `rules` are
    kernel-category rules as for `warplens.open`; without them `warplens.toml` is read.
    """
    refuse({"comparison_json_path": comparison_json_path, "extension_file": extension_file})
    analyzer = TreePerfAnalyzer.from_file(
        profile_json_path,
        enable_pseudo_ops=enable_pseudo_ops,
        arch=read_arch(gpu_arch, gpu_arch_json_path, gpu_arch_platform),
        include_unlinked_kernels=include_unlinked_kernels,
        detect_recompute=detect_recompute,
        enable_origami=enable_origami,
        use_kernel_name_categories=use_kernel_name_categories,
        rules=rules,
        cache=cache,
    )
    sheets = {"gpu_timeline": gpu_timeline(analyzer.calls, micro_idle_thresh_us, detect_recompute=detect_recompute)}
    if not analyzer.gpu_only:
        frame = analyzer.launchers_frame(include_first_occurrence_time=include_first_occurrence_time)
        sheets |= _op_sheets(frame, include_overlap_info, group_by_num_kernels, topk_ops)
        sheets |= _unified_sheets(analyzer, include_overlap_info, include_call_stack)
        sheets |= _costed_sheets(analyzer, include_overlap_info, group_by_num_kernels, topk_roofline_ops)
    total_us = _total_us(sheets["gpu_timeline"])
    if kernel_summary or use_kernel_name_categories:
        sheets["kernel_summary"] = summary_of_kernels(
            analyzer.calls, total_us, with_categories=use_kernel_name_categories
        )
    if use_kernel_name_categories:
        sheets["kernel_summary_by_category"] = launchers.summary(analyzer.launchers_frame())
    if short_kernel_study:
        bins, threshold_us = short_kernel_histogram_bins, short_kernel_threshold_us
        study = short_kernels(analyzer.calls, total_us, threshold_us=threshold_us, bins=bins, topk=topk_short_kernels)
        sheets["short_kernel_histogram"], sheets["short_kernels_summary"] = study
    if collective_analysis and not analyzer.gpu_only and (summed := collectives(analyzer.calls)).height:
        sheets["coll_analysis"] = summed
    write_sheets(sheets, profile_json_path, output_xlsx_path, output_csvs_dir, ending=".json")
    return handed_out(sheets)


def get_dfs_short_kernels(
    perf_analyzer: TreePerfAnalyzer,
    short_kernel_threshold_us: float = 10,
    histogram_bins: int = 100,
    topk: int | None = None,
) -> tuple[Any, Any]:
    """How long kernels below a threshold take, as a histogram, and which of them take most time together."""
    total_us = _total_us(gpu_timeline(perf_analyzer.calls))
    histogram, summed = short_kernels(
        perf_analyzer.calls, total_us, threshold_us=short_kernel_threshold_us, bins=histogram_bins, topk=topk
    )
    return histogram.to_pandas(), summed.to_pandas()


def add_truncated_kernel_details(
    df: Any,
    source_col: str = "kernel_details",
    new_col_name: str | None = None,
    trunc_length: int = launchers.TRUNCATED,
) -> Any:
    """A frame with a column after `source_col` in which the names of kernels are short."""
    name = new_col_name or f"trunc_{source_col}"
    return with_truncated(Frame.of_pandas(df), source_col, name, trunc_length).to_pandas()


def read_arch(
    gpu_arch: Mapping[str, Any] | None, gpu_arch_json_path: AnyPath | None, gpu_arch_platform: str | None
) -> Mapping[str, Any] | Arch | None:
    """The limits of a roofline: a dict in TraceLens' form, a file of one, or those of a GPU by its name."""
    if sum(given is not None for given in (gpu_arch, gpu_arch_json_path, gpu_arch_platform)) > 1:
        raise UsageError("of gpu_arch, gpu_arch_json_path and gpu_arch_platform at most one can be given")
    if gpu_arch_platform is not None:
        return Arch.of_gpu(gpu_named(gpu_arch_platform))
    if gpu_arch_json_path is None:
        return gpu_arch
    try:
        arch = bounded.decoded(Path(gpu_arch_json_path).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"not a readable GPU description: {error}", where=str(gpu_arch_json_path)) from error
    if not isinstance(arch, dict):
        raise FormatError("not a GPU description: no object", where=str(gpu_arch_json_path))
    return arch


def _total_us(timeline: Frame) -> float:
    """The whole time of the timeline; of the first one where there is one for recomputation too."""
    rows = zip(timeline["type"], timeline["time ms"], strict=True)
    return 1000 * next((ms for name, ms in rows if name == "total_time"), 0.0)


def _op_sheets(frame: Frame, with_overlaps: bool, group_by_num_kernels: bool, topk: int | None) -> dict[str, Frame]:
    if not frame.height:
        return {}
    plain = frame.only(name for name in frame if name not in (KERNEL_CATEGORY, CATEGORY_TIMES))
    sheets = {
        "ops_summary_by_category": launchers.summary_by_category(frame),
        "ops_summary": launchers.summary(plain),
    }
    for ending in ("", OVERLAPPING) if with_overlaps else ("",):
        summed = launchers.unique_args(
            frame,
            agg_metrics=AGGREGATES,
            include_pct=True,
            group_by_num_kernels=group_by_num_kernels,
            include_overlapping_kernels=bool(ending),
        )
        sheets[f"ops_unique_args{ending}"] = _readable(summed, "kernel_details_summary").head(topk)
    return sheets


def _readable(frame: Frame, details: str) -> Frame:
    """With short names of kernels after their details."""
    frame = with_truncated(frame, details, "trunc_kernel_details")
    overlapping = details.replace("kernel_details", OVERLAP[1])
    return with_truncated(frame, overlapping, f"trunc_{OVERLAP[1]}")


def _unified_sheets(analyzer: TreePerfAnalyzer, with_overlaps: bool, with_stacks: bool) -> dict[str, Frame]:
    frame = analyzer.unified_frame(include_call_stack=with_stacks)
    sheets = {}
    for ending in ("", OVERLAPPING) if with_overlaps and frame.height else ("",):
        summed = unified.summarize(
            frame, AGGREGATES, include_call_stack=with_stacks, include_overlapping_kernels=bool(ending)
        )
        if summed.height:
            sheets[f"unified_perf_summary{ending}"] = _readable(summed, "kernel_details_summary")
    return sheets


def _costed_sheets(
    analyzer: TreePerfAnalyzer, with_overlaps: bool, group_by_num_kernels: bool, topk: int | None
) -> dict[str, Frame]:
    """Costed ops: a sheet for each family, or one for its forward and one for its backward ops."""
    calls = analyzer.calls
    rows: dict[str, list[int]] = {}
    for row in np.flatnonzero(calls.is_op).tolist():
        rows.setdefault(calls.name(row), []).append(row)
    sheets: dict[str, Frame] = {}
    for sheet, ops in build_sheet_category_to_op_names(OP_SHEETS).items():
        of_sheet = sorted(row for op in ops for row in rows.get(op, ()))
        own = analyzer.metrics_frame(of_sheet, include_kernel_details=True, include_args=True)
        if sheet in ONE_SHEET:
            parts = {sheet: [own]}
        else:
            of_backward = [name in COSTED_BACKWARD for name in own.get("name", ())]
            linked = [row for row in of_sheet if calls.name(row) not in (*NOT_BY_FORWARD, WITHOUT_BACKWARD)]
            backward = analyzer.metrics_frame(linked, bwd=True, include_kernel_details=True, include_args=True)
            parts = {
                f"{sheet}_fwd": [own.where([not it for it in of_backward])],
                f"{sheet}_bwd": [backward, own.where(of_backward)],
            }
        for ending in ("", OVERLAPPING) if with_overlaps else ("",):
            for name, frames in parts.items():
                summed = Frame.of_rows(
                    row
                    for frame in frames
                    for row in metrics.summarize(
                        frame,
                        AGGREGATES,
                        group_by_num_kernels=group_by_num_kernels,
                        include_overlapping_kernels=bool(ending),
                    ).rows()
                )
                if summed.height:
                    sheets[name + ending] = _readable(summed, f"{DETAILS}_{STATISTICS}").head(topk)
    return sheets


def write_sheets(
    sheets: Mapping[str, Frame],
    trace: AnyPath,
    output_xlsx_path: AnyPath | None,
    output_csvs_dir: AnyPath | None,
    *,
    ending: str,
) -> None:
    """A CSV file per sheet, a workbook, or both; the workbook's default place is beside the trace."""
    files: dict[Path, bytes] = {}
    if output_csvs_dir is not None:
        files |= {Path(output_csvs_dir) / f"{name}.csv": frame.to_csv().encode() for name, frame in sheets.items()}
    if output_xlsx_path is not None or output_csvs_dir is None:
        path = output_xlsx_path or os.fspath(trace).rsplit(ending, 1)[0] + "_perf_report.xlsx"
        files[Path(path)] = plain_workbook_bytes([frame.to_table(name) for name, frame in sheets.items()])
    check_inputs(files, [os.fspath(trace)])
    with whole_files(list(files)) as staged:
        for path, content in zip(staged, files.values(), strict=True):
            path.write_bytes(content)


def handed_out(sheets: Mapping[str, Frame]) -> Mapping[str, Any]:
    """The sheets as pandas frames; without pandas, their names."""
    try:
        return {name: frame.to_pandas() for name, frame in sheets.items()}
    except MissingExtra:
        return Sheets(sheets)
