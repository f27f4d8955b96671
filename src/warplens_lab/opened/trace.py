"""`OpenedKernelTrace`: what each program of traced kernel launches did; `trace_kernel` makes one of a kernel."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from warplens.hardware import Gpu
from warplens.model.clock import MEASURED
from warplens.model.table_entry import TableEntry
from warplens.outputs import Document, Extras
from warplens.profiles.on_demand import TablesOnDemand, bound
from warplens_lab.scenes.kernel_scene import KernelScene
from warplens_lab.tracing import file as trace_file
from warplens_lab.tracing.records import Fault, KernelTrace, TracedLaunch, is_failure
from warplens_lab.tracing.scene import kernel_scene
from warplens_lab.tracing.tables import TABLES
from warplens_lab.tracing.watching.debugging import ProgramDebugger
from warplens_lab.tracing.watching.session import TracedKernel
from warplens_run.base.units import format_bytes, format_flop, listed, plural

if TYPE_CHECKING:
    from typing_extensions import Unpack

KERNEL_TRACE_TABLES = {name: TableEntry(name, make) for name, make in TABLES.items()}


class OpenedKernelTrace(TablesOnDemand):
    """Traced kernel launches: bytes, FLOPs and faults of each, by statement and tensor.

    `warplens.open` makes one of a file that `warplens kernel trace -o x.wkt` wrote; `trace` has its records.

    >>> import warplens
    >>> traced = warplens.open("samples/kernels/slow_softmax.wkt")
    >>> traced.verdict()
    '1 launch of softmax_kernel: 500.0 KiB moved, 458.8 kFLOP, no faults.'
    """

    contains = "traced kernel launches"
    kind = "kernel"

    def __init__(self, trace: KernelTrace, source: str) -> None:
        super().__init__(bound(KERNEL_TRACE_TABLES, trace))
        self.trace = trace
        self._source = source

    def _contents(self) -> str:
        return plural(len(self.launches), "launch", "launches")

    @property
    def source(self) -> str:
        """The file of the trace, or the kernel that was traced."""
        return self._source

    @property
    def hardware(self) -> Gpu | None:
        """None: launches are traced on the CPU."""
        return None

    @property
    def launches(self) -> tuple[TracedLaunch, ...]:
        """The launches, in the order of the run."""
        return self.trace.launches

    @property
    def faults(self) -> tuple[tuple[TracedLaunch, Fault], ...]:
        """Each fault with its launch."""
        return self.trace.faults

    def save(self, path: str | os.PathLike[str], *, force: bool = True) -> None:
        """Writes the trace to a file (.wkt) that `warplens.open` reads; without `force`, not over another file."""
        trace_file.save(self.trace, path, force=force)

    def _conclusion(self) -> tuple[str, str]:
        """What the launches move and compute, and how many faults they have."""
        names = listed(list(dict.fromkeys(launch.kernel for launch in self.launches)))
        if not names:
            return "No kernel was launched.", MEASURED
        moved = format_bytes(sum(launch.true_bytes for launch in self.launches))
        flop = format_flop(sum(launch.flop for launch in self.launches))
        count = sum(is_failure(fault) for _, fault in self.faults)
        faults = plural(count, "fault") if count else "no faults"
        return (
            f"{plural(len(self.launches), 'launch', 'launches')} of {names}: {moved} moved, {flop}, {faults}.",
            MEASURED,
        )

    def _headline(self) -> tuple[str, ...]:
        return f"Triton {self.trace.triton}", plural(len(self.trace.launches), "launch", "launches")

    def document(self, tables: Iterable[str] | None = None, *, command: str = "") -> Document:
        """The tables with the facts about the trace; the page shows the launches program by program."""
        trace = self.trace
        facts = {"Triton": trace.triton, "mode": trace.mode, "seed": str(trace.seed)}
        return Document(
            title=f"Warplens kernel trace: {Path(self.source).name}",
            source=self.source,
            facts=facts,
            tables=[self.table(name) for name in (self.report_names if tables is None else tables)],
            extras=lambda: Extras(command=command),
            answer=self.answer(),
            kind="kernel_trace" if trace.mode == "record" else "paths",
            page=self._scene,
        )

    def _scene(self) -> KernelScene:
        return kernel_scene(self.trace)


def open_kernel_trace(path: Path, card: str = "") -> OpenedKernelTrace:
    return OpenedKernelTrace(trace_file.load(path), str(path))


class TraceOptions(TypedDict, total=False):
    """The options of `warplens_lab.tracing.trace`, which documents them and has their defaults."""

    mode: str
    sample: float | None
    seed: int
    checks: bool
    values: bool
    out_of_bounds: str
    stop_at_fault: bool
    strict: bool
    shadow: str | None
    debugger: ProgramDebugger | None


class OpenableKernel(TracedKernel):
    """A kernel whose launches are traced; used like the kernel itself."""

    @property
    def trace(self) -> OpenedKernelTrace:  # type: ignore[override]
        """All launches so far."""
        return OpenedKernelTrace(super().trace, str(getattr(self, "__name__", "kernel")))


def trace_kernel(
    kernel: Any = None, **options: Unpack[TraceOptions]
) -> OpenableKernel | Callable[[Any], OpenableKernel]:
    """Decorator above `@triton.jit`: each launch of this kernel runs in the interpreter and is recorded.

    Takes the options of `warplens_lab.tracing.trace`: `@trace_kernel(mode="count")`. `kernel.trace` is what was
    traced so far, as an `OpenedKernelTrace`.
    """
    if kernel is None:
        return lambda later: OpenableKernel(later, dict(options))
    return OpenableKernel(kernel, dict(options))
