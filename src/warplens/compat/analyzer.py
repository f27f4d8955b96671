"""`TreePerfAnalyzer`: TraceLens' frames about one trace, by the names that scripts call them."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

from warplens.api import open as open_profile
from warplens.categories import Rule
from warplens.compat import launchers, metrics, unified
from warplens.compat.absent import METHODS, TREE, absent, refuse
from warplens.compat.calls import Calls
from warplens.compat.frame import Aggregate, Frame
from warplens.compat.kernels import kernels
from warplens.compat.metrics import Arch
from warplens.compat.names import INPUTS, OP_SHEETS
from warplens.compat.timeline import gpu_timeline
from warplens.model.kinds import KINDS
from warplens.profiles.options import AnyPath, Rules
from warplens.profiles.trace import Profile
from warplens.settings import load_settings
from warplens_run.base.errors import UsageError

KINETO_CATEGORIES: Final = {
    # kind of event: how PyTorch's profiler calls it
    "op": "cpu_op", "runtime": "cuda_runtime", "kernel": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset",
    "python": "python_function", "module": "python_function", "annotation": "user_annotation",
}  # fmt: skip
INCOMPLETE: Final = frozenset({"truncated", "damaged"})
"""Notes on files of which a part is missing."""
OneOrMore: TypeAlias = Rules | Rule | AnyPath
"""Kernel-category rules: one, or several."""
ROWS_OF: Final = "df_kernel_launchers"


def open_trace(path: AnyPath, *, rules: OneOrMore, cache: bool, captures: AnyPath | None = None) -> Profile:
    """The trace with the settings of `warplens.toml` where none are given, as the command line opens it."""
    if not isinstance(path, (str, os.PathLike)):
        absent("TraceToTree", TREE)
    settings = {name: setting.value for name, setting in load_settings().items()}
    given = [rules] if isinstance(rules, (str, os.PathLike, Rule)) else [*rules]
    profile = open_profile(
        path,
        rules=given or [*settings["rules"]],
        gpu=str(settings["gpu"]),
        cache=cache,
        graph_captures=[] if captures is None else [captures],
    ).with_timeline()
    for note in profile.trace.quality.notes:
        if note.code in INCOMPLETE:  # frames have no place to say it
            warnings.warn(f"{path}: {note.message}", stacklevel=3)
    return profile


class of_launchers:  # noqa: N801 - reads like a function
    """A method made of a function of the frame of launchers.

    The frame is the analyzer's own where none is given. With one, the method can be called on the class too.
    """

    def __init__(self, function: Callable[..., Frame]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type[TreePerfAnalyzer], name: str) -> None:
        self.name = name

    def __get__(self, analyzer: TreePerfAnalyzer | None, owner: type[TreePerfAnalyzer]) -> Callable[..., Any]:
        def method(df_kernel_launchers: Any = None, *args: Any, **named: Any) -> Any:
            if isinstance(df_kernel_launchers, str):  # the frame was left out, not what comes after it
                df_kernel_launchers, args = None, (df_kernel_launchers, *args)
            if df_kernel_launchers is not None:
                return self.function(Frame.of_pandas(df_kernel_launchers), *args, **named).to_pandas()
            if analyzer is None:
                raise UsageError(f"{self.name} on the class needs the frame of get_df_kernel_launchers()")
            return self.function(analyzer.launchers_frame(), *args, **named).to_pandas()

        parameters = list(inspect.signature(self.function).parameters.values())
        first = inspect.Parameter(ROWS_OF, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
        method.__signature__ = inspect.Signature([first, *parameters[1:]])  # type: ignore[attr-defined]
        method.__name__, method.__doc__ = self.name, self.__doc__
        return method


class Tree:
    """The events of a trace as TraceLens has them, to choose some by name; all else of its tree raises one sentence."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """A dict per event: name, cat, UID, ts and dur in µs, pid, tid, and the arguments of ops."""
        calls, trace = self._calls, self._calls.trace
        arguments: dict[int, dict[str, Any]] = {}
        events = []
        columns = (trace.ints(name).tolist() for name in ("kind", "name", "start_ns", "dur_ns", "spec", "lane"))
        lanes = [calls.lane_numbers(lane) for lane in range(len(trace.lanes))]
        for row, (kind, name, start, duration, spec, lane) in enumerate(zip(*columns, strict=True)):
            if KINDS[kind] not in KINETO_CATEGORIES:
                continue
            if spec not in arguments:
                given = calls.inputs(row).named()
                arguments[spec] = {key: value for key, value in given.items() if value is not None}
            event = {"name": trace.names[name], "cat": KINETO_CATEGORIES[KINDS[kind]], "UID": row}
            times = {"ts": (trace.meta.origin_ns + start) / 1000, "dur": duration / 1000}
            events.append(event | times | lanes[lane] | {"args": arguments[spec]})
        return events

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        absent(f"tree.{name}", TREE)

    def __repr__(self) -> str:
        return f"<tree with events only: use {TREE}>"


class TreePerfAnalyzer:
    """TraceLens' frames about one trace file, as pandas frames with its columns.

    A trace is opened by its path, here or with `from_file`. `rules` are kernel-category rules as for `warplens.open`;
    without them, and for the GPU, `warplens.toml` is read. With `use_kernel_name_categories` frames have the category
    of each kernel, and the summary splits each op, and so each graph launch, by category.

    >>> analyzer = TreePerfAnalyzer("samples/kineto/cudagraph_infer.json.gz", use_kernel_name_categories=True)
    >>> analyzer.get_df_kernel_launchers_summary()["kernel_category"][0]
    'GEMM'
    """

    def __init__(
        self,
        tree: AnyPath,
        add_python_func: bool = False,
        arch: Mapping[str, Any] | Arch | None = None,
        jax: bool = False,
        python_path: str | None = None,
        event_to_category: object = None,
        include_unlinked_kernels: bool = False,
        enable_pseudo_ops: bool = False,
        tree_postprocess_extension: object = None,
        rebuild_tree: bool = True,
        detect_recompute: bool = False,
        enable_origami: bool = False,
        inductor_cache_dir: str | None = None,
        pb_file_name: str | None = None,
        metadata_events: object = None,
        kernel_metadata_keyword_filters: Sequence[str] | None = None,
        *,
        capture_trace_filepath: AnyPath | None = None,
        use_kernel_name_categories: bool = False,
        rules: OneOrMore = (),
        cache: bool = True,
    ) -> None:
        refuse(
            {
                "event_to_category": event_to_category,
                "enable_pseudo_ops": enable_pseudo_ops,
                "tree_postprocess_extension": tree_postprocess_extension,
                "enable_origami": enable_origami,
            }
        )
        self.profile: Profile = open_trace(tree, rules=rules, cache=cache, captures=capture_trace_filepath)
        self.calls = Calls(self.profile.workspace, include_unlinked=include_unlinked_kernels)
        self.jax = jax
        self.arch = arch
        self.limits = arch if isinstance(arch, Arch) or arch is None else Arch.of_dict(arch)
        self.add_python_func = add_python_func or detect_recompute
        self.include_unlinked_kernels = include_unlinked_kernels
        self.detect_recompute = detect_recompute
        self.use_kernel_name_categories = use_kernel_name_categories
        self.op_to_perf_model_class_map = dict(OP_SHEETS)
        self.with_python_stack = False
        self.gpu_only = not self.calls.is_op.any()

    @classmethod
    def from_file(
        cls,
        profile_filepath: AnyPath,
        capture_trace_filepath: AnyPath | None = None,
        jax: bool = False,
        enable_pseudo_ops: bool = False,
        tree_postprocess_extension: object = None,
        *args: Any,
        **kwargs: Any,
    ) -> TreePerfAnalyzer:
        """The same for TraceLens' other way to open; further arguments are those of the class."""
        return cls(  # type: ignore[misc]
            profile_filepath,
            *args,
            capture_trace_filepath=capture_trace_filepath,
            jax=jax,
            enable_pseudo_ops=enable_pseudo_ops,
            tree_postprocess_extension=tree_postprocess_extension,
            **kwargs,
        )

    @cached_property
    def tree(self) -> Tree:
        return Tree(self.calls)

    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            absent(f"{type(self).__name__}.{name}", METHODS[name])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_df_gpu_timeline(self, micro_idle_thresh_us: float | None = None, gpu_pid: int | None = None) -> Any:
        """How the GPUs spend their time: computing, communicating, copying, idle, in ms and percent."""
        return gpu_timeline(self.calls, micro_idle_thresh_us, detect_recompute=self.detect_recompute).to_pandas()

    def launchers_frame(self, **options: Any) -> Frame:
        return launchers.launchers(
            self.calls,
            **({"include_kernel_details": True} | options),
            detect_recompute=self.detect_recompute,
            with_categories=self.use_kernel_name_categories,
        )

    def get_df_kernel_launchers(
        self,
        id_cols: bool = False,
        include_kernel_details: bool = False,
        include_call_stack: bool = False,
        include_first_occurrence_time: bool = False,
        gpu_pid: int | None = None,
        gpu_kernel_op_cats: Sequence[str] | None = None,
        include_args: bool = False,
        args_cols: Sequence[str] | None = None,
    ) -> Any:
        """A row per call of an op, or launch outside ops, that launches GPU work itself, in order of their starts."""
        return self.launchers_frame(
            id_cols=id_cols,
            include_kernel_details=include_kernel_details,
            include_call_stack=include_call_stack,
            include_first_occurrence_time=include_first_occurrence_time,
            args_cols=args_cols or INPUTS,
        ).to_pandas()

    get_df_kernel_launchers_summary = of_launchers(launchers.summary)
    get_df_kernel_launchers_summary_by_category = of_launchers(launchers.summary_by_category)
    get_df_kernel_launchers_summary_by_category_module = of_launchers(launchers.summary_by_category_module)
    get_df_kernel_launchers_summary_module = of_launchers(launchers.summary_module)
    get_df_kernel_launchers_summary_by_shape = of_launchers(launchers.summary_by_shape)
    get_df_kernel_launchers_unique_args = of_launchers(launchers.unique_args)

    def get_df_kernels(
        self, launcher_detail: bool = False, cpu_op_detail: bool = True, nn_module_detail: bool = False
    ) -> Any:
        """A row per kernel with what launched it, the op around that and, with stacks, the module."""
        frame = kernels(
            self.calls,
            launcher_detail=launcher_detail,
            cpu_op_detail=cpu_op_detail,
            nn_module_detail=nn_module_detail and self.add_python_func,
            with_categories=self.use_kernel_name_categories,
        ).to_pandas()
        whole = [name for name in frame.columns if "UID" in name or "count" in name]
        return frame.astype(dict.fromkeys(whole, "Int64"))

    def build_df_perf_metrics(
        self,
        events: Iterable[Mapping[str, Any]],
        bwd: bool = False,
        non_data_mov: bool = False,
        include_kernel_details: bool = False,
        include_args: bool = False,
        dict_name_to_perf_model: object = None,
        args_cols: Sequence[str] | None = None,
        detail_level: int = 0,
    ) -> Any:
        """FLOPs, bytes, time and rates of some events of `tree.events`; with `bwd`, of their backward passes."""
        refuse({"dict_name_to_perf_model": dict_name_to_perf_model})
        return self.metrics_frame(
            events,
            bwd=bwd,
            non_data_mov=non_data_mov,
            include_kernel_details=include_kernel_details,
            include_args=include_args,
            args_cols=args_cols or INPUTS,
        ).to_pandas()

    def metrics_frame(self, events: Iterable[Mapping[str, Any] | int], **options: Any) -> Frame:
        return metrics.perf_metrics(
            self.calls, _rows(events), **options, arch=self.limits, detect_recompute=self.detect_recompute
        )

    def build_df_fwd_perf_metrics(self, events: Iterable[Mapping[str, Any]]) -> Any:
        """`build_df_perf_metrics` of the calls themselves."""
        return self.build_df_perf_metrics(events)

    def build_df_bwd_perf_metrics(self, events: Iterable[Mapping[str, Any]]) -> Any:
        """`build_df_perf_metrics` of the calls' backward passes."""
        return self.build_df_perf_metrics(events, bwd=True)

    def compute_perf_metrics(
        self, event: Mapping[str, Any], bwd: bool = False, non_data_mov: bool = False, perf_model_class: object = None
    ) -> dict[str, Any]:
        """FLOPs, bytes, time and rates of one event."""
        refuse({"perf_model_class": perf_model_class})
        rows = list(self.metrics_frame([event], bwd=bwd, non_data_mov=non_data_mov).rows())
        if not rows:
            what = f"the backward pass of {event['name']}" if bwd else event["name"]
            raise UsageError(f"the cost of {what} is not known", hint="warplens show TRACE cost_coverage")
        start = list(rows[0]).index("GFLOPS")
        return dict(list(rows[0].items())[start:])

    def compute_fwd_perf_metrics(self, event: Mapping[str, Any], non_data_mov: bool = False) -> dict[str, Any]:
        """`compute_perf_metrics` of the call itself."""
        return self.compute_perf_metrics(event, non_data_mov=non_data_mov)

    def compute_bwd_perf_metrics(self, event: Mapping[str, Any], non_data_mov: bool = False) -> dict[str, Any]:
        """`compute_perf_metrics` of the call's backward pass."""
        return self.compute_perf_metrics(event, bwd=True, non_data_mov=non_data_mov)

    @staticmethod
    def summarize_df_perf_metrics(
        df_perf_metrics: Any,
        agg_metrics: Sequence[Aggregate] = ("mean", "std"),
        group_by_num_kernels: bool = False,
        include_overlapping_kernels: bool = False,
    ) -> Any:
        """The rows of `build_df_perf_metrics` by op and sizes."""
        return metrics.summarize(
            Frame.of_pandas(df_perf_metrics),
            agg_metrics,
            group_by_num_kernels=group_by_num_kernels,
            include_overlapping_kernels=include_overlapping_kernels,
        ).to_pandas()

    def build_df_unified_perf_table(
        self,
        events: Iterable[Mapping[str, Any]] | None = None,
        include_args: bool = True,
        include_perf_metrics: bool = True,
        include_kernel_details: bool = True,
        include_nccl: bool = False,
    ) -> Any:
        """Every op that does GPU work once, at the level where its cost is known, with what it costs."""
        return self.unified_frame(
            rows=None if events is None else _rows(events),
            include_args=include_args,
            include_perf_metrics=include_perf_metrics,
            include_kernel_details=include_kernel_details,
            include_nccl=include_nccl,
        ).to_pandas()

    def unified_frame(self, **options: Any) -> Frame:
        return unified.unified(self.calls, **options, arch=self.limits, detect_recompute=self.detect_recompute)

    @staticmethod
    def summarize_df_unified_perf_table(
        df_unified_perf: Any,
        agg_metrics: Sequence[Aggregate] = ("mean", "std"),
        include_pct: bool = True,
        group_by_num_kernels: bool = False,
        include_call_stack: bool = False,
        include_overlapping_kernels: bool = False,
        tree: object = None,
    ) -> Any:
        """The rows of `build_df_unified_perf_table` by name, arguments and thread."""
        return unified.summarize(
            Frame.of_pandas(df_unified_perf),
            agg_metrics,
            include_pct=include_pct,
            include_call_stack=include_call_stack,
            include_overlapping_kernels=include_overlapping_kernels,
        ).to_pandas()


def _rows(events: Iterable[Any]) -> list[int]:
    """The numbers of events of `tree.events`."""
    return [int(event["UID"] if isinstance(event, Mapping) else event) for event in events]  # bounded: rows of ours
