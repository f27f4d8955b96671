"""Arguments of calls from another step than the measured ones.

Recording an ExecutionTrace slows a program down, so a capture takes it of one step of its own, together with that
step's trace. There the two are joined call by call. A call of the measured steps then has the arguments of a call of
the same op with the same shapes, types, strides and values: of several, the one at the same place in the order of its
step. Where no call has the same values (an optimizer's changing factors), equal shapes, types and strides do. Which
storage a tensor lay in, and such values, are that step's and not the measured one's.
"""

from __future__ import annotations

import math
from dataclasses import replace

import polars as pl

from warplens.model.kinds import CODE
from warplens.model.quality import Note
from warplens.model.trace import SIDE_FRAMES, Trace
from warplens.readers.execution_trace.join import joined_share

SHAPES = ("call", "input_dims", "input_types", "input_strides")
SIGNATURES = ((*SHAPES, "concrete_inputs"), SHAPES)
"""What two calls must have in common, strictest first."""


def carry_over(trace: Trace, other_step: Trace) -> Trace:
    """The trace with the arguments of the calls of another step of the same run, which has been joined already."""
    joined = _calls(other_step).join(other_step.arguments.select("id"), on="id", how="semi", maintain_order="left")
    wanted, pairs = _calls(trace), []
    for signature in SIGNATURES:
        twins_of_signature = _twins(wanted, joined, signature)
        pairs.append(twins_of_signature)
        wanted = wanted.join(twins_of_signature, on="id", how="anti", maintain_order="left")
    twins = pl.concat(pairs)
    renamed = other_step.arguments.rename({"id": "twin"})
    arguments = twins.join(renamed, on="twin", how="inner", maintain_order="left").sort("id")
    carried = replace(trace, arguments=arguments.select(pl.col(name).cast(kind) for name, kind in _schema().items()))
    percent = math.floor(1000 * joined_share(carried)) / 10
    count = int(carried.is_kind("op")[carried.arguments["id"].to_numpy()].sum())
    return replace(carried, quality=trace.quality.with_notes(Note("execution_step", count, f"{percent} %")))


def _schema() -> dict[str, type[pl.DataType]]:
    return SIDE_FRAMES["arguments"]


def _twins(wanted: pl.DataFrame, joined: pl.DataFrame, signature: tuple[str, ...]) -> pl.DataFrame:
    """For each wanted call the one at the same position among those of its signature: id and twin."""
    position = pl.int_range(pl.len(), dtype=pl.Int64).over(signature).alias("position")
    own = joined.select(*signature, pl.col("id").alias("twin"), position)
    counts = joined.group_by(signature).agg(pl.len().cast(pl.Int64).alias("calls"))
    # The steps are alike: the n-th call of a signature is the n-th of its step, counted on from step to step.
    calls = wanted.select("id", *signature, position).join(counts, on=signature, how="inner", maintain_order="left")
    calls = calls.with_columns(pl.col("position") % pl.col("calls"))
    return calls.join(own, on=[*signature, "position"], how="inner", maintain_order="left").select("id", "twin")


def _calls(trace: Trace) -> pl.DataFrame:
    """The op calls of a trace with what names them and what they were called with, in the order of time."""
    ops = trace.events.filter(pl.col("kind").is_in([CODE["op"], CODE["annotation"]]))
    names = pl.Series("call", trace.names, dtype=pl.String).gather(ops["name"])
    specs = trace.specs.with_row_index("spec").with_columns(pl.col("spec").cast(pl.Int32))
    frame = ops.select("id", "spec", "start_ns", names).join(specs, on="spec", how="left", maintain_order="left")
    frame = frame.with_columns(pl.col(*SIGNATURES[0][1:]).fill_null(""))
    return frame.sort("start_ns", "id").drop("spec", "start_ns")
