"""What the paths of a command mean: one trace of a job (`--rank`), or one trace and the captures of its graphs."""

from __future__ import annotations

import argparse
from pathlib import Path

from warplens_run.base.errors import UsageError
from warplens_run.base.units import listed
from warplens_run.cli.printing import note
from warplens_run.cli.verb import Verb


def choose_rank(args: argparse.Namespace, verb: Verb) -> None:
    """Replaces the paths of a job by the file of the rank that is asked for, or of the only one there is."""
    if not hasattr(args, "rank"):
        return
    rank = args.rank
    if isinstance(rank, list):
        if len(rank) > 1:
            return  # several: the verb itself chooses them
        rank = rank[0] if rank else None
    for name in verb.inputs:
        paths = given_paths(args, name)
        if not paths or (rank is None and (verb.reads_jobs or not _is_job(paths))):
            continue
        setattr(args, name, _one_of(paths, rank, verb.name, args))
        if name == "trace":
            args.more = []


def join_captures(args: argparse.Namespace) -> None:
    """Replaces a folder that has one trace and the captures of its graphs by these."""
    paths = given_paths(args)
    if len(paths) != 1 or not hasattr(args, "graph_capture"):  # a verb that does not open profiles
        return
    from warplens.ranks.finding_files import captured_trace

    captured = captured_trace(Path(paths[0]))
    if captured is None:
        return
    names = listed([path.name for path in captured.captures])
    note(f"{paths[0]}: {captured.trace.name} with captures of its graphs, {names}")
    args.trace = str(captured.trace)
    args.graph_capture = [*args.graph_capture, *map(str, captured.captures)]
    args.execution_trace = args.execution_trace or str(captured.execution_trace or "")


def given_paths(args: argparse.Namespace, name: str = "trace") -> list[str]:
    """What an argument names: of TRACE also the further ranks."""
    first = getattr(args, name, None)
    more = getattr(args, "more", []) if name == "trace" else []
    return [first, *more] if first else []


def names_job(args: argparse.Namespace) -> bool:
    """Whether TRACE is many ranks."""
    return _is_job(given_paths(args))


def _is_job(paths: list[str]) -> bool:
    from warplens.ranks.finding_files import is_job

    return is_job(paths)


def _one_of(paths: list[str], rank: int | None, verb: str, args: argparse.Namespace) -> str:
    from warplens.ranks.finding_files import rank_files

    if rank is not None:
        from warplens.profiles.job import file_of_rank
        from warplens.profiles.options import parse_size

        return str(file_of_rank(paths, rank, cache=not args.no_cache, max_bytes=parse_size(args.max_size)))
    files = rank_files(paths)
    if len(files) == 1:
        return str(files[0].path)
    known = [file.rank for file in files if file.rank >= 0]
    hint = f"--rank {min(known, default=0)} opens one of them; report, show, sql and advise read all"
    raise UsageError(f"{', '.join(paths)} contains {len(files):,} ranks, and {verb} reads one", hint=hint)
