"""The tables of served models; what makes them is loaded when one is asked for."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Final, cast

from warplens.analyses.shared import shared
from warplens.analyses.workspace import Workspace
from warplens.model.table import Table
from warplens.model.table_entry import TableEntry

NEEDS: Final = "passes of a served model: marks of vLLM, SGLang, ATOM or TensorRT-LLM, or a loop that generates text"
MODULES: Final = {
    # table: the module that makes it
    "iterations": "tables",
    "serving_phases": "phases",
    "serving_categories": "phases",
    "token_latency": "latency",
    "slow_iterations": "latency",
}


@shared
def is_served(work: Workspace) -> bool:
    """Whether the trace has iterations; what finds them is loaded only where an op or a mark could be one."""
    from warplens.analyses.serving.iterations import served

    return served(work) is not None


def _make(name: str, work: Workspace) -> Table:
    module = import_module(f"warplens.analyses.serving.{MODULES[name]}")
    return cast(Table, getattr(module, name)(work))


def without_rows() -> list[Table]:
    """The tables as such, for those who explain columns: no trace is needed."""
    shown = (
        (name, import_module(f"warplens.analyses.serving.{module}").TABLES[name]) for name, module in MODULES.items()
    )
    return [Table.from_rows(name, meaning, columns, []) for name, (meaning, columns) in shown]


SERVING_TABLES: Final[dict[str, TableEntry[Workspace]]] = {
    name: TableEntry(name, partial(_make, name), is_served, NEEDS) for name in MODULES
}
