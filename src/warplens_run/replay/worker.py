"""The process that loads PyTorch and runs units one after another, as requests on its standard input ask.

Any unit may end it.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any

from warplens_run.base.errors import WarplensError
from warplens_run.formats import replay_plan as plan_file
from warplens_run.processes.parent import Parent
from warplens_run.replay import settings, wire
from warplens_run.replay.faults import one_line
from warplens_run.replay.safe_values import safe_values


def main() -> int:
    parent = Parent()
    job = wire.read_job(parent.receive())
    parent.at_end = lambda: shutil.rmtree(job.folder, ignore_errors=True)
    try:
        _serve(job, parent)
    except WarplensError as error:
        parent.send(wire.line(wire.WorkerFault(error.message, error.hint or "")))
        return 1
    return 0


def _serve(job: wire.ReplayJob, parent: Parent) -> None:
    def send(message: wire.Reply) -> None:
        parent.send(wire.line(message))

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
        task = wire.read_task(parent.receive())
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
