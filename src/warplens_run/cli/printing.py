"""How verbs print: text fitted to the terminal, and data as it is.

Nothing else in this package writes to stdout or stderr, so that no text of a file reaches a terminal unless
`warplens_run.base.printable` has made it fit for one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from warplens_run.base.printable import clean, clean_lines, encodable, escape
from warplens_run.base.units import plural

PIPED_WIDTH = 200
"""Without a terminal nothing should be cut hard; `COLUMNS` still decides where it is set."""


NARROWEST = 40
"""A terminal that is narrower breaks the lines itself: columns of figures and a name do not fit into less."""


def terminal_columns(otherwise: int = 100) -> int:
    """As `shutil` finds them, which takes 4 ms to load for nothing else: `COLUMNS`, then stdout's terminal."""
    with suppress(KeyError, ValueError):
        if int(os.environ["COLUMNS"]) > 0:
            return max(int(os.environ["COLUMNS"]), NARROWEST)
    with suppress(AttributeError, ValueError, OSError):  # without a stdout, or none that is a terminal
        columns = os.get_terminal_size(sys.__stdout__.fileno()).columns  # type: ignore[union-attr]
        return max(columns, NARROWEST) if columns else otherwise
    return otherwise


def width(most: int | None = None) -> int:
    """The cells of a line; prose reads badly beyond `most`."""
    columns = terminal_columns() if sys.stdout.isatty() or os.environ.get("COLUMNS") else PIPED_WIDTH
    return columns if most is None else min(columns, most)


def print_out(text: object = "", *, end: str = "\n", flush: bool = False) -> None:
    """Text to stdout."""
    print(clean_lines(str(text)), end=end, flush=flush)


def print_err(text: object = "", *, end: str = "\n") -> None:
    """Text to stderr; on a terminal no word is broken at the end of a line."""
    if sys.stderr.isatty():
        text = _fitted(str(text))
    print(clean_lines(str(text)), end=end, file=sys.stderr)


def _fitted(text: str) -> str:
    """Lines that a terminal would break are folded, but for commands: those are to be copied whole."""
    from warplens_run.base.text import fold

    columns = terminal_columns()
    lines = []
    for line in text.split("\n"):
        is_long = len(line) > columns and "warplens " not in line
        lines += fold(line, columns, "  ") if is_long else [line]
    return "\n".join(lines)


def draw_progress(line: str) -> None:
    """A line on stderr in place of the one drawn before; an empty one removes it."""
    cells = terminal_columns() - 1
    end = "" if line else "\r"
    print("\r" + clean(line)[:cells].ljust(cells), end=end, file=sys.stderr, flush=True)


def print_line(line: str, most: int) -> None:
    """A line of text, wrapped below itself where it is longer than the terminal is wide."""
    from textwrap import fill

    indent = " " * (len(line) - len(line.lstrip()) + 2)
    line = clean(line)
    print(fill(line, width(most), subsequent_indent=indent, break_on_hyphens=False) if line.strip() else line)


def write_bytes(data: bytes) -> None:
    """Data to stdout, ending in a newline: as it is where a file or a program takes it, escaped on a terminal."""
    sys.stdout.flush()
    if sys.stdout.isatty():
        data = escape(data.decode("utf-8", "replace")).encode()
    sys.stdout.buffer.write(data if data.endswith(b"\n") else data + b"\n")
    sys.stdout.buffer.flush()


def note(text: str) -> None:
    """Something the user should know that is not data."""
    print_err(f"note: {clean(text)}")


def report_written(paths: Sequence[str], files: int | None = None) -> None:
    """What was written; `files` where a directory holds several."""
    if paths:
        count = "" if files is None else f" ({plural(files, 'file')})"
        print_err(f"wrote {', '.join(map(clean, paths))}{count}")


def command_line() -> str:
    """The command as typed, for a file that says how it was made."""
    import shlex

    return encodable(shlex.join(["warplens", *sys.argv[1:]]))
