"""What the analyses share: the trace, the categories of its kernels and where each kernel belongs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import polars as pl

from warplens.categories import Categorizer, KernelClass, families_of, load_categorizer, op_category, short_names
from warplens.hardware import Gpu
from warplens.model.arrays import numbered
from warplens.model.kinds import CODE, NONE
from warplens.model.table import Table
from warplens.model.trace import Bools, Ints, Trace
from warplens.passes.climb import climb
from warplens.passes.survey import is_graph_launch

if TYPE_CHECKING:
    from warplens.analyses.serving.served import Served
    from warplens.model.memory_facts import RecordedMemory
    from warplens_run.formats.proof_result import ProofResult
    from warplens_run.formats.replay_result import ReplayResult

NO_LAUNCH = "(no launch recorded)"
COMMUNICATION = "Communication"


@dataclass(frozen=True)
class Options:
    """Thresholds a user may set; everything else is defined by the trace."""

    gap_ns: int = 10_000
    short_ns: int = 10_000
    min_gain_percent: float = 1.0
    step_ns: float = 0.0
    """Time of a step without the profiler; 0 where it is not known."""
    is_corrected: bool = False
    """The trace's times are without what recording costs."""


class Workspace(msgspec.Struct, frozen=True, dict=True):
    """A trace with everything that several analyses need, computed once and on demand."""

    trace: Trace
    categorizer: Categorizer = msgspec.field(default_factory=load_categorizer)
    options: Options = msgspec.field(default_factory=Options)
    hardware: Gpu | None = None
    """The GPU that worked, as the table of hardware knows it; None where it does not."""
    counters: tuple[Table, ...] = ()
    """What a profiler of single kernels measured of this program (see readers/ncu)."""
    replayed: ReplayResult | None = None
    """The result of replaying this trace, where one was given."""
    read_light: Callable[[], Trace | None] | None = None
    """Reads `light`; None where the trace comes without it."""
    proof: ProofResult | None = None
    """What experiments for this trace's findings measured, where that was given."""
    passes: Served | None = None
    """The iterations of a trace that was cut down to one phase of serving; None where they are still to be found."""
    read_memory: Callable[[], RecordedMemory | None] | None = None
    """Reads the memory snapshot that was recorded beside the trace; None where there is none."""

    @cached_property
    def light(self) -> Trace | None:
        """Further steps of the same run, numbered from 0, recorded with the GPU's activity only: no ops, and launches
        nearly as they come without a profiler. None where there are none.
        """
        return None if self.read_light is None else self.read_light()

    @cached_property
    def gpu_names(self) -> Ints:
        """The distinct name codes of GPU work."""
        return numbered(self.trace.ints("name")[self.trace.gpu_rows])[0]

    @cached_property
    def kernel_classes(self) -> dict[int, KernelClass]:
        classes = self.categorizer.classify_all(self._kernel_texts, self._kernel_families)
        return dict(zip(self.gpu_names.tolist(), classes, strict=True))

    @cached_property
    def _kernel_texts(self) -> list[str]:
        return [self.trace.names[code] for code in self.gpu_names.tolist()]

    @cached_property
    def _kernel_families(self) -> Sequence[str]:
        return families_of(self._kernel_texts)

    @cached_property
    def gpu(self) -> pl.DataFrame:
        """One row per GPU event: its names, category, op, place and time."""
        trace, rows = self.trace, self.trace.gpu_rows
        frame = trace.events[rows].select(
            "id", "name", "kind", "device", "stream", "start_ns", "dur_ns", "step", "launch", "op", "geometry"
        )
        graph = is_graph_launch(trace, trace.ints("launch")[rows])
        owner, label = self._owners(rows, graph)
        frame = frame.rename({"op": "op_row"}).with_columns(
            pl.Series("op", label), pl.Series("owner", owner), pl.Series("in_graph", graph)
        )
        facts = self.kernel_facts.drop("kernel_order")
        frame = frame.join(facts, on="name", how="left", maintain_order="left")
        return frame.join(self._op_categories(frame), on="op", how="left", maintain_order="left")

    def _owners(self, rows: Ints, graph: Bools) -> tuple[Ints, pl.Series]:
        """The host event each GPU event is booked on and its name: the op, else, and for graphs, the launch.

        A recorded call path names the op inside a graph too.
        """
        trace = self.trace
        op, launch = trace.ints("op")[rows], trace.ints("launch")[rows]
        recorded = np.full(len(trace), NONE, np.int64)
        if len(trace.contexts):
            recorded[trace.contexts["id"].to_numpy()] = trace.contexts["frame"].to_numpy()
            graph = graph & (recorded[rows] < 0)
        owner = np.where((op >= 0) & ~graph, op, np.where(recorded[rows] >= 0, recorded[rows], launch))
        return owner, trace.names_at(owner, NO_LAUNCH)

    @cached_property
    def kernel_facts(self) -> pl.DataFrame:
        """Per kernel name: the text, its place in the alphabet (rows sort faster by it), a short form, the category."""
        return pl.DataFrame(
            {
                "name": list(self.kernel_classes),
                "kernel": self._kernel_texts,
                "kernel_short": short_names(self._kernel_families),
                "kernel_category": [kernel_class.category for kernel_class in self.kernel_classes.values()],
            },
            schema={
                "name": pl.UInt32,
                "kernel": pl.String,
                "kernel_short": pl.String,
                "kernel_category": pl.String,
            },
        ).with_columns(pl.col("kernel").rank("ordinal").alias("kernel_order"))

    @cached_property
    def short_names(self) -> dict[int, str]:
        """The short form of each kernel name, by its code."""
        return dict(self.kernel_facts.select("name", "kernel_short").iter_rows())

    def _op_categories(self, frame: pl.DataFrame) -> pl.DataFrame:
        times = frame.group_by("op", "kernel_category").agg(pl.col("dur_ns").sum())
        shares: dict[str, dict[str, float]] = {}
        for op, category, duration in times.iter_rows():
            shares.setdefault(op, {})[category] = duration
        rows = {"op": list(shares), "op_category": [op_category(op, share) for op, share in shares.items()]}
        return pl.DataFrame(rows, schema={"op": pl.String, "op_category": pl.String})

    @cached_property
    def gpu_total_ns(self) -> int:
        """Σ durations of all GPU work; what percentages of kernel time are of."""
        return int(self.gpu["dur_ns"].sum())

    @cached_property
    def enclosing_op(self) -> Ints:
        """For each event the row of the nearest op strictly around it."""
        trace = self.trace
        is_op = trace.ints("kind") == CODE["op"]
        parent = trace.ints("parent")
        enclosing = np.full(len(trace), NONE, np.int64)
        ops = np.flatnonzero(is_op)
        enclosing[ops] = climb(parent[ops], parent, is_op)
        return enclosing


def percent_of(column_us: str, whole_ns: int) -> pl.Expr:
    """A column of µs as percent of a whole in ns; 0 where there is nothing to share."""
    # Six decimals: enough for any table, and 100 % stays 100 % whatever the floats say.
    return (pl.col(column_us) * (1000 * 100.0 / whole_ns if whole_ns else 0.0)).round(6)


def rows_of_groups(group: Ints, order: Ints) -> Ints:
    """For each event the row of its group in a table whose rows are the groups in this order; -1 for none.

    >>> rows_of_groups(np.array([0, 2, -1, 0]), np.array([2, 0, 1])).tolist()
    [1, 0, -1, 1]
    """
    row_of_group = np.full(int(max(group.max(initial=-1), order.max(initial=-1))) + 2, NONE, np.int64)
    row_of_group[order] = np.arange(len(order))
    return row_of_group[group]
