"""`warplens convert`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from warplens.cli.opening import inputs_of, open_job, open_profile, timeline_of
from warplens.cli.options import add_outputs, add_ranks, add_trace
from warplens.cli.progress import spinner
from warplens.cli.rank_choice import names_job
from warplens.outputs import Document, plan_outputs, write
from warplens.outputs.conversions import FORMS, PATHS, ConversionTarget, plan_conversion
from warplens.outputs.perfetto import write_perfetto
from warplens.profiles.job_timelines import job_timelines
from warplens.profiles.options import parse_size
from warplens.profiles.timelines import rank_timeline
from warplens_run.base.errors import UsageError
from warplens_run.base.units import listed
from warplens_run.cli.printing import note, report_written
from warplens_run.cli.verb import Verb


class ConvertVerb(Verb):
    """Write a trace for Perfetto, speedscope, Proton's viewer or data frames.

    Outputs are chosen by path: x.perfetto.json.gz or x.perfetto.json (a Chrome trace, which Perfetto and
    chrome://tracing open, with tracks for steps, findings, the critical path, idle time and kernel categories),
    x.speedscope.json (threads and streams over time), x.parquet (one row per event) or x.hatchet (sums by call path,
    for proton-viewer and Hatchet; of Proton's trees too).

    Ranks of a job become one Chrome trace, their clocks aligned, with arrows between their collectives: all up to 8, or
    those that matter (the slowest, the median, the fastest, the first, and who delays others), or those of
    --ranks.
    """

    name = "convert"
    inputs = ("trace",)
    reads_jobs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_trace(parser, jobs=True, several_ranks=True)
        add_ranks(parser, "to write, instead of those that matter")
        add_outputs(parser, "x.perfetto.json.gz, x.perfetto.json, x.speedscope.json, x.parquet or x.hatchet")

    def run(self, args: argparse.Namespace) -> int:
        if not args.output:
            raise UsageError("no output is given", hint=f"-o {FORMS}")
        inputs = inputs_of(args)
        of_paths = [path for path in args.output if path.lower().endswith(PATHS)]
        trees = plan_outputs(of_paths, tables="csv", force=args.force, inputs=inputs)
        others = [path for path in args.output if path not in of_paths]
        targets = [plan_conversion(path, force=args.force, inputs=inputs) for path in others]
        if names_job(args):
            return _convert_job(args, targets, of_paths)
        profile = open_profile(args)
        if targets:
            timeline = rank_timeline(
                timeline_of(profile), with_tracks=any(target.conversion.has_tracks for target in targets)
            )
            for target in targets:
                target.conversion.write(target.path, timeline, force=target.force)
        for tree in trees:
            write(tree, Document("call paths", profile.source, {}, [], paths=profile.call_paths))
        report_written(args.output)
        return 0


def _convert_job(args: argparse.Namespace, targets: Sequence[ConversionTarget], of_paths: Sequence[str]) -> int:
    for other in [*of_paths, *(target.path for target in targets if not target.conversion.has_tracks)]:
        hint = "x.perfetto.json.gz has several; --rank N converts one"
        raise UsageError(f"{other} is a form for one trace, not for the ranks of a job", hint=hint)
    job = open_job(args)
    with spinner("reading the timelines"):
        ranks, max_bytes = [*args.rank, *args.ranks], parse_size(args.max_size)
        chosen = job_timelines(job, ranks, cache=not args.no_cache, rules=args.rules, max_bytes=max_bytes)
        for target in targets:
            write_perfetto(target.path, chosen.timelines, chosen.flows, force=target.force)
    if len(chosen.ranks) < len(job.job.ranks):
        note(f"ranks {listed(list(map(str, chosen.ranks)))} of {len(job.job.ranks):,}")
    report_written(args.output)
    return 0
