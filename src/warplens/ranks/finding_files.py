"""The files of a job: a folder, several paths or a pattern, and the rank that a name tells."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from warplens.ranks.capture_files import CapturedTrace, captures_in, without_captures
from warplens_run.base.errors import UsageError
from warplens_run.formats.bundle_files import MANIFEST, is_incomplete

PACKED: Final = (".gz", ".bz2", ".xz")
ENDINGS: Final = (
    *(".json", ".pb", ".sqlite", ".nsys-rep", ".db", ".zip", ".warplens"),
    *(f"{plain}{packed}" for plain in (".json", ".pb") for packed in PACKED),
)
RANK: Final = re.compile(r"(?:rank|worker|gpu|device|local_rank|node\d+_rank)[-_ ]?(\d{1,6})(?!\d)", re.IGNORECASE)
NUMBER: Final = re.compile(r"(?<!\d)(\d{1,6})(?!\d)")
PATTERN: Final = re.compile(r"[*?]|\[[^\]]{1,200}\]")
HANDLER: Final = re.compile(r"(?P<host>.+)_(?P<process>\d+)\.\d+\.pt\.trace\.json(?:\.gz)?")
"""What PyTorch's handler for TensorBoard calls its files: host, process, time."""


class RankFile(NamedTuple):
    path: Path
    rank: int
    """As its name tells; -1 where it does not."""
    host: str
    execution_trace: Path | None = None
    """Of the same rank."""


class JobFiles(NamedTuple):
    ranks: list[RankFile]
    left_out: list[Path]
    """ExecutionTraces that cannot be used: some rank has none, or their names do not tell whose they are."""
    captures: tuple[Path, ...] = ()
    """Traces of graph captures beside those of ranks, which a job does not join."""


def rank_files(paths: Iterable[str | os.PathLike[str]]) -> list[RankFile]:
    """All profiles that some folders, files and patterns lead to, by name; a `UsageError` where there is none."""
    return job_files(paths).ranks


def job_files(paths: Iterable[str | os.PathLike[str]]) -> JobFiles:
    """The same with the ExecutionTraces that are beside them."""
    given = [str(path) for path in paths]
    found, captures = without_captures(list(dict.fromkeys(path for text in given for path in _leads_to(text))))
    if not found:
        raise _nothing_in(given)
    from warplens.ranks.file_heads import is_execution_trace  # every command asks whether it is given a job
    from warplens.readers.registry import is_other_json

    calls = [path for path in found if is_execution_trace(path)]
    traces = [path for path in found if path not in set(calls)]
    if not traces:
        hint = "add the Kineto traces of the same ranks"
        raise UsageError(f"{', '.join(given)} has only ExecutionTraces, which record no times", hint=hint)
    numbers = dict(zip(traces, ranks_by_name(traces), strict=True))
    if all(number < 0 for number in numbers.values()):  # names that no rank has may hide the number of the others
        profiles = [path for path in traces if not is_other_json(path)]
        numbers |= zip(profiles, ranks_by_name(profiles), strict=True)
    files = [RankFile(path, rank, _host(path.name)) for path, rank in numbers.items()]
    job = _with_execution_traces(files, calls) if calls else JobFiles(files, [])
    return job._replace(captures=tuple(captures))


def _with_execution_traces(files: list[RankFile], calls: list[Path]) -> JobFiles:
    """By the ranks that traces record, else by the names of both; for all ranks or for none."""
    if len(files) == len(calls) == 1:
        return JobFiles([files[0]._replace(execution_trace=calls[0])], [])
    from warplens.ranks.file_heads import own_rank

    of_rank = dict(zip(ranks_by_name(calls), calls, strict=True))
    ranks = [own if own >= 0 else file.rank for file, own in ((file, own_rank(file.path)) for file in files)]
    if len(of_rank) < len(calls) or not set(ranks) <= of_rank.keys() - {-1}:
        return JobFiles(files, calls)
    paired = [file._replace(execution_trace=of_rank[rank]) for file, rank in zip(files, ranks, strict=True)]
    return JobFiles(paired, [of_rank[rank] for rank in sorted(of_rank.keys() - set(ranks))])


def _leads_to(text: str) -> list[Path]:
    path = Path(text)
    if is_job_folder(path):
        return sorted(_profiles_in(path))
    if path.exists():
        return [path]
    matches = sorted(map(Path, glob.glob(text, recursive=True)))  # noqa: PTH207 - the pattern may be absolute
    if not matches:
        raise UsageError(f"no such file or folder: {text}")
    return [own for match in matches for own in (_leads_to(str(match)) if is_job_folder(match) else [match])]


def is_job_folder(path: Path) -> bool:
    """A folder that is not itself one profile, whole or incomplete, as a capture bundle is."""
    try:
        return path.is_dir() and not (path / MANIFEST).exists() and not is_incomplete(path.name)
    except (OSError, ValueError):
        return False  # opening it reports what is wrong


def _may_be_profile(entry: Path) -> bool:
    return entry.name.endswith(ENDINGS) or (entry / MANIFEST).exists()


def is_job(paths: Sequence[str]) -> bool:
    """Whether these are many ranks and not one profile: several paths, a folder, or a pattern."""
    if len(paths) == 1 and captured_trace(Path(paths[0])) is not None:
        return False
    return len(paths) > 1 or any(is_job_folder(Path(path)) or _is_pattern(path) for path in paths)


def captured_trace(path: Path) -> CapturedTrace | None:
    """The trace of a folder that has one, and the captures of its graphs beside it or in a folder of their own."""
    if not is_job_folder(path):
        return None
    try:
        entries = sorted(_entries(path))
        captures = captures_in(entries)
    except OSError:
        return None  # opening it reports what is wrong
    if not captures:
        return None
    from warplens.ranks.file_heads import is_converted, is_execution_trace
    from warplens.readers.registry import is_other_json

    profiles = [entry for entry in entries if _may_be_profile(entry) and entry not in set(captures)]
    calls = [entry for entry in profiles if is_execution_trace(entry)]
    traces = [entry for entry in profiles if not (entry in calls or is_converted(entry) or is_other_json(entry))]
    if len(traces) != 1 or len(calls) > 1:
        return None
    return CapturedTrace(traces[0], tuple(captures), calls[0] if calls else None)


def _is_pattern(text: str) -> bool:
    """
    >>> _is_pattern("run/rank*.json"), _is_pattern("run/rank[0-3].json"), _is_pattern("run/odd[1.json")
    (True, True, False)
    """
    return PATTERN.search(text) is not None and not os.path.lexists(text)


def _profiles_in(folder: Path) -> list[Path]:
    """Traces and bundles, those of folders in it where it has none itself; without what was converted from them."""
    from warplens.ranks.file_heads import is_converted

    profiles: list[Path] = []
    folders, visited = [folder], set()
    while folders:
        here = folders.pop()
        try:
            status, own = here.stat(), _entries(here)
        except OSError as error:
            raise UsageError(f"{here}: {error.strerror}") from error
        place = status.st_dev, status.st_ino
        if place in visited:  # a link back, of which two make as many paths as there are atoms
            continue
        visited.add(place)
        found = [entry for entry in own if _may_be_profile(entry)]
        profiles += [profile for profile in found if not is_converted(profile)]
        folders += [entry for entry in own if entry.is_dir()] if not found else []
    return profiles


def _entries(folder: Path) -> list[Path]:
    return [entry for entry in folder.iterdir() if not (entry.name.startswith(".") or is_incomplete(entry.name))]


def _nothing_in(given: Sequence[str]) -> UsageError:
    names = ", ".join(given)
    entries = [entry for text in given if Path(text).is_dir() for entry in Path(text).iterdir()]
    what = "is empty" if not entries else "has no profiles"
    return UsageError(f"{names} {what}", hint="a folder of traces or capture bundles, one per rank")


def ranks_by_name(paths: list[Path]) -> list[int]:
    """Of each file the number that `rank3`, `worker_3` … in its name gives, or the one number that tells all apart.

    >>> ranks_by_name([Path("run/rank0.json"), Path("run/rank_12.json.gz")])
    [0, 12]
    >>> ranks_by_name([Path("dlrm_eg_0.json.gz"), Path("dlrm_eg_1.json.gz")]), ranks_by_name([Path("a.json")])
    ([0, 1], [-1])
    >>> ranks_by_name([Path("run/rank0.json"), Path("run/truth.json")])
    [0, -1]
    """
    texts = [f"{path.parent.name}/{path.name}" for path in paths]
    named = [RANK.search(path.name) or RANK.search(path.parent.name) for path in paths]
    if any(named):  # a file beside the ranks has no number
        return [int(match[1]) if match else -1 for match in named]
    numbers = [NUMBER.findall(text) for text in texts]
    if len(paths) < 2 or len({len(own) for own in numbers}) > 1:
        return [-1] * len(paths)
    columns = [[int(number) for number in column] for column in zip(*numbers, strict=True)]
    telling = [column for column in columns if sorted(column) == list(range(len(paths)))]
    return telling[0] if telling else [-1] * len(paths)


def _host(name: str) -> str:
    match = HANDLER.fullmatch(name)
    return match["host"] if match else ""
