"""Makes the traces of a training job on many ranks from one real rank, with planted faults and the truth about them.

usage: make_ranks.py OUT [--grid tp=2,pp=1,dp=4,ep=1] [--steps 8] [--fault slow_gpu:rank=3,since=4,factor=1.3]…

An event simulation: hosts launch, streams run in order, and a collective ends for all ranks of its group when the
last one has started and the data are transferred, so waits arise as in a real job. OUT holds rankN.json.gz, as PyTorch
2.11 writes them, and truth.json: for each fault its ranks, first step, cause and exact gain (the simulated job less the
same job with the same noise without the fault), every host's true clock, and which kernels are one collective.

faults (rank=, since= and until= for all; both count steps from 0, and until is the first step without the fault):
  slow_gpu     factor=1.3         compute kernels take longer
  slow_link    factor=3           transfers of the rank's groups take longer
  gc           ms=30,every=2      the host pauses in every second step
  late_data    ms=20              the data loader takes longer
  uneven_data  factor=1.5         longer sequences: larger shapes, messages and kernel times; with spread=0.2 instead,
                                  the lengths of all ranks differ from step to step
  uneven_stage stage=1,layers=2   a pipeline stage has more layers
  hot_expert   factor=1.6         so many times its share of tokens goes to the rank's expert
  slow_host    factor=3,host=-1   host ops take longer, on one rank or on all of a host
  late_start   ms=8               the rank begins its first step late
  clock        offset_ms=50,drift_ppm=100   every host's clock is off by up to so much
  missing                         the rank has no file
  no_metadata                     no distributedInfo, and no sizes or groups of collectives
"""

from __future__ import annotations

import argparse
from functools import lru_cache
from pathlib import Path

from ranks_sim.base import Base
from ranks_sim.simulate import Job
from ranks_sim.spec import SAMPLE, Fault, Grid, JobSpec
from ranks_sim.truth import ClockTruth, StepTimesOf, Truth, clocks, collective_truths, fault_truths
from ranks_sim.write import ProgramTexts, RankWriter

__all__ = ["Fault", "Grid", "JobSpec", "Truth", "make_job"]


def make_job(out: Path, spec: JobSpec) -> Truth:
    """Writes a job's ranks and its truth.json into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    base = _base(spec.base)
    job = Job(spec, base)
    run = job.run()
    of_rank = clocks(spec)
    texts = ProgramTexts(job, base)
    kinds = {fault.kind for fault in spec.faults}
    missing = {fault.rank for fault in spec.faults if fault.kind == "missing"}
    launched = {}
    for rank_run, clock in zip(run.ranks, of_rank, strict=True):
        if rank_run.rank not in missing:
            writer = RankWriter(job, texts, rank_run, clock, metadata="no_metadata" not in kinds)
            launched[rank_run.rank] = writer.write(out / f"rank{rank_run.rank}.json.gz")
    step_ms = StepTimesOf(base, spec, run)
    truth = Truth(
        spec.grid.world,
        spec.seed,
        [spec.first_step + step for step in range(spec.steps)],
        step_ms(spec).tolist(),
        step_ms(spec.without()).tolist(),
        fault_truths(spec, step_ms),
        [ClockTruth(clock.offset_ns / 1_000, clock.drift_ppm) for clock in of_rank],
        collective_truths(run, launched),
    )
    truth.write(out / "truth.json")
    return truth


@lru_cache(maxsize=4)
def _base(path: Path) -> Base:
    return Base(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--grid", default="dp=4", help="sizes of the axes, such as tp=2,pp=2,dp=2,ep=1")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--events", type=int, default=1_000, help="GPU events per rank, about")
    parser.add_argument("--layers", type=int, default=4, help="layers per pipeline stage")
    parser.add_argument("--microbatches", type=int, default=0)
    parser.add_argument("--fault", action="append", default=[], metavar="KIND:VALUES")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--base", type=Path, default=SAMPLE, help="a real rank as Kineto JSON")
    parser.add_argument("--sharded", action="store_true", help="FSDP instead of DDP")
    parser.add_argument("--no-sync", action="store_true", help="no loss.item() in the steps")
    parser.add_argument("--no-loader", action="store_true", help="no data loader in the steps")
    parser.add_argument("--no-modules", action="store_true", help="no Python functions and modules")
    parser.add_argument("--seq", action="store_true", help="collectives have their sequence number")
    parser.add_argument("--gpus-per-host", type=int, default=8)
    parser.add_argument("--host-share", type=float, default=0.6, help="host time over GPU time of a step, at most")
    parser.add_argument("--noise", type=float, default=1.0, help="spread of durations over the usual one")
    given = parser.parse_args()
    sizes = {axis: int(size) for axis, _, size in (part.partition("=") for part in given.grid.split(","))}
    spec = JobSpec(
        grid=Grid(**sizes),
        steps=given.steps,
        events=given.events,
        layers=given.layers,
        microbatches=given.microbatches,
        faults=tuple(Fault.parse(text) for text in given.fault),
        seed=given.seed,
        base=given.base,
        sharded=given.sharded,
        sync=not given.no_sync,
        loader=not given.no_loader,
        modules=not given.no_modules,
        seq=given.seq,
        gpus_per_host=given.gpus_per_host,
        host_share=given.host_share,
        noise=given.noise,
    )
    truth = make_job(given.out, spec)
    print(f"{truth.world} ranks of {spec.steps} steps in {given.out}, {sum(truth.step_ms) / spec.steps:.2f} ms a step")
    for fault in truth.faults:
        ranks = ", ".join(map(str, fault.ranks[:8])) + ("…" if len(fault.ranks) > 8 else "")
        print(f"{fault.kind}: rank {ranks} from step {fault.since_step}, {fault.gain_ms_per_step:.3f} ms a step")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
