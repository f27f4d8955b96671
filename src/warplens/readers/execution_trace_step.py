"""Arguments of calls from a step recorded beside the measured ones.

Recording an ExecutionTrace slows a program down, so a capture takes it of one step of its own, together with that
step's trace. There the two are joined call by call. A call of the measured steps then has the arguments of a call of
the same op with the same shapes, types, strides and values: of several, the one at the same place in the order of its
step. Which storage a tensor lay in is that step's, not the measured one's.
"""

from __future__ import annotations

import math
from dataclasses import replace

import polars as pl

from warplens.model.kinds import CODE
from warplens.model.quality import Note
from warplens.model.trace import SIDE_FRAMES, Trace
from warplens.readers.execution_trace_join import joined_share

SIGNATURE = ("call", "input_dims", "input_types", "input_strides", "concrete_inputs")


def carry_over(trace: Trace, beside: Trace) -> Trace:
    """The trace with the arguments of the calls of another step of the same run, which has been joined already."""
    known = _calls(beside).join(beside.arguments, on="id", how="inner", maintain_order="left", suffix="_argument")
    known = known.with_columns(_place(), pl.len().over(SIGNATURE).alias("calls"))
    counts = known.select(*SIGNATURE, "calls").unique()
    wanted = _calls(trace).with_columns(_place()).join(counts, on=SIGNATURE, how="inner", maintain_order="left")
    # The steps are alike: the n-th call of a signature is the n-th of its step, counted on from step to step.
    wanted = wanted.with_columns(pl.col("place") % pl.col("calls"))
    renamed = {f"{name}_argument": name for name in SIDE_FRAMES["arguments"] if f"{name}_argument" in known.columns}
    own = known.select(*SIGNATURE, "place", pl.exclude(*SIGNATURE, "place", "id", "calls"))
    found = wanted.join(own, on=[*SIGNATURE, "place"], how="inner", maintain_order="left")
    found = found.drop([name for name in renamed.values() if name in found.columns]).rename(renamed)
    schema = SIDE_FRAMES["arguments"]
    arguments = found.sort("id").select(pl.col(name).cast(dtype) for name, dtype in schema.items())
    carried = replace(trace, arguments=arguments)
    percent = math.floor(1000 * joined_share(carried)) / 10
    note = Note("execution_step", int(carried.is_kind("op")[arguments["id"].to_numpy()].sum()), f"{percent} %")
    return replace(carried, quality=trace.quality.with_notes(note))


def _calls(trace: Trace) -> pl.DataFrame:
    """The op calls of a trace with what names them and what they were called with, in the order of time."""
    ops = trace.events.filter(pl.col("kind").is_in([CODE["op"], CODE["annotation"]]))
    names = pl.Series("call", trace.names, dtype=pl.String).gather(ops["name"])
    specs = trace.specs.with_row_index("spec").with_columns(pl.col("spec").cast(pl.Int32))
    frame = ops.select("id", "spec", "start_ns", names).join(specs, on="spec", how="left", maintain_order="left")
    frame = frame.with_columns(pl.col(*SIGNATURE[1:]).fill_null(""))
    return frame.sort("start_ns", "id").drop("spec", "start_ns")


def _place() -> pl.Expr:
    return pl.int_range(pl.len(), dtype=pl.Int64).over(SIGNATURE).alias("place")
