"""`trace`: every Triton launch in a block of code, run by the interpreter and recorded. `trace_kernel`: one kernel.

>>> with trace(mode="count") as tracing:  # doctest: +SKIP
...     kernel[grid](x, y, out, n, BLOCK=256)
>>> tracing.trace.launches[0].true_bytes  # doctest: +SKIP
12000
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from warplens_lab.compiling.changing import changed
from warplens_lab.tracing.interpreter.libdevice import libdevice_runs
from warplens_lab.tracing.interpreter.plain_tensors import as_plain
from warplens_lab.tracing.interpreter.repairs import without_gluon
from warplens_lab.tracing.interpreter.routing import interpreting, load_interpreter
from warplens_lab.tracing.records import Fault, KernelTrace, Mode, TracedLaunch
from warplens_lab.tracing.watching.coverage import Coverage
from warplens_lab.tracing.watching.debugging import ProgramDebugger
from warplens_lab.tracing.watching.exposed import ExposedTensors
from warplens_lab.tracing.watching.launches import LaunchTrace
from warplens_lab.tracing.watching.recorder import RecordingOptions
from warplens_lab.tracing.watching.undefined import UndefinedMemory
from warplens_run.base.errors import UsageError

_open: list[Tracing] = []


class Tracing:
    """A trace that is being made; `trace` is what it holds so far, as a frozen record."""

    def __init__(self, options: RecordingOptions, triton: str) -> None:
        self._options = options
        self._triton = triton
        self._launches: list[TracedLaunch] = []
        self._running: LaunchTrace | None = None
        self.coverage = Coverage()
        self._is_finished = False
        self.configs: dict[int, str] = {}
        """By the launch's number: the config that it ran with, where an autotuner had several."""

    @property
    def trace(self) -> KernelTrace:
        options = self._options
        return KernelTrace(options.mode, self._triton, options.seed, options.sample, tuple(self._launches))

    @property
    def launches(self) -> tuple[TracedLaunch, ...]:
        return tuple(self._launches)

    @property
    def faults(self) -> tuple[tuple[TracedLaunch, Fault], ...]:
        return self.trace.faults

    @property
    def program(self) -> tuple[int, int, int] | None:
        """The program that runs, or that ran last; None before the first."""
        return None if self._running is None else self._running.program

    def begin(self, launch: LaunchTrace) -> None:
        self._running = launch

    def add(self, launch: TracedLaunch) -> None:
        self._launches.append(launch)

    def decide_nothing(self) -> None:
        """Not all launches are made: what none of them touched may be for the others."""
        self._is_finished = True

    def finish(self) -> None:
        """All launches are made: what none of them touched is added to their faults."""
        if self._is_finished:
            return
        self._is_finished = True
        for index, fault in self.coverage.faults(self._launches):
            launch = self._launches[index]
            self._launches[index] = replace(launch, faults=(*launch.faults, fault))


@contextmanager
def trace(
    mode: Mode = "record",
    *,
    sample: float | None = None,
    seed: int = 0,
    checks: bool = True,
    values: bool = False,
    out_of_bounds: str = "mask",
    stop_at_fault: bool = False,
    strict: bool = False,
    shadow: str | None = None,
    debugger: ProgramDebugger | None = None,
) -> Iterator[Tracing]:
    """Runs every launch inside it in Triton's interpreter, on the CPU, and records what each program does.

    mode           "count": totals per statement and tensor. "record": every operation with its offsets and mask too.
    sample, seed   trace only that many programs of a launch (or, below 1, that share), chosen by the seed. All
                   programs still run, so results are right; all numbers are of the traced programs, and only
                   those are checked.
    checks         look for accesses out of bounds, uninitialised reads, races, failed assertions and overflows.
    values         keep what was loaded, stored and computed, and the tensors before and after (mode "record").
    out_of_bounds  "mask": report such lanes and drop them, so that the memory next to a tensor is neither read nor
                   written. "raise": stop at the statement with a `KernelFault`.
    stop_at_fault  raise `KernelFault` at the first fault of any kind.
    strict         with stop_at_fault: stop at notes as well (a race of equal values, a block wholly outside, …).
    shadow         "fp64": run every floating value beside itself in fp64, and compare the outputs (slow).
    debugger       opens pdb in chosen programs.
    """
    options = RecordingOptions(mode, sample, seed, checks, values, out_of_bounds, stop_at_fault, strict, shadow)
    with recording(options, debugger) as tracing:
        yield tracing


@contextmanager
def recording(options: RecordingOptions, debugger: ProgramDebugger | None = None) -> Iterator[Tracing]:
    """`trace`, with its options as a record."""
    if _open:
        raise UsageError("a trace of kernels is open already; it records this launch too")
    interpreter = load_interpreter()
    tracing = Tracing(options, _version())
    undefined, exposed = UndefinedMemory(), ExposedTensors()
    with ExitStack() as stack:
        _open.append(tracing)
        stack.callback(_open.pop)
        stack.enter_context(interpreting(interpreter))
        stack.enter_context(libdevice_runs())
        stack.enter_context(_kernels_watched(tracing))
        stack.enter_context(_launches_go_to(tracing, interpreter, options, undefined, debugger, exposed))
        stack.enter_context(exposed.watching())
        if options.checks:
            stack.enter_context(undefined.watching())
        yield tracing
    tracing.finish()


@contextmanager
def _launches_go_to(
    tracing: Tracing,
    interpreter: Any,
    options: RecordingOptions,
    undefined: UndefinedMemory,
    debugger: ProgramDebugger | None,
    exposed: ExposedTensors,
) -> Iterator[None]:
    original = interpreter.GridExecutor.__call__

    def tensor_at(address: int) -> Any:
        found = exposed.at(address)
        return None if found is None else found[1]

    def call(executor: Any, *given: Any, **named: Any) -> None:
        args = tuple(as_plain(value, tensor_at) for value in given)
        kwargs = {name: as_plain(value, tensor_at) for name, value in named.items()}
        names = inspect.signature(executor.fn).parameters
        # A launch that lacks an argument raises here, and is none.
        inspect.getcallargs(executor.fn, *args, **{name: value for name, value in kwargs.items() if name in names})
        launch = LaunchTrace(interpreter, options, len(tracing.launches), undefined, debugger, exposed)
        tracing.begin(launch)
        is_whole = False
        try:
            launch.run(original, executor, args, kwargs)
            is_whole = options.sample is None and not launch.recorder.has_strays
        finally:
            if launch.launch is not None:
                tracing.add(launch.launch)
                if options.checks:
                    tracing.coverage.add(launch.launch, launch.recorder.memory, whole=is_whole)

    interpreter.GridExecutor.__call__ = call
    try:
        yield
    finally:
        interpreter.GridExecutor.__call__ = original


@contextmanager
def _kernels_watched(tracing: Tracing) -> Iterator[None]:
    """Autotuners report the config they took; what the interpreter cannot run is refused."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    run_tuned = Autotuner.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        first = len(tracing.launches)
        try:
            return run_tuned(self, *args, **kwargs)
        finally:
            if len(self.configs) > 1 and getattr(self, "best_config", None) is not None:
                text = f"{config_text(self.best_config)}, one of {len(self.configs)} configs of its autotune"
                tracing.configs.update(dict.fromkeys(range(first, len(tracing.launches)), text))

    with changed((Autotuner, "run", run), (JITFunction, "run", without_gluon(JITFunction.run))):
        yield


def config_text(config: Any) -> str:
    """A config's own values; the number of warps is always one."""
    return ", ".join(f"{name}={value}" for name, value in (*config.kwargs.items(), ("num_warps", config.num_warps)))


class TracedKernel:
    """A kernel whose launches are traced; used like the kernel itself. `trace` holds all of them so far."""

    def __init__(self, kernel: Any, options: dict[str, Any]) -> None:
        self._kernel = kernel
        self._trace_options = options
        self._traces: list[KernelTrace] = []

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        if _open:
            return self._kernel.run(*args, **kwargs)
        with trace(**self._trace_options) as tracing:
            try:
                return self._kernel.run(*args, **kwargs)
            finally:
                self._traces.append(tracing.trace)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._kernel(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    @property
    def trace(self) -> KernelTrace:
        if not self._traces:
            raise UsageError("this kernel has not been launched yet")
        return joined(self._traces)


def trace_kernel(kernel: Any = None, **options: Any) -> Any:
    """Decorator above `@triton.jit`: each launch of this kernel runs in the interpreter and is recorded.

    Takes the options of `trace`: `@trace_kernel(mode="count")`. `kernel.trace` is the trace of all launches so far.
    """
    if kernel is None:
        return lambda later: TracedKernel(later, options)
    return TracedKernel(kernel, options)


def joined(traces: Iterable[KernelTrace]) -> KernelTrace:
    """Traces of one program as one, launches numbered anew."""
    listed = tuple(traces)
    launches = [launch for trace in listed for launch in trace.launches]
    numbered = tuple(replace(launch, index=number) for number, launch in enumerate(launches))
    return replace(listed[0], launches=numbered)


def _version() -> str:
    import triton

    return str(triton.__version__)
