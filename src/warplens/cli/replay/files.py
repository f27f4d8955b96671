"""Files that the verbs around a replay are given, checked before anything slow begins."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from warplens.errors import UsageError
from warplens.files import check_inputs


def plan_to_read(text: str) -> Path:
    if not text or os.path.isdir(text):  # noqa: PTH112 - Path's raises where a name is too long
        raise UsageError(f"{text!r} is not a plan", hint="warplens replay plan TRACE -o plan.json makes one")
    return Path(text)


def file_to_write(text: str, *, inputs: Iterable[str | Path] = ()) -> Path:
    """A file to be, in a folder that is there: what could not be written fails before anything has run."""
    if text == "-":
        raise UsageError("this output cannot be written to stdout", hint="name a file (./- for a file called -)")
    path = Path(text)
    if not text or os.path.isdir(path) or not os.path.isdir(path.parent):  # noqa: PTH112
        raise UsageError(f"{text}: no file can be written there")
    check_inputs([path], inputs)
    return path
