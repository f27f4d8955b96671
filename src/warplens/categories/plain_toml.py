"""The part of TOML that the packaged tables are written in, read in an eighth of the time that all of it takes.

Tables and lists of tables, and in them texts without escapes, lists of such texts, `true` and `false`. Anything else is
for a reader of all TOML.
"""

from __future__ import annotations

import re
from typing import Any, Final

_TEXT: Final = r"""'[^'\n]*'|"[^"\\\n]*\""""
_LINE: Final = re.compile(
    rf"""(?:\[\[(\w+)\]\]
    |\[(\w+)\]
    |(\w+|"[^"\\\n]*")[ ]=[ ](?:(?P<text>{_TEXT})|(?P<flag>true|false)|(?P<list>\[(?:\s|,|{_TEXT}|\#.*)*\]))
    )?[ ]*(?:\#.*)?(?:\n|\Z)""",
    re.VERBOSE,
)
_ITEM: Final = re.compile(rf"({_TEXT})|#.*")


def read_plain(content: str) -> dict[str, Any] | None:
    """What a text says; None where it has more than is read here.

    >>> read_plain("[[rule]]\\nname = 'a'\\nwords = ['b', \\"c\\"]  # why\\n")
    {'rule': [{'name': 'a', 'words': ['b', 'c']}]}
    >>> read_plain("[rule]\\ncount = 1\\n")
    """
    tables: dict[str, Any] = {}
    current, at = tables, 0
    while at < len(content):
        line = _LINE.match(content, at)
        if line is None or line.end() == at:
            return None
        at = line.end()
        item, table, key = line.group(1, 2, 3)
        if item:
            current = {}
            tables.setdefault(item, []).append(current)
        elif table:
            current = tables[table] = {}
        elif key:
            current[key.strip('"')] = _value(line)
    return tables


def _value(line: re.Match[str]) -> str | bool | list[str]:
    match line.lastgroup:
        case "text":
            return line["text"][1:-1]
        case "flag":
            return line["flag"] == "true"
        case _:
            return [text[1:-1] for text in _ITEM.findall(line["list"]) if text]
