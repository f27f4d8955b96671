"""From files and digests to one job: which ranks there are, and which files are not part of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from warplens.ranks.finding_files import RANK, RankFile
from warplens.ranks.job import FailedRank, Job, JobNote
from warplens.ranks.merged_notes import merged, remark_text
from warplens.ranks.records import RankDigest
from warplens_run.base.errors import FormatError
from warplens_run.base.units import plural

APART_NS: Final = 60_000_000_000
"""Ranks whose recordings are so far apart do not belong to one run."""
NOT_A_TRACE: Final = "not a trace"


def gathered(
    files: Sequence[RankFile], results: Sequence[RankDigest | str], named: bool, more: Sequence[JobNote] = ()
) -> Job:
    """The job of all digests; a text is why a file could not be read. `named`: the user named every file."""
    digests = [result for result in results if isinstance(result, RankDigest)]
    failed = [FailedRank(str(file.path), file.rank, _short(reason, file))
              for file, reason in zip(files, results, strict=True) if isinstance(reason, str)]  # fmt: skip
    read = {digest.facts.rank for digest in digests} | {-1}
    foreign = [] if named else [each for each in failed if NOT_A_TRACE in each.reason and each.rank in read]
    failed = [each for each in failed if each not in foreign]
    if not digests:
        reason = failed[0].reason if failed else foreign[0].reason if foreign else "no file"
        where = failed[0].source if failed else foreign[0].source if foreign else ""
        raise FormatError(f"no rank could be read: {reason}", where=where)
    notes = [JobNote("info", _left_out([each.source for each in foreign], foreign[0].reason))] if foreign else []
    notes += more
    originals, copies = _without_copies(digests)
    run, others = _one_run(originals)
    if others:
        notes.append(JobNote("warning", _left_out([each.facts.source for each in others], "another run")))
    kept, doubled = _once_each(run)
    doubled += copies
    for ranks, text in merged((each.facts.rank, "there is more than one file") for each in doubled):
        notes.append(JobNote("warning", f"{remark_text(ranks, text)}; left out: {_files(doubled)}"))
    described = sum(digest.facts.is_described for digest in kept)
    if described:
        notes.append(JobNote("info", f"ExecutionTraces describe the collectives of {plural(described, 'rank')}"))
    if len(kept) == 1:
        as_trace = f"--rank {kept[0].facts.rank} opens it as a trace"
        notes.append(JobNote("info", f"one rank only: there is nothing to compare it with; {as_trace}"))
    return Job(tuple(kept), tuple(failed), tuple(notes))


def _left_out(sources: Sequence[str], reason: str) -> str:
    if len(sources) == 1:
        return f"{sources[0]} was left out: {reason}"
    return f"{plural(len(sources), 'file')} were left out, such as {sources[0]}: {reason}"


def _files(digests: Sequence[RankDigest]) -> str:
    more = f" and {len(digests) - 1:,} more" if len(digests) > 1 else ""
    return f"{digests[0].facts.source}{more}"


def _short(reason: str, file: RankFile) -> str:
    return reason.removeprefix(f"{file.path}: ")


def _without_copies(digests: Sequence[RankDigest]) -> tuple[list[RankDigest], list[RankDigest]]:
    """Of files with the same contents the one with the shortest name, and the others."""
    first: dict[str, RankDigest] = {}
    for digest in sorted(digests, key=_length_of_name):
        first.setdefault(digest.facts.content_hash or digest.facts.source, digest)
    kept = {id(digest) for digest in first.values()}
    return list(first.values()), [digest for digest in digests if id(digest) not in kept]


def _length_of_name(digest: RankDigest) -> tuple[int, str]:
    return len(digest.facts.source), digest.facts.source


def _one_run(digests: Sequence[RankDigest]) -> tuple[list[RankDigest], list[RankDigest]]:
    """The largest set of ranks that can be one run, and all others: of one size of the job, at about the same time.

    Where a rank is there twice, shorter pauses count too, and then the folder and the name: two runs in one minute.
    """
    runs = [run for alike in _by_size(digests) for run in _by_time(alike, APART_NS)]
    largest = max(runs, key=len)
    if _has_twice(largest):
        largest = max(_by_time(largest, 0), key=len)
    if _has_twice(largest):
        largest = max(_by_name(largest), key=len)
    kept = {id(digest) for digest in largest}
    return largest, [digest for digest in digests if id(digest) not in kept]


def _has_twice(digests: Sequence[RankDigest]) -> bool:
    ranks = [digest.facts.rank for digest in digests if digest.facts.rank >= 0]
    return len(set(ranks)) < len(ranks)


def _by_size(digests: Sequence[RankDigest]) -> list[list[RankDigest]]:
    """Ranks of jobs of different sizes apart; those that do not record it may belong to any."""
    sizes = Counter(digest.facts.world_size for digest in digests if digest.facts.world_size > 0)
    usual = sizes.most_common(1)[0][0] if sizes else -1
    groups: dict[int, list[RankDigest]] = {}
    for digest in digests:
        groups.setdefault(digest.facts.world_size if digest.facts.world_size > 0 else usual, []).append(digest)
    return list(groups.values())


def _by_time(digests: Sequence[RankDigest], apart_ns: int) -> list[list[RankDigest]]:
    runs: list[list[RankDigest]] = []
    latest = 0
    for digest in sorted(digests, key=lambda digest: digest.facts.first_ns):
        if not runs or digest.facts.first_ns > latest + apart_ns:
            runs.append([])
        runs[-1].append(digest)
        latest = max(latest, digest.facts.last_ns)
    return runs


def _by_name(digests: Sequence[RankDigest]) -> list[list[RankDigest]]:
    runs: dict[str, list[RankDigest]] = {}
    for digest in digests:
        path = Path(digest.facts.source)
        runs.setdefault(f"{path.parent}/{RANK.sub('', path.name)}", []).append(digest)
    return list(runs.values())


def _once_each(digests: Sequence[RankDigest]) -> tuple[list[RankDigest], list[RankDigest]]:
    """In the order of their ranks; of two with the same number, the one with more GPU events."""
    if any(digest.facts.rank < 0 for digest in digests):
        return sorted(digests, key=lambda digest: digest.facts.source), []
    best: dict[int, RankDigest] = {}
    doubled = []
    for digest in sorted(digests, key=lambda digest: (-digest.facts.gpu_events, *_length_of_name(digest))):
        if digest.facts.rank in best:
            doubled.append(digest)
        else:
            best[digest.facts.rank] = digest
    return [best[rank] for rank in sorted(best)], doubled
