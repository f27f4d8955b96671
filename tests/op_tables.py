"""Op tables of training jobs made by hand: a pipeline schedule with one forward and one backward at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

Seconds = Callable[[str, int, int, int], float]
"""(op type, data-parallel rank, stage, step) → how long such an op takes."""
SECONDS = {"forward-compute": 0.010, "backward-compute": 0.020, "optimizer": 0.004, "grads-reduce-scatter": 0.002,
           "params-all-gather": 0.001}  # fmt: skip


def usual(op_type: str, dp: int, stage: int, step: int) -> float:
    return SECONDS.get(op_type, 0.0)


@dataclass
class Pipeline:
    """A job whose ops start as soon as they can: its steps have known times."""

    dp: int = 2
    stages: int = 2
    microbatches: int = 4
    steps: tuple[int, ...] = (7, 8)
    seconds: Seconds = usual
    rows: list[dict[str, Any]] = field(default_factory=list)
    sends: dict[tuple[str, int, tuple[int, int]], float] = field(default_factory=dict)
    """(direction, step, worker) → when its last send so far ended."""

    def frame(self) -> pl.DataFrame:
        self.rows, self.sends = [], {}
        for step in self.steps:
            self._step(step)
        return pl.DataFrame(self.rows).sort("step", "rank", "optype", "seq_id")

    def write(self, path: Path, meta: str = "") -> Path:
        self.frame().write_parquet(path)
        if meta:
            path.with_name(path.stem.replace("trace", "meta") + ".yaml").write_text(meta)
        return path

    def _step(self, step: int) -> None:
        gathered = self._meeting(
            "params-all-gather", step, {(d, s): 0.0 for d in range(self.dp) for s in range(self.stages)}
        )
        ends = {}
        for dp in range(self.dp):
            ends |= self._pipeline(step, dp, gathered)
        for name in ("gc", "layernorm-grads-all-reduce"):
            ends = {worker: self._op(name, step, worker, end) for worker, end in ends.items()}
        last = self.stages - 1
        for dp in range(self.dp):
            edge = {(dp, stage): ends[dp, stage] for stage in {0, last}}
            ends |= self._meeting("embedding-grads-all-reduce", step, edge, over=lambda worker: worker[0])
        ends = self._meeting("grads-reduce-scatter", step, ends)
        ends = self._meeting("optimizer-clip-main-grad", step, ends, over=lambda worker: 0)
        for worker, end in ends.items():
            self._op("optimizer", step, worker, end)

    def _pipeline(self, step: int, dp: int, gathered: dict[tuple[int, int], float]) -> dict[tuple[int, int], float]:
        """The end of the last computation of each stage."""
        todo = {stage: self._schedule(stage) for stage in range(self.stages)}
        free = {stage: gathered[dp, stage] for stage in todo}
        history: dict[int, list[tuple[str, float]]] = {stage: [] for stage in todo}
        sent: dict[tuple[str, int, int], float] = {}
        while any(todo.values()):
            for stage, queue in todo.items():
                while queue and self._run(queue[0], step, (dp, stage), free, history[stage], sent):
                    queue.pop(0)
        return {(dp, stage): end for stage, end in free.items()}

    def _schedule(self, stage: int) -> list[tuple[str, int]]:
        """Forward until the pipeline is full, then backward and forward in turns."""
        warmup = min(self.microbatches, self.stages - 1 - stage)
        order = [("forward", number) for number in range(warmup)]
        for number in range(self.microbatches):
            if warmup + number < self.microbatches:
                order.append(("forward", warmup + number))
            order.append(("backward", number))
        return order

    def _run(
        self,
        what: tuple[str, int],
        step: int,
        worker: tuple[int, int],
        free: dict[int, float],
        history: list[tuple[str, float]],
        sent: dict[tuple[str, int, int], float],
    ) -> bool:
        direction, number = what
        stage = worker[1]
        source = stage - 1 if direction == "forward" else stage + 1
        ready = free[stage]
        if 0 <= source < self.stages:
            if (direction, number, source) not in sent:
                return False
            ready = max(ready, self._receive(what, step, worker, history, sent[direction, number, source]))
        end = self._op(f"{direction}-compute", step, worker, ready, number, number)
        history.append((direction, end))
        free[stage] = end
        target = stage + 1 if direction == "forward" else stage - 1
        if 0 <= target < self.stages:
            sent[direction, number, stage] = end
        return True

    def _receive(
        self,
        what: tuple[str, int],
        step: int,
        worker: tuple[int, int],
        history: list[tuple[str, float]],
        sent: float,
    ) -> float:
        """Posted when the computation before the one that it feeds has ended; both sides end when both have begun."""
        direction, number = what
        own = [end for kind, end in history if kind == direction]
        posted = own[number - 1] if number else 0.0
        if direction == "backward" and not number and len(history) > 1:
            posted = history[-2][1]
        sender = (worker[0], worker[1] - 1 if direction == "forward" else worker[1] + 1)
        started = max(sent, self.sends.get((direction, step, sender), 0.0))  # one after the other
        end = max(posted, started)
        self.sends[direction, step, sender] = end
        self._add(f"{direction}-send", step, sender, started, end, number, -1)
        self._add(f"{direction}-recv", step, worker, posted, end, number, -1)
        return end

    def _op(
        self, name: str, step: int, worker: tuple[int, int], start: float, number: int = 0, batch: int = -1
    ) -> float:
        end = start + self.seconds(name, *worker, step)
        self._add(name, step, worker, start, end, number, batch)
        return end

    def _meeting(
        self,
        name: str,
        step: int,
        starts: dict[tuple[int, int], float],
        over: Callable[[tuple[int, int]], int] = lambda worker: worker[1],
    ) -> dict[tuple[int, int], float]:
        """A collective of the workers for which `over` gives the same number."""
        ends = {}
        for worker, start in starts.items():
            met = max(other for them, other in starts.items() if over(them) == over(worker))
            ends[worker] = met + self.seconds(name, *worker, step)
            self._add(name, step, worker, start, ends[worker], 0, -1)
        return ends

    def _add(
        self, name: str, step: int, worker: tuple[int, int], start: float, end: float, number: int, batch: int
    ) -> None:
        dp, stage = worker
        chunk = 0 if name.endswith("-compute") or "param" in name or "scatter" in name else -1
        self.rows.append(
            {"dp_rank": dp, "stage": stage, "rank": stage * self.dp + dp, "step": step, "optype": name, "start_ts": start,
             "duration": end - start, "seq_id": number, "mc": chunk, "mb_id": batch,
             "gmc": stage if name.endswith("-compute") else -1}
        )  # fmt: skip


def slow_worker(dp: int, stage: int, factor: float) -> Seconds:
    """One worker computes slower than the others."""

    def seconds(op_type: str, of_dp: int, of_stage: int, step: int) -> float:
        slow = op_type.endswith("-compute") and (of_dp, of_stage) == (dp, stage)
        return usual(op_type, of_dp, of_stage, step) * (factor if slow else 1.0)

    return seconds


def slow_stage(stage: int, factor: float) -> Seconds:
    """All workers of one stage compute slower than the others."""

    def seconds(op_type: str, of_dp: int, of_stage: int, step: int) -> float:
        slow = op_type.endswith("-compute") and of_stage == stage
        return usual(op_type, of_dp, of_stage, step) * (factor if slow else 1.0)

    return seconds
