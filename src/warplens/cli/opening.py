"""Opens the profile that a verb is given, with the options that `options.add_trace` declares."""

from __future__ import annotations

import argparse
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from warplens.cli.options import SHORT
from warplens.cli.progress import progress
from warplens.cli.rank_choice import given_paths, names_job
from warplens.interrupts import ending_at_once
from warplens.settings import load_settings
from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.base.units import listed
from warplens_run.cli.printing import note

if TYPE_CHECKING:
    from warplens.profiles.job import JobProfile
    from warplens.profiles.opened import Opened
    from warplens.profiles.trace import Profile


RENAMED = {"short_us": "short", "step_ms": "step_time", "graph_captures": "graph_capture"}
"""Keyword of `warplens.open`: the option's name, where it is another."""


def open_reported(args: argparse.Namespace) -> Opened:
    """The profile of TRACE for verbs that ask for its tables: those of an earlier report, where these are kept."""
    return reopen(args, report_name(args)) or open_profile(args)


def reopen(args: argparse.Namespace, name: str | None) -> Opened | None:
    """The report that is kept under a name; None where none is."""
    if name is None:
        return None
    from warplens.profiles.finished import load
    from warplens.profiles.reopened import ReopenedProfile

    report = load(name)
    if report is None:
        return None
    return ReopenedProfile(args.trace, report, lambda: open_profile(args).with_timeline())


def keep_report(name: str | None, profile: Opened) -> None:
    """Keep the tables of a report, for `reopen`; only those of traces are worth it."""
    from warplens.profiles.finished import save
    from warplens.profiles.trace import Profile

    if name is not None and isinstance(profile, Profile):
        save(name, profile.finished())


def report_name(args: argparse.Namespace) -> str | None:
    """What TRACE's report is called in the cache; None for what is never kept: jobs, folders, streams, what
    other packages read or advise."""
    with ending_at_once():
        from warplens.extensions import READERS, RULES, offered
        from warplens.profiles.finished import entry_name

    if args.no_cache or args.more or getattr(args, "ranks", ()) or offered(READERS) or offered(RULES):
        return None
    joined = [args.gpu_file, args.execution_trace, *args.graph_capture, *args.ncu, args.replay, args.proof,
              args.memory_snapshot]  # fmt: skip
    files = [args.trace, *args.rules, *(file for file in joined if file)]
    given = [len(args.rules), len(args.ncu), len(args.graph_capture), *map(bool, joined)]
    settings = [args.gap, args.short, args.gpu, args.min_gain, args.step_time, args.timeline, args.phase, args.range]
    return entry_name(files, [given, settings])


def open_profile(args: argparse.Namespace, path: str | None = None) -> Opened:
    """The profile of TRACE, or of another `path` with the same options."""
    from warplens_run.base.units import parse_duration

    gap, short = parse_duration(args.gap), parse_duration(args.short)
    paths = given_paths(args) if path is None else [path]
    if path is None and names_job(args):
        return open_job(args)
    source = paths[0]
    if getattr(args, "ranks", ()):
        raise UsageError(f"--ranks chooses among the ranks of a job, and {source} is one trace", hint="omit --ranks")
    with progress(f"reading {source}", Path(source)):
        with ending_at_once():
            from warplens.api import open as open_trace

        profile = open_trace(
            source,
            cache=not args.no_cache,
            rules=args.rules,
            gap_us=gap / 1e3,
            short_us=short / 1e3,
            gpu=args.gpu,
            gpu_file=args.gpu_file,
            execution_trace=args.execution_trace,
            graph_captures=args.graph_capture,
            ncu=args.ncu,
            memory_snapshot=args.memory_snapshot,
            replay=args.replay,
            proof=args.proof,
            phase=args.phase,
            range=args.range,
            max_size=args.max_size,
            step_ms=parse_duration(args.step_time) / 1e6 if args.step_time else 0.0,
            **({} if args.min_gain is None else {"min_gain_percent": args.min_gain}),
        )
        return profile.with_timeline().corrected() if args.timeline == "corrected" else profile


def open_job(args: argparse.Namespace) -> JobProfile:
    """Many ranks as one run, each read by a task of its own."""
    given = _given_for_one_trace(args)
    if given:
        verb = "is" if len(given) == 1 else "are"
        hint = "--rank N opens one of them"
        raise UsageError(f"{listed(given)} {verb} for one trace, not for the ranks of a job", hint=hint)
    with ending_at_once():
        from warplens.api import open_ranks
        from warplens.cli.rank_progress import rank_progress  # it loads what reads ranks
    from warplens_run.base.units import parse_duration

    with rank_progress() as on_progress:
        job = open_ranks(
            given_paths(args),
            cache=not args.no_cache,
            rules=args.rules,
            gap_us=parse_duration(args.gap) / 1e3,
            drawn=getattr(args, "ranks", ()),
            cluster=getattr(args, "cluster", ""),
            on_progress=on_progress,
            max_size=args.max_size,
            **({} if args.min_gain is None else {"min_gain_percent": args.min_gain}),
        )
    for text in job.notes:
        note(text)
    return job


def _given_for_one_trace(args: argparse.Namespace) -> list[str]:
    """Options on the command line that do not apply to a job; a GPU in the settings file is for other profiles."""
    from warplens.profiles.options import OF_ONE_TRACE

    names = [RENAMED.get(keyword, keyword) for keyword in OF_ONE_TRACE]
    usual = {"short": SHORT, "gpu": load_settings()["gpu"].value}
    given = [
        f"--{name.replace('_', '-')}"
        for name in names
        if getattr(args, name) and getattr(args, name) != usual.get(name)
    ]
    return [*given, *(["--timeline corrected"] if args.timeline == "corrected" else [])]


def options_given(args: argparse.Namespace) -> list[str]:
    """The options that make this profile of the file, as they are written: what else is run on it needs them too."""
    names = ("rules", "graph_capture", "execution_trace", "ncu", "memory_snapshot", "replay", "proof", "gpu",
             "gpu_file", "gap", "short", "min_gain", "timeline", "step_time", "phase", "range")  # fmt: skip
    settings = {name: setting.value for name, setting in load_settings().items()}
    usual = {"short": SHORT, "timeline": "recorded"} | settings
    given = []
    for name in names:
        value = getattr(args, name, None)
        if value not in (None, "", usual.get(name)):
            values = value if isinstance(value, list) else [value]
            given += [f"--{name.replace('_', '-')} {quote(str(each))}" for each in values]
    return given


def inputs_of(args: argparse.Namespace) -> list[str]:
    """The files and folders that a verb reads: none of its outputs may overwrite one."""
    joined = [args.gpu_file, args.execution_trace, *args.graph_capture, *args.ncu, args.replay, args.proof,
              args.memory_snapshot]  # fmt: skip
    return [*given_paths(args), *args.rules, *joined]


def open_timeline(args: argparse.Namespace) -> Profile:
    """The profile, for verbs that need to know when things ran."""
    return timeline_of(open_profile(args))


def timeline_of(profile: Opened) -> Profile:
    """The same with a timeline, or an error that says what else can be done with it."""
    try:
        return profile.with_timeline()
    except WarplensError as error:
        error.hint = error.hint or "report, show, tree and sql read it"
        raise


def note_warnings(profile: Opened) -> None:
    """What is wrong with the trace, for verbs whose output does not begin with it."""
    for row in profile.table("quality").to_dicts():
        if row["severity"] == "warning":
            note(row["message"])
