"""The learner's folder: files that exercises begin with, which exercise a file answers, what was solved."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from warplens_lab.puzzles.catalogue import BY_NAME, PUZZLES
from warplens_lab.puzzles.records import Puzzle
from warplens_run.base.errors import UsageError
from warplens_run.base.files import write_errors, write_whole

if TYPE_CHECKING:
    from importlib.abc import Traversable

Part = Literal["start", "solution"]
Status = Literal["solved", "not started", "begun", ""]
RECORD: Final = ".puzzles.json"
"""Kept only in a folder that `write_starts` made: name of a puzzle → hash of the file that solved it."""


@dataclass(frozen=True)
class Started:
    written: tuple[Path, ...]
    existing: tuple[Path, ...]


def resource_of(puzzle: Puzzle, part: Part) -> Traversable:
    return files("warplens_lab.puzzles") / "kernels" / puzzle.name / f"{part}.py"


def text_of(puzzle: Puzzle, part: Part) -> str:
    return resource_of(puzzle, part).read_text("utf-8")


def write_starts(folder: Path, puzzles: Iterable[Puzzle], *, force: bool = False) -> Started:
    """One file per puzzle; a file that is there already is kept, unless forced."""
    written: list[Path] = []
    existing: list[Path] = []
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for puzzle in puzzles:
            path = folder / puzzle.file_name
            if path.exists() and not force:
                existing.append(path)
                continue
            write_whole(path, text_of(puzzle, "start").encode(), force=force)
            written.append(path)
        if not (folder / RECORD).exists():
            _write_record(folder, {})
    return Started(tuple(written), tuple(existing))


def puzzle_of(file: Path) -> Puzzle:
    """The puzzle that a file answers: by the file's name, else by the kernel that is in it."""
    named = [puzzle for puzzle in PUZZLES if file.stem in (puzzle.name, Path(puzzle.file_name).stem)]
    if named:
        return named[0]
    puzzles = [BY_NAME[name] for name in _functions(file) if name in BY_NAME]
    if len(puzzles) == 1:
        return puzzles[0]
    listed = ", ".join(puzzle.name for puzzle in puzzles)
    reason = f"has the kernels of several puzzles: {listed}" if puzzles else "has the kernel of no puzzle"
    hint = f"a kernel is named as its puzzle: {', '.join(BY_NAME)}"
    raise UsageError(f"{file.name} {reason}", hint=hint)


def answers_in(folder: Path) -> tuple[tuple[Path, Puzzle], ...]:
    """The files of a folder that are named as `write_starts` names them, in the order of the puzzles."""
    paths = ((folder / puzzle.file_name, puzzle) for puzzle in PUZZLES)
    return tuple((path, puzzle) for path, puzzle in paths if path.is_file())


def status_in(folder: Path, puzzle: Puzzle) -> Status:
    """The state of the folder's file for a puzzle; a file that was changed after it was solved is begun again."""
    try:
        text = (folder / puzzle.file_name).read_bytes()
    except OSError:
        return ""
    if _solved(folder).get(puzzle.name) == _hash(text):
        return "solved"
    return "not started" if text == text_of(puzzle, "start").encode() else "begun"


def note_result(file: Path, puzzle: Puzzle, *, passed: bool) -> None:
    """Remembers a checked file in a folder of `write_starts`; elsewhere nothing is written."""
    if not (file.parent / RECORD).is_file() or file.name != puzzle.file_name:
        return
    solved = _solved(file.parent)
    before = dict(solved)
    if passed:
        solved[puzzle.name] = _hash(file.read_bytes())
    else:
        solved.pop(puzzle.name, None)
    if solved != before:
        _write_record(file.parent, solved)


def _functions(file: Path) -> list[str]:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return []
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}") from error
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def _solved(folder: Path) -> dict[str, str]:
    try:
        solved = json.loads((folder / RECORD).read_bytes())["solved"]
        return {str(name): str(value) for name, value in solved.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # it only remembers: checking again fills it


def _write_record(folder: Path, solved: dict[str, str]) -> None:
    record = {"format": "warplens puzzles", "solved": solved}
    write_whole(folder / RECORD, json.dumps(record, indent=1).encode())


def _hash(text: bytes) -> str:
    return sha256(text).hexdigest()
