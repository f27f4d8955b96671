"""The process that loads PyTorch and runs units one after another, as requests on its standard input ask.

Any unit may end it. Replies go to what was its standard output; what ops print goes to standard error.
"""

from __future__ import annotations

import importlib
import os
import queue
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from warplens_run.base.errors import WarplensError
from warplens_run.formats import replay_plan as plan_file
from warplens_run.replay import settings, wire
from warplens_run.replay.faults import one_line
from warplens_run.replay.safe_values import safe_values


def main() -> int:
    channel = _own_channel()
    job = wire.read_job(sys.stdin.readline())
    lines = _lines(job.folder)
    try:
        _serve(job, lines, lambda message: _send(channel, message))
    except WarplensError as error:
        _send(channel, wire.WorkerFault(error.message, error.hint or ""))
        return 1
    return 0


def _own_channel() -> TextIO:
    """What was standard output, which from here on is standard error: ops and libraries may print."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return channel


def _send(channel: TextIO, message: wire.Reply) -> None:
    channel.write(wire.line(message))
    channel.flush()


def _lines(folder: str) -> queue.Queue[str]:
    """The requests. If the other end is gone, no process waits for a reply or removes the folder."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return lines


def _serve(job: wire.ReplayJob, lines: queue.Queue[str], send: Callable[[wire.Reply], None]) -> None:
    plan = plan_file.load(Path(job.plan))
    if plan_file.fingerprint(plan) != job.plan_fingerprint:
        raise WarplensError("the plan changed during the run")
    settings.restore_variables(plan.settings)
    torch = _torch()
    # These load PyTorch.
    from warplens_run.replay import bench_making, unit_run
    from warplens_run.replay.imported import import_modules

    import_modules(job.options.imports)

    bench, hello = bench_making.make(plan, job, lambda part: send(wire.Alive(part)))
    send(hello)
    units = {unit.id: unit for unit in plan.units}
    state = bench_making.state_reader(bench.device)
    while True:
        task = wire.read_task(lines.get())
        unit = safe_values(units[task.unit]) if task.safe else units[task.unit]
        result = unit_run.run_unit(unit, bench, task.energy)
        broken = _is_broken(torch, bench.device)
        send(wire.Answer(result, state(), bench.meter.facts if bench.meter else None, broken))
        if broken:
            return


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise WarplensError(f"replay needs PyTorch ({one_line(error)})", hint="pip install torch") from error


def _is_broken(torch: Any, device: Any) -> bool:
    """An error on the GPU stays with the process that made it."""
    if device.type != "cuda":
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
