"""The files of a job: a folder, several paths or a pattern, and the rank that a name tells."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from warplens.bundle_files import MANIFEST
from warplens.errors import UsageError

ENDINGS: Final = (".json", ".json.gz", ".zip", ".pb", ".pb.gz", ".sqlite", ".nsys-rep", ".db", ".warplens")
RANK: Final = re.compile(r"(?:rank|worker|gpu|device|local_rank|node\d+_rank)[-_ ]?(\d{1,6})(?!\d)", re.IGNORECASE)
NUMBER: Final = re.compile(r"(?<!\d)(\d{1,6})(?!\d)")
HANDLER: Final = re.compile(r"(?P<host>.+)_(?P<process>\d+)\.\d+\.pt\.trace\.json(?:\.gz)?")
"""What PyTorch's handler for TensorBoard calls its files: host, process, time."""


class RankFile(NamedTuple):
    path: Path
    rank: int
    """As its name tells; -1 where it does not."""
    host: str


def rank_files(paths: Iterable[str | os.PathLike[str]]) -> list[RankFile]:
    """All profiles that some folders, files and patterns lead to, by name; a `UsageError` where there is none."""
    given = [str(path) for path in paths]
    found = [path for text in given for path in _leads_to(text)]
    if not found:
        raise UsageError(
            f"no profile in {', '.join(given)}", hint="a folder of traces or capture bundles, one per rank"
        )
    return [RankFile(path, rank, _host(path.name)) for path, rank in zip(found, ranks_by_name(found), strict=True)]


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
    """A folder that is not itself one profile, as a capture bundle is."""
    return path.is_dir() and not (path / MANIFEST).exists()


def _profiles_in(folder: Path) -> list[Path]:
    own = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    profiles = [entry for entry in own if entry.name.endswith(ENDINGS) or (entry / MANIFEST).exists()]
    if profiles:
        return profiles
    return [path for entry in own if entry.is_dir() for path in _profiles_in(entry)]


def ranks_by_name(paths: list[Path]) -> list[int]:
    """Of each file the number that `rank3`, `worker_3` … in its name gives, or the one number that tells all apart.

    >>> ranks_by_name([Path("run/rank0.json"), Path("run/rank_12.json.gz")])
    [0, 12]
    >>> ranks_by_name([Path("dlrm_eg_0.json.gz"), Path("dlrm_eg_1.json.gz")]), ranks_by_name([Path("a.json")])
    ([0, 1], [-1])
    """
    texts = [f"{path.parent.name}/{path.name}" for path in paths]
    named = [RANK.search(path.name) or RANK.search(path.parent.name) for path in paths]
    if all(named) and len(paths) > 0:
        return [int(match[1]) for match in named if match is not None]
    numbers = [NUMBER.findall(text) for text in texts]
    if len(paths) < 2 or len({len(own) for own in numbers}) > 1:
        return [-1] * len(paths)
    columns = [[int(number) for number in column] for column in zip(*numbers, strict=True)]
    telling = [column for column in columns if sorted(column) == list(range(len(paths)))]
    return telling[0] if telling else [-1] * len(paths)


def _host(name: str) -> str:
    match = HANDLER.fullmatch(name)
    return match["host"] if match else ""
