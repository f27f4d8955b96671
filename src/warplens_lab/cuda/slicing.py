"""One kernel's part of the texts that NVRTC and the disassembler make of a whole file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

COMMENT = re.compile(r"//.*")
_FUNCTION = re.compile(r"^(?:\.\w+\s+)*\.(entry|func)\b")
_NAME = re.compile(r"\.(?:entry|func)\s*(?:\([^()]*\)\s*)?([\w$.]+)")
_SECTION = re.compile(r"^//-+ +(\S+) +-+")
_ENTRY = re.compile(r"Compiling entry function '([^']+)'")


def ptx_of(text: str, name: str) -> str:
    """The kernel, the functions that it calls, and what the file declares for all."""
    parts = list(_parts(text))
    bodies = {owner: part for owner, kind, part in parts if owner and "{" in part}
    wanted, waiting = {name}, [name]
    while waiting:
        body = bodies.get(waiting.pop(), "")
        called = {
            other for other in bodies if other not in wanted and re.search(rf"(?<!\w){re.escape(other)}(?!\w)", body)
        }
        wanted |= called
        waiting += called
    return "\n".join(part for owner, kind, part in parts if not owner or owner in wanted)


def _parts(text: str) -> Iterator[tuple[str, str, str]]:
    """Owner ("" for what belongs to none), kind and text of each stretch of lines."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        match = _FUNCTION.match(lines[at])
        if match is None:
            yield "", "", lines[at]
            at += 1
            continue
        end = at
        while end < len(lines) and "{" not in lines[end] and not lines[end].rstrip().endswith(";"):
            end += 1
        # A declaration ends with a semicolon, a function with the bracket that closes its body.
        if end < len(lines) and "{" in lines[end]:
            end = body_lines(lines, end)[1]
        part = "\n".join(lines[at : end + 1])
        named = _NAME.search(part)
        yield named[1] if named else "", match[1], part
        at = end + 1


def body_lines(lines: Sequence[str], begin: int) -> tuple[int, int]:
    """The lines of the brackets around the body of the function that begins at a line; inline assembly has its own."""
    depth, opening = 0, len(lines)
    for at in range(begin, len(lines)):
        line = COMMENT.sub("", lines[at])
        if "{" in line and not depth:
            opening = at
        depth += line.count("{") - line.count("}")
        if opening < len(lines) and depth == 0:
            return opening, at
    return opening, len(lines)


def sass_of(text: str, name: str) -> str:
    kept, is_wanted = [], True
    for line in text.splitlines():
        if match := _SECTION.match(line):
            is_wanted = match[1] == f".text.{name}"
        if is_wanted:
            kept.append(line)
    return "\n".join(kept)


def report_of(log: str, name: str) -> str:
    """The assembler's lines on the kernel itself: not those on other kernels, nor on functions that it calls."""
    lines = log.splitlines()
    begins = [at for at, line in enumerate(lines) if (match := _ENTRY.search(line)) and match[1] == name]
    if not begins:
        return ""
    end = next((at for at in range(begins[0] + 1, len(lines)) if _ENTRY.search(lines[at])), len(lines))
    kept, is_own = [], True
    for line in lines[begins[0] : end]:
        if "Function properties for" in line:
            is_own = line.rstrip().endswith(f" {name}")
        if is_own or "Used" in line:
            kept.append(line)
    return "\n".join(kept)
