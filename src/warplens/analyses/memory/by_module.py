"""`memory_modules`: what each module holds at the peak: its activations, parameters, gradients, and those inside it."""

from __future__ import annotations

from typing import Final

import polars as pl

from warplens.analyses.memory.categories import ACTIVATIONS, GRADIENTS, KV_CACHE, PARAMETERS, STATE, TEMPORARY
from warplens.analyses.memory.memory_work import Holders, MemoryWork
from warplens.model.table import Column, Table

OF_CATEGORY: Final = {
    "activations_bytes": ACTIVATIONS,
    "parameters_bytes": PARAMETERS,
    "gradients_bytes": GRADIENTS,
    "optimizer_bytes": STATE,
    "kv_cache_bytes": KV_CACHE,
    "temporary_bytes": TEMPORARY,
}
OTHER: Final = "other_bytes"
COLUMNS: Final = (
    Column("device", "GPU number", "", pl.String),
    Column(
        "module", "modules by class, outermost first; instances of a class are one row; empty: in none", "", pl.String
    ),
    Column("depth", "modules around it", "", pl.Int64),
    Column("bytes", "held at the peak by the module itself", "bytes", pl.Int64),
    Column("subtree_bytes", "the same with the modules inside it", "bytes", pl.Int64),
    Column("subtree_percent", "share of what is allocated at the peak", "%", pl.Float64),
    Column("activations_bytes", "of bytes, activations", "bytes", pl.Int64),
    Column("subtree_activations_bytes", "the same with the modules inside it", "bytes", pl.Int64),
    Column("parameters_bytes", "of bytes, parameters and buffers", "bytes", pl.Int64),
    Column("gradients_bytes", "of bytes, gradients", "bytes", pl.Int64),
    Column("optimizer_bytes", "of bytes, states of the optimizer", "bytes", pl.Int64),
    Column("kv_cache_bytes", "of bytes, keys and values", "bytes", pl.Int64),
    Column("temporary_bytes", "of bytes, freed in the same pass", "bytes", pl.Int64),
    Column(OTHER, "of bytes, everything else, also what nothing on record accounts for", "bytes", pl.Int64),
    Column("count", "allocations", "", pl.Int64),
)
BY_NAME: Final = (
    "modules of parameters are named by attributes (Model.layers.0), as this bundle does not record their classes; "
    "others by class, as in the trace"
)


def memory_modules(work: MemoryWork) -> Table:
    frames = [_device_rows(device) for device in work.devices]
    frame = pl.concat([pl.DataFrame(schema={column.name: column.dtype for column in COLUMNS}), *frames])
    return Table.from_frame("memory_modules", "one row per device and module", COLUMNS, frame, *naming_notes(work))


def naming_notes(work: MemoryWork) -> tuple[str, ...]:
    """Where modules are named in two ways."""
    by_attribute = any(tensor.module and not tensor.classes for tensor in work.facts.tensors)
    return (BY_NAME,) if by_attribute else ()


def _device_rows(device: Holders) -> pl.DataFrame:
    history = device.history
    event = history.peak_event
    held = device.held.filter((pl.col("begin") <= event) & (pl.col("end") > event))
    own = _own_bytes(held, history.peak_bytes - int(held["bytes"].sum()))
    paths = {path for module in own["module"].to_list() for path in _around(module)} | {""}
    every = pl.DataFrame({"module": sorted(paths)}, schema={"module": pl.String})
    frame = every.join(own, on="module", how="left").fill_null(0)
    inside = pl.DataFrame(
        [(path, *row) for *row, module in frame.select("bytes", "activations_bytes", "module").rows()
         for path in _around(module)],
        schema={"module": pl.String, "subtree_bytes": pl.Int64, "subtree_activations_bytes": pl.Int64},
        orient="row",
    )  # fmt: skip
    frame = frame.join(inside.group_by("module").sum(), on="module", how="left")
    whole = max(1, history.peak_bytes)
    return (
        frame.filter((pl.col("subtree_bytes") != 0) | (pl.col("count") > 0))
        .with_columns(
            pl.lit(history.device).alias("device"),
            (100 * pl.col("subtree_bytes") / whole).alias("subtree_percent"),
            pl.col("module").str.count_matches("/").cast(pl.Int64).alias("depth"),
        )
        .sort("subtree_bytes", "module", descending=[True, False])
        .select(column.name for column in COLUMNS)
    )


def _own_bytes(held: pl.DataFrame, unrecorded: int) -> pl.DataFrame:
    """A row per module; what no allocation on record accounts for is in none."""
    is_known = pl.col("category").is_in(list(OF_CATEGORY.values()))
    sums = [
        pl.col("bytes").filter(pl.col("category") == category).sum().alias(name)
        for name, category in OF_CATEGORY.items()
    ]
    own = held.group_by("module").agg(
        pl.len().cast(pl.Int64).alias("count"), pl.col("bytes").sum(), *sums,
        pl.col("bytes").filter(~is_known).sum().alias(OTHER),
    )  # fmt: skip
    outside = pl.when(pl.col("module") == "").then(unrecorded).otherwise(0)
    if "" not in own["module"].to_list():
        own = pl.concat([own, pl.DataFrame({"module": [""]})], how="diagonal").fill_null(0)
    return own.with_columns(pl.col("bytes") + outside, pl.col(OTHER) + outside)


def _around(module: str) -> list[str]:
    """A module's path and those of the modules around it.

    >>> _around("GPT/Block_*/MLP_*"), _around("")
    (['GPT', 'GPT/Block_*', 'GPT/Block_*/MLP_*'], [''])
    """
    parts = module.split("/")
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]
