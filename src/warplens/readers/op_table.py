"""Op tables of a training job (Parquet), as published with ByteDance's study of stragglers.

One row per op of a worker: `dp_rank`, `stage` and `rank` are the worker, `step`, `optype` and `seq_id` the op, `mc`
and `gmc` its model chunk in the worker and in the whole model, `mb_id` its microbatch; `start_ts` and `duration` are
seconds. Other columns are ignored. The sizes of the job stand in a YAML file beside the table (`trace-X.parquet` and
`meta-X.yaml`), as plain `name: value` lines; without it they follow from the table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from itertools import islice, product
from pathlib import Path
from typing import Final

import polars as pl

from warplens.errors import FormatError
from warplens.model.job_ops import OP_SCHEMA, JobOps
from warplens.model.quality import Note, Quality
from warplens.readers.parquet import read_parquet

SOURCES: Final = {
    # column of the job's ops: column of the file
    "op_type": "optype",
    "rank": "rank",
    "dp_rank": "dp_rank",
    "stage": "stage",
    "step": "step",
    "sequence": "seq_id",
    "chunk": "mc",
    "global_chunk": "gmc",
    "microbatch": "mb_id",
}
TIMES: Final = ("start_ts", "duration")
HINT: Final = "op tables have the columns " + ", ".join([*SOURCES.values(), *TIMES])
LATEST_S: Final = 5e9
"""Seconds since 1970, in the year 2128: later times are damage."""
LONGEST_S: Final = 86_400
"""Ops of one step that last longer, or start further from the others, are damage."""
MOST_NAMED: Final = 8
OP: Final = ("rank", "step", "op_type", "sequence")


def read(path: Path, known_types: Collection[str], *, max_bytes: int = 0) -> JobOps:
    """The ops of a table; those of other types than the known ones, and those without valid times, are omitted.

    `max_bytes`: what they may unpack to.
    """
    content = path.read_bytes()
    frame = _columns(path, max_bytes)
    ops = frame.filter(pl.all_horizontal(pl.col(OP_SCHEMA).is_not_null()) & (pl.col("end_ns") >= pl.col("start_ns")))
    known = ops.filter(pl.col("op_type").is_in(list(known_types)))
    kept = known.unique(OP, keep="first", maintain_order=True)
    if not len(kept):
        raise FormatError("an op table without ops", where=str(path), hint=HINT)
    unknown = sorted(set(ops["op_type"].unique()) - set(known_types))
    notes: tuple[Note, ...] = (
        Note("bad_ops", len(frame) - len(ops)),
        Note("unknown_ops", len(ops) - len(known), ", ".join(unknown)),
        Note("doubled_ops", len(known) - len(kept)),
        _missing(kept),
    )
    meta = _meta(path)
    sizes = _sizes(meta, kept)
    if not meta:
        notes += (Note("sizes_inferred", 0, ", ".join(f"{name} {size}" for name, size in sizes.items())),)
    return JobOps(
        source=str(path),
        ops=kept,
        name=meta.get("trial_name", ""),
        sizes=sizes,
        content_hash=hashlib.blake2b(content, digest_size=16).hexdigest(),
        size_bytes=len(content),
        quality=Quality(tuple(note for note in notes if note.count or note.detail)),
    )


def _columns(path: Path, max_bytes: int) -> pl.DataFrame:
    """The columns of `OP_SCHEMA`; null where a value is missing or impossible."""
    try:
        missing = [name for name in (*SOURCES.values(), *TIMES) if name not in pl.read_parquet_schema(path)]
        if missing:
            raise FormatError(
                f"a Parquet file, but not an op table: no column {missing[0]}", where=str(path), hint=HINT
            )
        frame = read_parquet(path, [*SOURCES.values(), *TIMES], max_bytes=max_bytes)
        start, duration = (pl.col(name).cast(pl.Float64, strict=False) for name in TIMES)
        usual = start.filter(start.is_finite()).median().over("step")
        valid = (start.abs() < LATEST_S) & (duration.abs() < LONGEST_S) & ((start - usual).abs() < LONGEST_S)
        times = {"start_ns": start, "end_ns": start + duration}
        return frame.select(
            *(pl.col(source).cast(OP_SCHEMA[name], strict=False).alias(name) for name, source in SOURCES.items()),
            *(
                (1e9 * pl.when(valid).then(seconds)).round().cast(pl.Int64, strict=False).alias(name)
                for name, seconds in times.items()
            ),
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise FormatError(f"a Parquet file that cannot be read: {reason}", where=str(path)) from error


def _meta(path: Path) -> dict[str, str]:
    """The facts of the file beside the table; empty where there is none."""
    beside = path.with_name(path.stem.replace("trace", "meta", 1) + ".yaml")
    if beside == path or not beside.is_file():
        return {}
    lines = beside.read_text("utf-8", errors="replace").splitlines()
    pairs = (line.partition(":") for line in lines if not line.lstrip().startswith("#"))
    return {name.strip(): value.strip().strip("'\"") for name, colon, value in pairs if colon and value.strip()}


def _missing(ops: pl.DataFrame) -> Note:
    """Workers of the grid of data-parallel ranks and stages that have no ops in some step."""
    ranks, stages = (ops[name].unique().sort().to_list() for name in ("dp_rank", "stage"))
    steps = ops.group_by("dp_rank", "stage").agg(pl.col("step").n_unique())
    complete = set(steps.filter(pl.col("step") == ops["step"].n_unique()).select("dp_rank", "stage").iter_rows())
    absent = len(ranks) * len(stages) - len(complete)
    # The grid is not made: a file of one column each would have the square of its rows in it.
    workers = (worker for worker in product(ranks, stages) if worker not in complete)
    names = [f"dp {dp} stage {stage}" for dp, stage in islice(workers, MOST_NAMED)]
    rest = ["…"] if absent > MOST_NAMED else []
    return Note("missing_workers", absent, ", ".join(names + rest))


def _sizes(meta: dict[str, str], ops: pl.DataFrame) -> dict[str, int]:
    """What the file says of the job's sizes, else as many as the table has."""
    seen = {"dp_size": ops["dp_rank"].n_unique(), "pp_size": ops["stage"].n_unique(), "vpp_size": 1}
    seen["vpp_size"] = max(1, ops.filter(pl.col("chunk") >= 0)["chunk"].n_unique())
    stated = {name: int(text) for name, text in meta.items() if name.endswith("_size") and text.isdecimal()}
    return seen | stated
