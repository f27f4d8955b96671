"""TraceLens' frames and report of a JAX profile: a row per kernel. What its kernels cost is not known here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from warplens.compat import launchers
from warplens.compat.absent import absent, refuse
from warplens.compat.analyzer import OneOrMore, TreePerfAnalyzer, of_launchers
from warplens.compat.calls import Calls, Inputs
from warplens.compat.frame import Frame
from warplens.compat.launchers import DETAILS
from warplens.compat.names import AGGREGATES, CATEGORY, DIRECT, INPUTS, JAX_CATEGORIES, KERNEL_CATEGORY, SUBTREE
from warplens.compat.report import handed_out, read_arch, write_sheets
from warplens.compat.timeline import timeline_rows
from warplens.model.kinds import CODE
from warplens.profiles.options import AnyPath

UNCATEGORIZED: Final = "Uncategorized Events/XLA"
ATTENTION: Final = "FA "
"""How categories begin that the name of a kernel decides, whatever instruction it belongs to."""
NOT_RECORDED: Final = "NA"
COSTS: Final = "warplens show TRACE kernels"


def jax_category(kernel: str, instruction: str) -> str:
    """TraceLens' category of a kernel of JAX and the HLO instruction that it belongs to.

    >>> jax_category("loop_add_fusion", "te_fused_attn_backward_ffi.12"), jax_category("loop_add_fusion", "add.1")
    ('TE', 'Uncategorized Events/XLA')
    """
    by_name, by_instruction = (
        next((category for category, keys in JAX_CATEGORIES.items() if any(key in text for key in keys)), "")
        for text in (kernel, instruction)
    )
    decided = by_name if by_name.startswith(ATTENTION) else by_instruction or by_name
    return decided or UNCATEGORIZED


def jax_timeline(calls: Calls) -> Frame:
    """The timeline of each GPU; TraceLens numbers them from 1."""
    device = calls.gpu["device"].to_numpy()
    return Frame.of_rows(
        row | {"gpu_pid": number + 1}
        for number in np.unique(device).tolist()
        for row in timeline_rows(calls, device == number)
    )


def averages(timeline: Frame) -> Frame:
    """The mean of each measure over the GPUs."""
    grouped = timeline.grouped(["type"], {"time ms": ["mean"]}).renamed({"time ms_mean": "time ms"})
    whole = dict(zip(grouped["type"], grouped["time ms"], strict=True)).get("total_time", 0.0)
    grouped["percent"] = [100 * ms / whole if whole else float("nan") for ms in grouped["time ms"]]
    return grouped


def summary_per_gpu(frame: Frame) -> Frame:
    """Kernels by name, in all and per GPU."""
    return _per_gpu(launchers.summary(frame), frame)


def category_per_gpu(frame: Frame) -> Frame:
    """Kernels by category, in all and per GPU."""
    return _per_gpu(launchers.summary_by_category(frame), frame)


def _per_gpu(summed: Frame, frame: Frame) -> Frame:
    if frame:
        count = max(1, len(set(frame["pid"])))
        summed["time ms per gpu"] = [ms / count for ms in summed[f"{DIRECT}_ms"]]
    return summed


class JaxTreePerfAnalyzer(TreePerfAnalyzer):
    """TraceLens' frames about one JAX profile: a row per kernel, sums by name, category and GPU.

    >>> analyzer = JaxTreePerfAnalyzer("samples/jax/transformer_step.xplane.pb.gz")
    >>> analyzer.get_df_kernel_launchers_summary_by_category()["op category"][0]
    'GEMM'
    """

    def __init__(
        self,
        tree: AnyPath,
        *args: Any,
        kernel_metadata_keyword_filters: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(tree, *args, **{"jax": True} | kwargs)
        self.kernel_metadata_keyword_filters = kernel_metadata_keyword_filters

    def get_df_gpu_timeline(self, micro_idle_thresh_us: float | None = None, gpu_pid: int | None = None) -> Any:
        """How each GPU spends its time; `gpu_pid` is the number of one of them, from 1."""
        frame = jax_timeline(self.calls)
        return frame.where([gpu_pid in (None, pid) for pid in frame["gpu_pid"]]).to_pandas()

    def get_df_gpu_events_averages(self, gpu_pid: int | None = None) -> Any:
        """The same, as the mean over the GPUs."""
        frame = jax_timeline(self.calls)
        return averages(frame.where([gpu_pid in (None, pid) for pid in frame["gpu_pid"]])).to_pandas()

    def launchers_frame(
        self,
        *,
        id_cols: bool = True,
        include_kernel_details: bool = True,
        include_args: bool = True,
        args_cols: Sequence[str] = INPUTS,
        gpu_pid: int | None = None,
        gpu_kernel_op_cats: Sequence[str] | None = None,
        **unused: Any,
    ) -> Frame:
        rows = []
        for event in np.flatnonzero(self.calls.gpu["kind"].to_numpy() == CODE["kernel"]).tolist():
            row = self._row(event)
            if (gpu_kernel_op_cats and row[CATEGORY] not in gpu_kernel_op_cats) or gpu_pid not in (None, row["pid"]):
                continue
            left_out = [] if id_cols else ["pid", "tid"]
            left_out += [] if include_kernel_details else [DETAILS]
            left_out += [name for name in INPUTS if not include_args or name not in args_cols]
            if self._has_keyword(event):
                rows.append({name: value for name, value in row.items() if name not in left_out})
        return Frame.of_rows(rows)

    def _row(self, event: int) -> dict[str, Any]:
        calls = self.calls
        duration_us, launch = int(calls.dur_ns[event]) / 1000, int(calls.launch[event])
        launched_ns = int(calls.trace.ints("start_ns")[launch]) if launch >= 0 else None
        latency_us = float("nan") if launched_ns is None else (int(calls.start_ns[event]) - launched_ns) / 1000
        row = {
            "name": calls.kernel[event],
            "UID": calls.uid[event],
            CATEGORY: jax_category(calls.kernel[event], calls.caller[event]),
            DIRECT: duration_us,
            SUBTREE: duration_us,
            "direct_kernel_count": 1,
            "pid": int(calls.gpu["device"][event]) + 1,
            "tid": calls.stream_of(event),
            **Inputs((), (), (), ()).named(),
            DETAILS: [{"name": calls.kernel[event], "dur": duration_us, "operands": NOT_RECORDED}],
            "GPU_kernel_launch_latency": latency_us,
        }
        return row | ({KERNEL_CATEGORY: calls.category[event]} if self.use_kernel_name_categories else {})

    def _has_keyword(self, event: int) -> bool:
        """Whether the instruction of a kernel or a scope around it contains one of the keywords."""
        keywords = self.kernel_metadata_keyword_filters
        if not keywords or self.calls.op[event] < 0:
            return not keywords
        return any(key in name for name in self.calls.call_stack(int(self.calls.op[event]), ("",)) for key in keywords)

    def get_df_kernel_launchers(
        self,
        id_cols: bool = True,
        include_kernel_details: bool = False,
        include_call_stack: bool = False,
        include_first_occurrence_time: bool = False,
        gpu_pid: int | None = None,
        gpu_kernel_op_cats: Sequence[str] | None = None,
        include_args: bool = True,
        args_cols: Sequence[str] | None = INPUTS,
    ) -> Any:
        """A row per kernel; `gpu_kernel_op_cats` are the categories that are wanted."""
        return self.launchers_frame(
            id_cols=id_cols,
            include_kernel_details=include_kernel_details,
            gpu_pid=gpu_pid,
            gpu_kernel_op_cats=gpu_kernel_op_cats,
            include_args=include_args,
            args_cols=args_cols or INPUTS,
        ).to_pandas()

    get_df_kernel_launchers_summary = of_launchers(summary_per_gpu)
    get_df_kernel_launchers_summary_by_category = of_launchers(category_per_gpu)

    def get_df_xla_perf(self, df_xla_events: Any = None) -> Any:
        """The bytes of a fusion's operands, which are not recorded here: raises the sentence."""
        absent("JaxTreePerfAnalyzer.get_df_xla_perf", COSTS)

    def metrics_frame(self, events: Iterable[Mapping[str, Any] | int], **options: Any) -> Frame:
        absent("JaxTreePerfAnalyzer.build_df_perf_metrics", COSTS)

    def unified_frame(self, **options: Any) -> Frame:
        absent("JaxTreePerfAnalyzer.build_df_unified_perf_table", COSTS)


def generate_perf_report_jax(
    profile_path: AnyPath,
    output_xlsx_path: AnyPath | None = None,
    output_csvs_dir: AnyPath | None = None,
    kernel_metadata_keyword_filters: Sequence[str] | None = None,
    gpu_arch_json_path: AnyPath | None = None,
    gpu_arch_platform: str | None = None,
    gpu_arch: Mapping[str, Any] | None = None,
    enable_origami: bool = False,
    *,
    use_kernel_name_categories: bool = False,
    rules: OneOrMore = (),
    cache: bool = True,
) -> Mapping[str, Any]:
    """Writes TraceLens' workbook of a JAX profile and returns its sheets as pandas frames by name.

    The sheets that need what kernels cost (`df_xla_perf`, `op_…`) are absent.
    """
    refuse({"enable_origami": enable_origami})
    analyzer = JaxTreePerfAnalyzer(
        profile_path,
        arch=read_arch(gpu_arch, gpu_arch_json_path, gpu_arch_platform),
        kernel_metadata_keyword_filters=kernel_metadata_keyword_filters,
        use_kernel_name_categories=use_kernel_name_categories,
        rules=rules,
        cache=cache,
    )
    timeline, frame = jax_timeline(analyzer.calls), analyzer.launchers_frame()
    sheets = {
        "gpu_timeline": timeline,
        "gpu_events_averages": averages(timeline),
        "kernel_launchers": frame,
        "kernel_launchers_summary": summary_per_gpu(frame),
        "kernel_launchers_summary_by_category": category_per_gpu(frame),
        "kernel_launchers_unique_args": launchers.unique_args(frame, agg_metrics=AGGREGATES, include_pct=True),
    }
    of_xla = frame.where([category == UNCATEGORIZED for category in frame.get(CATEGORY, ())])
    if of_xla.height:
        names = ["".join(letter for letter in name if not letter.isdigit()) for name in of_xla["name"]]
        sheets["xla_summary"] = summary_per_gpu(Frame({**of_xla, "name": names}))
    write_sheets(sheets, profile_path, output_xlsx_path, output_csvs_dir, ending=".xplane.pb")
    return handed_out(sheets)
