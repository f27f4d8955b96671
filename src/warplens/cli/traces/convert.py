"""`warplens convert`."""

from __future__ import annotations

import argparse

from warplens.cli.opening import inputs_of, open_timeline
from warplens.cli.options import add_outputs, add_trace
from warplens.cli.printing import report_written
from warplens.cli.verb import Verb
from warplens.errors import UsageError


class ConvertVerb(Verb):
    """Write a trace for Perfetto, speedscope or data frames.

    Outputs are chosen by path: x.perfetto.json.gz or x.perfetto.json (a Chrome trace, which Perfetto and
    chrome://tracing open, with tracks for steps, findings, the critical path, idle time and kernel categories),
    x.speedscope.json (threads and streams over time) or x.parquet (one row per event).
    """

    name = "convert"
    inputs = ("trace",)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_trace(parser)
        add_outputs(parser, "x.perfetto.json.gz, x.perfetto.json, x.speedscope.json or x.parquet")

    def run(self, args: argparse.Namespace) -> int:
        from warplens.outputs.conversions import FORMS, plan_conversion

        if not args.output:
            raise UsageError("no output is given", hint=f"-o {FORMS}")
        inputs = inputs_of(args)
        targets = [plan_conversion(path, force=args.force, inputs=inputs) for path in args.output]
        profile = open_timeline(args)
        from warplens.profiles.timelines import rank_timeline

        timeline = rank_timeline(profile, with_tracks=any(target.conversion.has_tracks for target in targets))
        for target in targets:
            target.conversion.write(target.path, timeline)
        report_written(args.output)
        return 0
