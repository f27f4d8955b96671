"""`scopes`: what users marked in their program, with what they said of it and how fast that makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.paths.metric_columns import metric_columns
from warplens.analyses.paths.workspace import PathWorkspace
from warplens.analyses.trees.rates import FLOPS, PEAKS, SAMPLES, Amounts, inclusive, ratio
from warplens.analyses.work.kernels import PERCENT
from warplens.analyses.workspace import percent_of
from warplens.model.table import Column, Table
from warplens.model.tree import EXCLUSIVE, Floats

COLUMNS = (
    Column("scope", "its name", "", pl.String),
    Column("count", "GPU events inside it", "", pl.Int64),
    Column("total_us", "their GPU time", "us", pl.Float64),
    PERCENT,
    Column("paths", "call paths that lead to it", "", pl.Int64),
)
CYCLES = "cycles"
RATES = (
    Column("tflops", "FLOPs over GPU time", "TFLOP/s", pl.Float64),
    Column("tbps", "bytes over GPU time", "TB/s", pl.Float64),
    Column("percent_of_roofline", "least time for FLOPs and bytes on this GPU over GPU time", "%", pl.Float64),
)


BEYOND_LIMIT: Final = "percent_of_roofline over 100: the program counts more FLOPs or bytes than this GPU can do"


def scopes(work: PathWorkspace) -> Table:
    nodes = _outermost(work)
    names = sorted(nodes)
    group = np.array([number for number, name in enumerate(names) for _ in nodes[name]], np.int64)
    rows = np.array([node for name in names for node in nodes[name]], np.int64)
    tree = work.tree

    def summed(values: Floats) -> Floats:
        return np.bincount(group, values[rows], len(names)).astype(np.float64)

    columns, values = _metrics(work, summed)
    frame = pl.DataFrame(
        {
            "scope": names,
            "count": summed(tree.total_count.astype(float)).astype(np.int64),
            "total_us": summed(tree.total_ns / 1e3),
            "paths": [len(nodes[name]) for name in names],
            **values,
        },
        schema_overrides={"scope": pl.String, "paths": pl.Int64},
    ).with_columns(percent_of("total_us", work.gpu_total_ns).alias("percent"))
    frame = frame.sort("total_us", "scope", descending=[True, False])
    notes = [] if names else ["no scopes in this profile"]
    if bool((values.get("percent_of_roofline", np.zeros(0)) > 100).any()):
        notes.append(BEYOND_LIMIT)
    return Table.from_frame("scopes", "one row per name of a scope; a scope inside another of its name counts once",
                 (*COLUMNS, *columns), frame.fill_nan(None), *notes)  # fmt: skip


def _outermost(work: PathWorkspace) -> dict[str, list[int]]:
    """The nodes of each scope that are in no other scope of that name."""
    tree, nodes = work.tree, dict[str, list[int]]()
    around: list[frozenset[str]] = [frozenset()]
    for node in range(1, len(tree)):
        name, outer = tree.name[node], around[int(tree.parent[node])]
        if tree.kind[node] != "annotation":
            around.append(outer)
            continue
        if name not in outer:
            nodes.setdefault(name, []).append(node)
        around.append(outer | {name})
    return nodes


def _metrics(work: PathWorkspace, summed: Callable[[Floats], Floats]) -> tuple[list[Column], dict[str, Floats]]:
    """What users said of their scopes, and what that is in a second of GPU time."""
    tree, seconds = work.tree, summed(work.tree.total_ns / 1e9)
    taken = [column.name for column in (*COLUMNS, *RATES)]
    columns_of_metrics = metric_columns([name for name in tree.metrics if not SAMPLES.fullmatch(name)], taken)
    values = {column.name: summed(inclusive(tree, name)) for name, column in columns_of_metrics.items()}
    rates = {}
    if any(name in FLOPS for name in columns_of_metrics):
        rates["tflops"] = ratio(summed(Amounts(tree).flops()), seconds) / 1e12
    if "bytes" in columns_of_metrics:
        rates["tbps"] = ratio(summed(inclusive(tree, "bytes")), seconds) / 1e12
    if work.hardware is not None and any(name in (*PEAKS, "bytes") for name in columns_of_metrics):
        least = Amounts(tree, work.hardware).roofline_s(measured=True)
        rates["percent_of_roofline"] = 100 * ratio(summed(least), seconds)
    columns = [*columns_of_metrics.values(), *(column for column in RATES if column.name in rates)]
    for name, column in columns_of_metrics.items():
        has_rate = column.unit in ("", "bytes") and column.name != "bytes"
        if has_rate and not name.endswith((EXCLUSIVE, CYCLES)) and work.gpu_total_ns:
            columns.append(Column(f"{column.name}_per_s", f"{column.name} over GPU time", "", pl.Float64))
            rates[columns[-1].name] = ratio(values[column.name], seconds)
    return columns, values | rates
