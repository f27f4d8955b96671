"""Names with a quote in traces of PyTorch's profiler, which writes them as they are: that is not JSON.

Functions, files, classes, annotations and threads may have such names. The profiler ends the line after a name (older
versions after the process and thread that follow it) and takes line breaks out of names, so the line shows where a name
ends, whatever it contains. A line that is JSON as it is stays as it is.
"""

from __future__ import annotations

import json
import re
from typing import Final

ODD: Final = re.compile(rb'"name": "[^"\n]*"(?!,?[ \t\r]*(?:\n|\Z)|, "pid": )')
"""A name after whose first quote nothing follows that follows a name."""
BEFORE_NAME: Final = re.compile(rb'[ \t]*(?:"ph": "[^"\n]*", "cat": "[^"\n]*", )?\Z')
NAME: Final = re.compile(rb'("name": ")(.*)("(?:, "pid": [^,]*, "tid": [^,]*)?,?[ \t\r]*)', re.DOTALL)
NEXT_LINE: Final = re.compile(rb'\n[ \t]*(?:"pid": |"ts": |\})|\n?\Z')
"""The process or the time of an event, or the end of a thread's label."""
ESCAPE_OR_ODD: Final = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})|["\\]')
MOST_BEFORE: Final = 200
"""Bytes of a line before a name; the text of another writer may be one line of gigabytes."""


def escape_names(text: bytes) -> tuple[bytes, int]:
    r"""The text of a trace with the quotes in its names escaped, and in how many names there were any.

    >>> escape_names(b'\n  "name": "say("hi"): f",\n  "pid": 1,')
    (b'\n  "name": "say(\\"hi\\"): f",\n  "pid": 1,', 1)
    """
    parts, end = [], 0
    for odd in ODD.finditer(text):
        start = text.rfind(b"\n", max(0, odd.start() - MOST_BEFORE), odd.start()) + 1
        if start == 0 or odd.start() < end:
            continue
        line_end = text.find(b"\n", odd.end())
        line_end = len(text) if line_end < 0 else line_end
        name = NAME.fullmatch(text, odd.start(), line_end)
        is_name = name and BEFORE_NAME.match(text[start : odd.start()]) and NEXT_LINE.match(text, line_end)
        if name is None or not is_name or _is_json(text[start:line_end]):
            continue
        parts += [text[end : name.start(2)], ESCAPE_OR_ODD.sub(_escaped, name[2])]
        end = name.end(2)
    return (b"".join((*parts, text[end:])), len(parts) // 2) if parts else (text, 0)


def _escaped(match: re.Match[bytes]) -> bytes:
    return match[0] if len(match[0]) > 1 else b"\\" + match[0]


def _is_json(members: bytes) -> bool:
    try:
        json.loads(b"{" + members.strip().removesuffix(b",") + b"}")
    except ValueError:
        return False
    return True
