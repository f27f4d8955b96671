"""What TraceLens has and this interface has not: each raises one sentence with what does the same here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from warplens_run.base.errors import UsageError

COLLECTIVES: Final = "warplens show FOLDER collectives"
TREE: Final = "warplens tree TRACE"
TIMELINE: Final = "warplens show TRACE timeline"
ROOFLINE: Final = "warplens show TRACE roofline"
REPLAY: Final = "warplens replay plan TRACE"

MODELS: Final = (
    "GEMM", "SDPA", "CONV", "GroupedGemm", "Normalization", "UnaryElementwise", "BinaryElementwise", "Reduce",
    "extract_sdpa_cfg", "name2bpe",
)  # fmt: skip

CLASSES: Final = {
    # public names of TraceLens' package and modules: what to use instead
    "NcclAnalyser": COLLECTIVES,
    "JaxNcclAnalyser": COLLECTIVES,
    "generate_collective_report": COLLECTIVES,
    "TraceToTree": TREE,
    "JaxTraceToTree": TREE,
    "GPUEventAnalyser": TIMELINE,
    "PytorchGPUEventAnalyser": TIMELINE,
    "JaxGPUEventAnalyser": TIMELINE,
    "JaxAnalyses": TIMELINE,
    "TraceFuse": "warplens convert FOLDER -o job.perfetto.json.gz",
    "TraceDiff": "warplens diff A B",
    "generate_compare_perf_reports_pytorch": "warplens diff A B",
    "EventReplay": REPLAY,
    "EventReplayer": REPLAY,
    "PerfModel": ROOFLINE,
    **dict.fromkeys(MODELS, ROOFLINE),
    "DataLoader": "warplens.open(TRACE)",
    "TraceEventUtils": "warplens.categories.load_categorizer()",
    "JaxProfileProcessor": "warplens.open(TRACE)",
    "generate_perf_report_pytorch_inference": "warplens report TRACE --graph-capture FOLDER",
    "generate_perf_report_jax_analysis": "warplens report TRACE",
    "generate_perf_report_rocprof": "warplens report TRACE",
    "generate_perf_report_genesis": "warplens report TRACE",
    "generate_perf_report_pftrace_hip_activity": "warplens report TRACE",
    "generate_perf_report_pftrace_hip_api": "warplens report TRACE",
    "generate_perf_report_pftrace_memory_copy": "warplens show TRACE transfer",
}
METHODS: Final = {
    # methods of its analyzers that work on events of its tree
    "get_kernel_launchers": "get_df_kernel_launchers()",
    "collect_unified_perf_events": "build_df_unified_perf_table()",
    "get_kernel_details": "get_df_kernels()",
    "compute_overlapping_kernels": "get_df_kernel_launchers()",
    "agg_kernels_in_subtree": "get_df_kernel_launchers()",
    "loop_and_aggregate_kernels": "get_df_kernel_launchers()",
    "non_data_mov_filter": "build_df_perf_metrics(events, non_data_mov=True)",
    "build_nn_module_latency_tree": "warplens show TRACE modules",
    "get_GPU_kernel_launch_latency": "get_df_kernel_launchers()",
    "trace_metadata": "warplens.open(TRACE).meta",
}
PARAMETERS: Final = {
    # parameters that change what TraceLens computes, and have no meaning here
    "enable_pseudo_ops": ("adds ops to TraceLens' tree", ROOFLINE),
    "tree_postprocess_extension": ("changes TraceLens' tree", TREE),
    "event_to_category": ("sorts events of TraceLens' tree", TREE),
    "extension_file": ("changes TraceLens' tree and models", "rules=, for kernel categories of your own"),
    "enable_origami": ("simulates products of matrices", ROOFLINE),
    "comparison_json_path": ("compares two trees", "warplens diff A B"),
    "dict_name_to_perf_model": ("brings models of TraceLens", ROOFLINE),
    "perf_model_class": ("brings a model of TraceLens", ROOFLINE),
}


def absent(name: str, instead: str) -> NoReturn:
    raise UsageError(f"TraceLens' {name} is not in this interface; use {instead}")


def refuse(given: Mapping[str, object]) -> None:
    """One sentence for the first of these parameters that asks for something."""
    for name, value in given.items():
        if value:
            what, instead = PARAMETERS[name]
            raise UsageError(f"{name} {what} and is not supported; use {instead}")


class _Absent(type):
    """A class that can be imported, and raises its sentence when anything is done with it."""

    def __call__(cls, *args: object, **kwargs: object) -> NoReturn:
        absent(cls.__name__, CLASSES[cls.__name__])

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        absent(cls.__name__, CLASSES[cls.__name__])


def absent_class(name: str) -> Any:
    """A stand-in under a name of TraceLens, so that a script runs up to the line that uses it."""
    if name not in CLASSES:
        raise AttributeError(f"module 'warplens.compat' has no attribute {name!r}")
    return _Absent(name, (), {"__doc__": f"Not in this interface: use {CLASSES[name]}."})
