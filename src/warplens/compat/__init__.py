"""TraceLens' interface on top of Warplens' figures: a script runs with its import changed to `warplens.compat`.

`TreePerfAnalyzer`, `JaxTreePerfAnalyzer`, `generate_perf_report_pytorch` and `generate_perf_report_jax` give TraceLens'
frames and workbooks with its names of columns and sheets. Its other public names can be imported; whoever uses one gets
one sentence with what to use instead.
"""

from __future__ import annotations

import sys
from typing import Any

from warplens.compat.absent import CLASSES, absent_class
from warplens.compat.analyzer import TreePerfAnalyzer
from warplens.compat.jax import JaxTreePerfAnalyzer, generate_perf_report_jax
from warplens.compat.names import build_sheet_category_to_op_names
from warplens.compat.report import (
    add_truncated_kernel_details,
    generate_perf_report_pytorch,
    get_dfs_short_kernels,
)

__all__ = [
    "JaxTreePerfAnalyzer",
    "TreePerfAnalyzer",
    "add_truncated_kernel_details",
    "build_sheet_category_to_op_names",
    "generate_perf_report_jax",
    "generate_perf_report_pytorch",
    "get_dfs_short_kernels",
]


def __getattr__(name: str) -> Any:
    if name == "Reporting":  # the module that has TraceLens' report functions: this one
        return sys.modules[__name__]
    return absent_class(name)


def __dir__() -> list[str]:
    return [*__all__, *CLASSES]
