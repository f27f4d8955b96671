"""One rank's file: Kineto JSON as PyTorch 2.11 writes it, on the clock of the rank's host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from isal import igzip

from ranks_sim.base import Base, Ints
from ranks_sim.collective_texts import (
    CORRELATIONS_PER_CALL,
    IDS_PER_CALL,
    LAUNCH_CORRELATION,
    CallTexts,
    call_numbers,
    call_times,
    stream_number,
)
from ranks_sim.effects import Chance
from ranks_sim.flat import StepTimes
from ranks_sim.simulate import COPY_NS, Called, HostSpan, Job, RankRun, StepRun
from ranks_sim.spec import MICROSECOND
from ranks_sim.texts import (
    AUTOGRAD,
    COMPUTE_STREAM,
    DEVICE,
    MAIN,
    PROCESS,
    ProgramText,
    arguments,
    fill,
    gpu_event,
    host_event,
    kernel_ids,
)

BASE_TIME_NS = 1_790_857_026_000_000_000
# When the simulation begins, from the base time: ranks that start early by their clocks are still after zero.
BEGIN_NS = 3_932_460_812_000_000
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


@dataclass(frozen=True)
class Clock:
    """A host's clock against the true one."""

    offset_ns: float = 0.0
    drift_ppm: float = 0.0

    def local(self, times: npt.ArrayLike) -> Ints:
        true = np.asarray(times, dtype=np.float64)
        # Rounded before the large begin is added: a float of 4e15 ns has a resolution of half a nanosecond.
        return np.rint(true * (1 + self.drift_ppm * 1e-6) + self.offset_ns).astype(np.int64) + BEGIN_NS

    def stamp(self, begin: float, end: float) -> tuple[float, float]:
        """Begin and duration in µs, rounded as `local` rounds."""
        rate = 1 + self.drift_ppm * 1e-6
        first, last = round(begin * rate + self.offset_ns), round(end * rate + self.offset_ns)
        return (first + BEGIN_NS) / 1_000, (last - first) / 1_000


@dataclass(frozen=True)
class LaunchedCollective:
    """Which kernel of a rank belongs to which call of a group."""

    key: str
    number: int
    correlation: int


class ProgramTexts:
    """Format strings by stage and size of the data, made when first needed."""

    def __init__(self, job: Job, base: Base) -> None:
        self.job, self.base = job, base
        self._made: dict[tuple[int, float], ProgramText] = {}

    def of(self, rank: int, step: int) -> ProgramText:
        stage, data = self.job.spec.grid.stage(rank), self.job.effects[step][rank].data
        if (stage, data) not in self._made:
            self._made[(stage, data)] = ProgramText(self.job.programs[stage], self.base, data)
        return self._made[(stage, data)]


class RankWriter:
    """Collects the events of one rank."""

    def __init__(self, job: Job, texts: ProgramTexts, run: RankRun, clock: Clock, *, metadata: bool) -> None:
        self.job, self.texts, self.run, self.clock, self.metadata = job, texts, run, clock, metadata
        self.rank = run.rank
        self.process = 4_000 + 7 * run.rank
        self.device = run.rank % job.spec.gpus_per_host
        self.calls = CallTexts(run.rank, metadata=metadata, seq=job.spec.seq)
        self.parts: list[str] = []
        self.ext = 1
        self.correlation = 1 + run.rank  # no rank's ids are another's
        self.sequence = 1
        self.python_id = 1
        self.launched: list[LaunchedCollective] = []
        self.streams = {COMPUTE_STREAM}
        self._texts: dict[str, str] = {}
        self._tokens = (
            (PROCESS, str(self.process)),
            (MAIN, str(self.process)),
            (AUTOGRAD, str(self.process + 60)),
            (DEVICE, str(self.device)),
        )

    def write(self, path: Path) -> list[LaunchedCollective]:
        for number, step in enumerate(self.run.steps):
            self._step(number, step)
        text = self._header() + "".join(self.parts) + self._footer(path)
        path.write_bytes(igzip.compress(text.encode(), 1, mtime=0))
        return self.launched

    def _own(self, text: str) -> str:
        """A text with this rank's own numbers."""
        known = self._texts.get(text)
        if known is None:
            known = text
            for token, number in self._tokens:
                known = known.replace(token, number)
            self._texts[text] = known
        return known

    def _step(self, number: int, step: StepRun) -> None:
        name = f"ProfilerStep#{self.job.spec.first_step + number}"
        mark_ext = self._next_ext()
        self._add(host_event("user_annotation", name, MAIN, '"External id":%d'), (step.start, step.end), mark_ext)
        for span in step.spans:
            self._span(span)
        times = self.job.step_times(self.rank, number, Chance(self.job.spec, self.rank, number))
        gpu_span = self._blocks(number, step, times)
        for called in step.calls:
            self._called(called)
        self._add(gpu_event("gpu_user_annotation", name, COMPUTE_STREAM, '"External id":%d'), gpu_span, mark_ext)
        if self.job.spec.modules:
            self._python(step, times)

    def _blocks(self, number: int, step: StepRun, times: StepTimes) -> tuple[float, float]:
        program = self.job.programs[self.job.spec.grid.stage(self.rank)]
        host, compute = np.array(step.block_host), np.array(step.block_compute)
        unit_starts = host[program.unit_run] + times.unit_starts
        starts = unit_starts[program.host_unit] + program.host_start * times.unit_scales[program.host_unit]
        ends = starts + program.host_ns * times.unit_scales[program.host_unit]
        gpu_starts = program.gpu_starts(times, host, compute)
        gpu_ends = gpu_starts + times.gpu_ns
        text = self.texts.of(self.rank, number)
        local, first_ids = self.clock.local, (self.ext, self.correlation, self.sequence)
        self.parts.append(fill(self._own(text.host), local(starts), local(ends), text.host_ids, first_ids))
        self.parts.append(fill(self._own(text.gpu), local(gpu_starts), local(gpu_ends), text.gpu_ids, first_ids))
        self.ext += text.ops
        self.correlation += text.launches
        self.sequence += text.sequences
        if program.runs[-1].phase == "optimizer":
            span = (step.block_host[-1], step.block_host[-1] + times.host_ns[-1])
            annotation = host_event("user_annotation", "Optimizer.step#AdamW.step", MAIN, '"External id":%d')
            self._add(annotation, span, self._next_ext())
        return float(gpu_starts[0]), float(gpu_ends[-1])

    def _called(self, called: Called) -> None:
        host_text, gpu_text = self.calls.events(called)
        values: list[float] = []
        numbers = call_numbers(self.ext, self.correlation)
        for (begin, end), ids in zip(call_times(called), numbers, strict=True):
            values += self.clock.stamp(begin, end)
            values += ids
        self.parts.append(self._own(host_text) % tuple(values))
        meeting = called.meeting
        launch = self.correlation + LAUNCH_CORRELATION
        times_us = self.clock.stamp(meeting.starts[self.rank], meeting.ends[self.rank])
        self.parts.append(self._own(gpu_text) % (*times_us, self.ext + 1, launch, *times_us, self.ext + 2))
        self.launched.append(LaunchedCollective(meeting.key, meeting.number, launch))
        self.streams.add(stream_number(called.call.stream))
        self.ext += IDS_PER_CALL
        self.correlation += CORRELATIONS_PER_CALL

    def _span(self, span: HostSpan) -> None:
        thread = AUTOGRAD if span.phase == "backward" else MAIN
        if span.kind == "load":
            text = host_event("user_annotation", LOADER, MAIN, '"External id":%d')
            self._add(text, (span.start, span.end), self._next_ext())
        elif span.kind == "wait":
            ext, correlation = self._next_ext(), self._next_correlation()
            rest = {"Collective name": "wait", "In msg nelems": 0, "Out msg nelems": 0, "Group size": 1}
            of_wait = arguments(rest if self.metadata else {})
            text = host_event("cpu_op", "record_param_comms", thread, '"External id":%d', of_wait)
            length = span.end - span.start
            self._add(text, (span.start + 0.2 * length, span.start + 0.8 * length), ext)
            text = host_event("cuda_runtime", "cudaStreamWaitEvent", thread, '"External id":%d,"correlation":%d')
            self._add(text, (span.start + 0.4 * length, span.start + 0.6 * length), ext, correlation)
        else:
            self._item(span)

    def _item(self, span: HostSpan) -> None:
        outer, inner, correlation = self._next_ext(), self._next_ext(), self._next_correlation()
        begin, us = span.start, MICROSECOND
        shapes = arguments({"Input Dims": [[]], "Input type": ["float"]})
        op = '"External id":%d'
        self._add(host_event("cpu_op", "aten::item", MAIN, op, shapes), (begin, span.end), outer)
        self._add(
            host_event("cpu_op", "aten::_local_scalar_dense", MAIN, op, shapes), (begin + us, span.end - us), inner
        )
        ids = '"External id":%d,"correlation":%d'
        launched = min(begin + 20 * us, span.copy_start)
        call = host_event("cuda_runtime", "cudaMemcpyAsync", MAIN, ids, ',"cbid":41')
        self._add(call, (launched - 8 * us, launched), inner, correlation)
        call = host_event("cuda_runtime", "cudaStreamSynchronize", MAIN, ids, ',"cbid":131')
        self._add(call, (launched + us, span.end - 2 * us), inner, self._next_correlation())
        copy = gpu_event(
            "gpu_memcpy",
            "Memcpy DtoH (Device -> Pinned)",
            COMPUTE_STREAM,
            kernel_ids(COMPUTE_STREAM),
            arguments({"bytes": 4, "memory bandwidth (GB/s)": 0.0025}),
        )
        self._add(copy, (span.copy_start, span.copy_start + COPY_NS), inner, correlation)

    def _python(self, step: StepRun, times: StepTimes) -> None:
        """The step's function, and the modules whose forward passes ran in it."""
        root = self._function("train.py(61): train_step", (step.start, step.end), 0)
        for each in step.spans:
            if each.kind == "load":
                self._function("data.py(33): __getitem__", (each.start + MICROSECOND, each.end - MICROSECOND), root)
        for model_span, layers in self._modules(step, times):
            model = self._function("nn.Module: Model_0", model_span, root, 0)
            for module, span in layers:
                self._function(f"nn.Module: {module}", span, model, int(module.rpartition("_")[2]))

    def _modules(
        self, step: StepRun, times: StepTimes
    ) -> Iterator[tuple[tuple[float, float], list[tuple[str, tuple[float, float]]]]]:
        program = self.job.programs[self.job.spec.grid.stage(self.rank)]
        spans = [
            (start, start + length, run.phase, run.module)
            for start, length, run in zip(step.block_host, times.host_ns, program.runs, strict=True)
        ]
        spans += [(each.start, call_times(each)[0][1], each.call.phase, each.call.module) for each in step.calls]
        layers: list[tuple[str, tuple[float, float]]] = []
        for start, end, phase, module in sorted(spans):
            if phase != "forward" or not module:
                if phase != "forward" and layers:
                    yield (layers[0][1][0], layers[-1][1][1]), layers
                    layers = []
            elif layers and layers[-1][0] == module:
                layers[-1] = (module, (layers[-1][1][0], end))
            else:
                layers.append((module, (start, end)))
        if layers:
            yield (layers[0][1][0], layers[-1][1][1]), layers

    def _function(self, name: str, span: tuple[float, float], parent: int, module: int | None = None) -> int:
        number = self.python_id
        self.python_id += 1
        of_module = "" if module is None else f',"Python module id":{module}'
        ids = f'"Python parent id":{parent or "null"},"Python id":{number}{of_module}'
        self._add(host_event("python_function", name, MAIN, ids), span)
        return number

    def _add(self, text: str, span: tuple[float, float], *numbers: int) -> None:
        self.parts.append(self._own(text) % (*self.clock.stamp(*span), *numbers))

    def _next_ext(self) -> int:
        self.ext += 1
        return self.ext - 1

    def _next_correlation(self) -> int:
        self.correlation += 1
        return self.correlation - 1

    def _header(self) -> str:
        spec = self.job.spec
        devices = [
            self.texts.base.device | {"id": number} for number in range(min(spec.gpus_per_host, spec.grid.world))
        ]
        head: dict[str, object] = {
            "schemaVersion": 1,
            "deviceProperties": devices,
            "record_shapes": 1,
            "trace_id": f"{spec.seed:016X}{self.rank:016X}",
        }
        if self.metadata:
            groups = [group for group in self.job.groups if self.rank in group.ranks]
            config = [
                {
                    "pg_name": group.name,
                    "pg_desc": "default_pg" if group.axis == "world" else f"mesh_{group.axis}",
                    "backend_config": "cuda:nccl",
                    "pg_size": len(group.ranks),
                    "ranks": list(group.ranks),
                }
                for group in groups
            ]
            head["distributedInfo"] = {
                "backend": "nccl",
                "rank": self.rank,
                "world_size": spec.grid.world,
                "pg_count": len(self.job.groups),
                "pg_config": config,
                "nccl_version": "2.28.9",
            }
        head |= {"cuda_runtime_version": 13000, "cuda_driver_version": 13000, "displayTimeUnit": "ms"}
        head["baseTimeNanoseconds"] = BASE_TIME_NS
        return json.dumps(head)[:-1] + ',"traceEvents":[\n'

    def _footer(self, path: Path) -> str:
        begin_us, length_us = self.clock.stamp(0.0, max(step.end for step in self.run.steps))

        def named(kind: str, process: int, thread: int, args: dict[str, object]) -> dict[str, object]:
            return {"name": kind, "ph": "M", "ts": begin_us, "pid": process, "tid": thread, "args": args}

        process, autograd = self.process, self.process + 60
        events = [
            named("process_name", process, 0, {"name": "python"}),
            named("process_labels", process, 0, {"labels": "CPU"}),
            named("process_name", self.device, 0, {"name": "python"}),
            named("process_labels", self.device, 0, {"labels": f"GPU {self.device}"}),
            named("thread_name", process, process, {"name": f"thread {process} (python)"}),
            named("thread_name", process, autograd, {"name": f"thread {autograd} (pt_autograd_0)"}),
        ]
        events += [
            named("thread_name", self.device, stream, {"name": f"stream {stream} "}) for stream in sorted(self.streams)
        ]
        span = {"ph": "X", "cat": "Trace", "ts": begin_us, "dur": length_us, "pid": "Spans"}
        events.append(span | {"tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)", "args": {"Op count": 0}})
        lines = ",\n".join(json.dumps(event) for event in events)
        return f'{lines}\n],"traceName":{json.dumps(path.name.removesuffix(".gz"))}}}\n'
