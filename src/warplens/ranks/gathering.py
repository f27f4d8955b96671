"""From files and digests to one job: which ranks there are, and which files are not part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from warplens.errors import FormatError
from warplens.ranks.finding_files import RankFile
from warplens.ranks.job import FailedRank, Job, JobNote
from warplens.ranks.records import RankDigest
from warplens.units import plural

APART_NS: Final = 60_000_000_000
"""Ranks whose recordings are so far apart do not belong to one run."""
NOT_A_TRACE: Final = "not a trace"


def gathered(files: Sequence[RankFile], results: Sequence[RankDigest | str], named: bool) -> Job:
    """The job of all digests; a text is why a file could not be read. `named`: the user named every file."""
    digests = [result for result in results if isinstance(result, RankDigest)]
    failed = [FailedRank(str(file.path), file.rank, _short(reason, file))
              for file, reason in zip(files, results, strict=True) if isinstance(reason, str)]  # fmt: skip
    foreign = [] if named else [each for each in failed if NOT_A_TRACE in each.reason]
    failed = [each for each in failed if each not in foreign]
    if not digests:
        reason = failed[0].reason if failed else foreign[0].reason if foreign else "no file"
        where = failed[0].source if failed else foreign[0].source if foreign else ""
        raise FormatError(f"no rank could be read: {reason}", where=where)
    notes = [JobNote("info", f"{each.source} was left out: {each.reason}") for each in foreign]
    run, others = _one_run(digests)
    if others:
        notes.append(JobNote("warning", f"{plural(len(others), 'file')} of other runs were left out, such as "
                                        f"{others[0].facts.source}"))  # fmt: skip
    kept, doubled = _once_each(run)
    notes += [
        JobNote("warning", f"rank {each.facts.rank} is there twice: {each.facts.source} was left out")
        for each in doubled
    ]
    if len(kept) == 1:
        notes.append(JobNote("info", "one rank only: there is nothing to compare it with"))
    return Job(tuple(kept), tuple(failed), tuple(notes))


def _short(reason: str, file: RankFile) -> str:
    return reason.removeprefix(f"{file.path}: ")


def _one_run(digests: Sequence[RankDigest]) -> tuple[list[RankDigest], list[RankDigest]]:
    """The largest set of ranks that recorded at about the same time, and all others."""
    ordered = sorted(digests, key=lambda digest: digest.facts.first_ns)
    runs: list[list[RankDigest]] = []
    latest = 0
    for digest in ordered:
        if not runs or digest.facts.first_ns > latest + APART_NS:
            runs.append([])
        runs[-1].append(digest)
        latest = max(latest, digest.facts.last_ns)
    largest = max(runs, key=len)
    return largest, [digest for run in runs if run is not largest for digest in run]


def _once_each(digests: Sequence[RankDigest]) -> tuple[list[RankDigest], list[RankDigest]]:
    """In the order of their ranks; of two with the same number, the one with more GPU events."""
    if any(digest.facts.rank < 0 for digest in digests):
        return sorted(digests, key=lambda digest: digest.facts.source), []
    best: dict[int, RankDigest] = {}
    doubled = []
    for digest in sorted(digests, key=lambda digest: (-digest.facts.gpu_events, digest.facts.source)):
        if digest.facts.rank in best:
            doubled.append(digest)
        else:
            best[digest.facts.rank] = digest
    return [best[rank] for rank in sorted(best)], doubled
