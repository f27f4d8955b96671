"""`Scene`: a trace with what a picture of it needs beyond the events themselves."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import polars as pl

from warplens.model.trace import Ints, Trace


class Scene(msgspec.Struct, frozen=True):
    """The arrays have one entry per GPU event, in the order of `trace.gpu_rows`.

    `kernels` has one row per kernel name: name (code), kernel_short, kernel_category. `owner` is the host event that
    the GPU event is booked on, -1 for none; `call` is equal for events whose cost is one. `members` says per table
    which of its rows the event belongs to. `gaps` are the parts of idle stretches in their order:
    device, start_ns, gap_ns, cause.
    """

    label: str
    device: str
    trace: Trace
    kernels: pl.DataFrame
    owner: Ints
    call: Ints
    members: Mapping[str, Ints]
    gaps: pl.DataFrame
