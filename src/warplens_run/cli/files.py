"""Files that the verbs around a replay are given, checked before anything slow begins."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from warplens_run.base.errors import UsageError
from warplens_run.base.files import check_inputs

WRITERS: Final = {
    ".py": "warplens replay script PLAN --unit u7 -o FILE.py writes a unit of a replay's plan as Python",
    **dict.fromkeys(
        (".cpp", ".cc", ".cxx", ".cu"), "warplens replay export-cpp PLAN -o DIR writes a replay's plan as C++"
    ),
}
"""By suffix: what writes such files."""
KINDS: Final = {".json": "JSON", ".py": "Python"}


def plan_to_read(text: str) -> Path:
    if not text or os.path.isdir(text):  # noqa: PTH112 - Path's raises where a name is too long
        raise UsageError(f"{text!r} is not a plan", hint="warplens replay plan TRACE -o plan.json makes one")
    return Path(text)


def file_to_write(text: str, *, ending: str = ".json", inputs: Iterable[str | Path] = ()) -> Path:
    """A file to be, in a folder that is there: what could not be written fails before anything has run.

    A suffix that says something else than what is written is refused; a name may have none.
    """
    if text == "-":
        raise UsageError("this output cannot be written to stdout", hint="name a file (./- for a file called -)")
    path = Path(text)
    if not text or os.path.isdir(path) or not os.path.isdir(path.parent):  # noqa: PTH112
        raise UsageError(f"{text}: no file can be written there")
    check_inputs([path], inputs)
    if path.suffix.lower() not in ("", ending):
        hint = WRITERS.get(path.suffix.lower(), f"end it in {ending}")
        raise UsageError(f"{text}: what is written there is {KINDS[ending]}, not {path.suffix}", hint=hint)
    return path


def folder_to_write(text: str) -> Path:
    """A folder to be, or to fill; a name that ends as a file's does is refused."""
    path = Path(text)
    if path.suffix.lower() in (*WRITERS, *KINDS) and not text.endswith(("/", os.sep)) and not path.is_dir():
        raise UsageError(f"{text}: what is written there is a folder", hint=f"name one: {path.stem}/")
    return path
