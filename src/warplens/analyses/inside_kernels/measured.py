"""Any profile → `Measured`: its kernels with time, geometry, the program's own counts of work, and samples by line."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from warplens.analyses.paths.stalls import stalls
from warplens.analyses.paths.workspace import PathWorkspace
from warplens.analyses.workspace import Workspace
from warplens.hardware import Gpu
from warplens.model.kinds import CODE, NONE
from warplens.model.measured import ISSUED, LineSamples, Measured, MeasuredKernel
from warplens.model.records import records
from warplens.model.table import Table
from warplens.model.trace import Device

STALL: Final = "stalled_"
FLOPS: Final = re.compile(r"flops(8|16|32|64)?")
LAUNCH_METADATA: Final = re.compile(r"<(?P<what>grid|warps|stages):(?P<value>[^<>]*)>")
"""What launch metadata often appends to the names of kernels: `matmul_<grid:256>_<warps:4>_<stages:3>`."""
SIZE: Final = re.compile(r"\d{1,10}")


def measured(work: Workspace | PathWorkspace) -> Measured:
    """The kernels of a profile, those of equal name and geometry together, longest total first."""
    if isinstance(work, Workspace):
        meta, gpu_ns, kernels = work.trace.meta, work.gpu_total_ns, _of_trace(work)
    else:
        counters = next((table for table in work.paths.extra if table.name == "counters"), None)
        meta, gpu_ns = work.paths.meta, work.gpu_total_ns
        lines = {} if counters is None else _samples(stalls(work))  # of the source page, where it was read
        kernels = _of_tree(work) if counters is None else _of_counters(counters, work.paths.extra, lines)
    listed = sorted(kernels, key=lambda kernel: (-kernel.total_ns, kernel.name, kernel.grid, kernel.threads))
    return Measured(
        source=Path(meta.source).name,
        gpu=work.hardware.name if work.hardware else "",
        architecture=_architecture(work.hardware, meta.devices),
        gpu_ns=gpu_ns,
        kernels=tuple(_with_launch_metadata(kernel) for kernel in listed),
    )


def _architecture(gpu: Gpu | None, devices: Iterable[Device]) -> str:
    """Of the GPU, or where no such GPU is known, as the profile's own header says."""
    if gpu is not None:
        return gpu.architecture
    computes = {device.compute for device in devices if device.compute}
    compute = computes.pop() if len(computes) == 1 else ""
    return compute.partition(":")[0] if compute.startswith("gfx") else f"sm_{compute.replace('.', '')}" * bool(compute)


def _with_launch_metadata(kernel: MeasuredKernel) -> MeasuredKernel:
    """The kernel with what its name says of its launch."""
    parts = {match["what"]: match["value"] for match in LAUNCH_METADATA.finditer(kernel.name)}
    if not parts:
        return kernel
    sizes = {what: tuple(map(int, SIZE.findall(value)[:3])) for what, value in parts.items()}
    return replace(
        kernel,
        grid=kernel.grid or sizes.get("grid", ()),
        warps=(*sizes.get("warps", ()), NONE)[0],
        stages=(*sizes.get("stages", ()), NONE)[0],
    )


def _of_trace(work: Workspace) -> Iterator[MeasuredKernel]:
    trace = work.trace
    groups = (
        work.gpu.filter(pl.col("kind") == CODE["kernel"])
        .group_by("name", "geometry", maintain_order=True)
        .agg(pl.len().alias("count"), pl.col("dur_ns").sum())
    )
    amounts = _recorded_work(work)
    columns = trace.geometries.select("grid", "block", "registers", "shared_memory_bytes")
    shapes = [Geometry(*row) for row in columns.iter_rows()]
    for name, geometry, count, total_ns in groups.iter_rows():
        kernel = MeasuredKernel(name=trace.names[name], count=count, total_ns=total_ns)
        if geometry >= 0:
            kernel = _with_geometry(kernel, shapes[geometry])
        covered, own = amounts.get((name, geometry), (0, {}))
        yield _with_work(kernel, own) if covered == count else kernel


def _recorded_work(work: Workspace) -> dict[tuple[int, int], tuple[int, dict[str, float]]]:
    """By name and geometry: how many launches the program said something of, and what, added up.

    Metrics belong to the innermost caller of a kernel. They are the kernel's where nothing else ran below it.
    """
    trace = work.trace
    if trace.metrics.is_empty() or trace.contexts.is_empty():
        return {}
    group = pl.struct("name", "geometry")
    events = trace.events.select(pl.col("id"), "name", "geometry")
    callers = (
        trace.contexts.join(events, on="id", how="inner")
        .group_by("frame")
        .agg(group.n_unique().alias("kernels"), pl.col("name", "geometry").first(), pl.len().alias("launches"))
        .filter((pl.col("kernels") == 1) & ~pl.col("frame").is_in(trace.frames["parent"].unique().implode()))
    )
    said = callers.join(trace.metrics.cast({"id": pl.Int64}), left_on="frame", right_on="id", how="inner")
    covered = said.unique("frame").group_by("name", "geometry").agg(pl.col("launches").sum())
    sums = said.group_by("name", "geometry", "metric").agg(pl.col("value").sum())
    amounts: dict[tuple[int, int], tuple[int, dict[str, float]]] = {
        (name, geometry): (launches, {}) for name, geometry, launches in covered.iter_rows()
    }
    for name, geometry, metric, value in sums.iter_rows():
        amounts[name, geometry][1][metric] = value
    return amounts


def _of_tree(work: PathWorkspace) -> Iterator[MeasuredKernel]:
    tree = work.tree
    samples = _samples(stalls(work))
    nodes: dict[str, list[int]] = {}
    for node, kind in enumerate(tree.kind):
        if kind == "kernel":
            nodes.setdefault(tree.name[node], []).append(node)
    work_metrics = [name for name in tree.metrics if name == "bytes" or FLOPS.fullmatch(name)]
    for name, own in nodes.items():
        # A kernel may also be launched without metrics: then the sums do not cover all of its launches.
        amounts = {
            metric: float(tree.metrics[metric][own].sum())
            for metric in work_metrics
            if (tree.metrics[metric][own] > 0).all()
        }
        kernel = MeasuredKernel(
            name=name,
            count=int(tree.self_count[own].sum()),
            total_ns=int(tree.self_ns[own].sum()),
            samples=samples.get(name, ()),
        )
        yield _with_work(kernel, amounts)


@dataclass(frozen=True)
class StalledLine:
    """A row of the table `stalls`, without the reasons."""

    kernel: str
    file: str | None
    line: int | None
    function: str | None
    source: str | None
    samples: int | None
    stalled_samples: int | None


def _samples(table: Table) -> dict[str, tuple[LineSamples, ...]]:
    reasons = [column for column in table.frame.columns if column.startswith(STALL) and column != "stalled_samples"]
    reasons = [column for column in reasons if column not in ("stalled_percent", STALL + ISSUED)]
    lines: dict[str, list[LineSamples]] = {}
    waits = table.frame.select(reasons).rows() if reasons else [()] * len(table)
    for line, counts in zip(table.records(StalledLine), waits, strict=True):
        named = ((reason.removeprefix(STALL), count or 0) for reason, count in zip(reasons, counts, strict=True))
        lines.setdefault(line.kernel, []).append(
            LineSamples(
                samples=line.samples or 0,
                stalled=line.stalled_samples or 0,
                reasons=_most_first(named),
                file=line.file or "",
                line=line.line or 0,
                function=line.function or "",
                source=(line.source or "").strip(),
            )
        )
    return {kernel: tuple(own) for kernel, own in lines.items()}


@dataclass(frozen=True)
class CountedKernel:
    """Launches of one kernel and geometry that Nsight Compute profiled, added up."""

    kernel: str
    grid: str | None
    block: str | None
    registers: int | None
    shared_memory_bytes: int | None
    count: int
    total_ns: int | None
    dram_bytes: int | None
    launches: list[dict[str, int]]


def _of_counters(
    counters: Table, extra: Iterable[Table], lines: Mapping[str, tuple[LineSamples, ...]]
) -> Iterator[MeasuredKernel]:
    """Nsight Compute's launches: each was run alone, so that their times add up to no run's."""
    waits = next((table for table in extra if table.name == "counter_stalls"), None)
    shape = ("grid", "block", "registers", "shared_memory_bytes")
    groups = counters.frame.group_by("kernel", *shape, maintain_order=True).agg(
        pl.len().alias("count"),
        (pl.col("time_us").sum() * 1000).round().cast(pl.Int64).alias("total_ns"),
        pl.col("dram_bytes").sum(),
        pl.struct("process", "id").alias("launches"),
    )
    several = set(groups.filter(pl.col("kernel").is_duplicated())["kernel"].to_list())
    for kernel in records(groups, CountedKernel):
        # Lines are those of all launches of a name: with several geometries they are nobody's.
        own = lines.get(kernel.kernel, ()) if kernel.kernel not in several else ()
        yield _with_geometry(
            MeasuredKernel(
                name=kernel.kernel,
                count=kernel.count,
                total_ns=kernel.total_ns or 0,
                dram_bytes=float(kernel.dram_bytes or 0),
                samples=own or _counted_waits(waits, kernel.launches),
            ),
            Geometry(kernel.grid, kernel.block, kernel.registers, kernel.shared_memory_bytes),
        )


def _counted_waits(waits: Table | None, launches: list[dict[str, int]]) -> tuple[LineSamples, ...]:
    if waits is None:
        return ()
    keys = pl.DataFrame(launches, schema=waits.frame.select("process", "id").schema)
    own = waits.frame.join(keys, on=["process", "id"], how="semi").group_by("stall").agg(pl.col("samples").sum())
    counts = {stall: int(samples or 0) for stall, samples in own.iter_rows()}
    total = sum(counts.values())
    stalled = total - counts.pop(ISSUED, 0)
    return (LineSamples(total, stalled, _most_first(counts.items())),) if total else ()


def _most_first(counts: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(((name, count) for name, count in counts if count > 0), key=lambda pair: (-pair[1], pair[0])))


class Geometry(NamedTuple):
    """The launch geometry of a kernel, as profilers write it; None where it is not recorded."""

    grid: str | None
    block: str | None
    registers: int | None
    shared_bytes: int | None


def _with_geometry(kernel: MeasuredKernel, geometry: Geometry) -> MeasuredKernel:
    block = _sizes(geometry.block)
    return replace(
        kernel,
        grid=_sizes(geometry.grid),
        threads=math.prod(block) if block else NONE,
        registers=_known_size(geometry.registers),
        shared_bytes=_known_size(geometry.shared_bytes),
    )


def _with_work(kernel: MeasuredKernel, amounts: Mapping[str, float]) -> MeasuredKernel:
    flop = [(match[1] or "", value) for name, value in amounts.items() if (match := FLOPS.fullmatch(name))]
    return replace(kernel, flop=tuple(sorted(flop)), bytes=amounts.get("bytes", 0.0))


def _sizes(text: str | None) -> tuple[int, ...]:
    return tuple(int(size) for size in SIZE.findall(text or "")[:3])


def _known_size(value: int | None) -> int:
    return value if value is not None and value >= 0 else NONE
