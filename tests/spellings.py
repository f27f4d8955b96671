"""A document written in the ways that JSON allows: each a chance for two readers to disagree on what it says."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

from mutations import Document

WHITE_SPACE = ("", "", "", " ", "\n", "\t", "\r\n", "  \n  ")
NUMBERS = (
    *("0", "-0", "-1", "7", "1e3", "1E+2", "-1.5e-3", "0.1", "123456.789", "3843716985207.870", "1700000000123456.789"),
    *("0.30000000000000004", "13904.236000000001", "4503599627370497.5", "9007199254740993", "9007199254740993.5"),
    *("99999999999999999999", "18446744073709551615", "9223372036854775807", "-9223372036854775808", "1e22", "1e23"),
    *(
        "3999999999999999.9995",
        "0.0005",
        "0.0015",
        "0.00049999999999999994",
        "1e-300",
        "123456789012345678901234567890",
    ),
)
TEXTS = (
    *(
        "",
        "a",
        "[memory]",
        "x" * 15,
        "x" * 16,
        "x" * 17,
        'q"uote',
        "back\\slash",
        "sl/ash",
        "tab\tnew\nline",
        "ü",
        "€",
        "😀",
    ),
    *("\x7f", "\x00", "}, {", '"cuda_sync"', "cuda_sync", "nn.Module: A_0", "MEMCPY HtoD", "K\u212aernel", "\u0130"),
)
CATEGORIES = ("kernel", "Kernel", "KERNEL", "cpu_op", "gpu_memcpy", "cuda_sync", "fwdbwd", "warplens.x", "", "other")
PHASES = ("X", "X", "X", "B", "E", "s", "f", "M", "i", "", "XX")


class _Speller:
    """`oddity` is the chance of what the native reader hands over, beside all that it must take."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.oddity = rng.choice((0.0, 0.0, 0.0, 0.002, 0.02))

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def space(self) -> str:
        return self.rng.choice(WHITE_SPACE)

    def joined(self, members: list[str]) -> str:
        return f"{self.space()},{self.space()}".join(members)

    def changed(self, event: dict[str, Any]) -> dict[str, Any]:
        event, rng = dict(event), self.rng
        if self.chance(0.15):
            event[rng.choice(("name", "id", "pid", "tid"))] = rng.choice(TEXTS)
        if self.chance(0.1):
            event["cat"] = "other ü" if self.chance(self.oddity) else rng.choice(CATEGORIES)
        if self.chance(0.05):
            event["ph"] = rng.choice(PHASES if "dur" in event and "ts" in event else PHASES[3:])
        if self.chance(0.1):
            event["extra"] = [{"a": [1, 2.5, None, True, "x"]}, {"b": {}}]
        if self.chance(0.1) and isinstance(event.get("args"), dict):
            collective = {"Collective name": rng.choice(TEXTS), "Process Group Ranks": [0, 1], "dtype": None}
            event["args"] = {**event["args"], **collective}
        keys = list(event)
        if self.chance(0.1):
            rng.shuffle(keys)
        return {key: event[key] for key in keys}

    def object(self, value: dict[str, Any]) -> str:
        members = [f"{self.key(key)}{self.space()}:{self.space()}{self.value(item)}" for key, item in value.items()]
        return f"{{{self.space()}{self.joined(members)}{self.space()}}}"

    def value(self, value: Any) -> str:
        if isinstance(value, dict):
            return self.object(value)
        if isinstance(value, list):
            return f"[{self.space()}{self.joined([self.value(item) for item in value])}{self.space()}]"
        if isinstance(value, str):
            return self.escaped(value) if self.chance(0.2) else self.string(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self.number(value)
        return json.dumps(value)

    def number(self, value: float) -> str:
        if self.chance(self.oddity):
            return self.rng.choice(NUMBERS)
        if self.chance(0.01):
            return f'"{value}"'
        if self.chance(0.1) and isinstance(value, float):
            return self.rng.choice(
                (f"{value:.{self.rng.randrange(1, 5)}f}", f"{value!r}0", f"{value!r}e0", f"{value:.9e}")
            )
        return json.dumps(value)

    def key(self, key: str) -> str:
        return self.escaped(key) if self.chance(self.oddity / 10) else json.dumps(key)

    def string(self, value: str) -> str:
        return json.dumps(value, ensure_ascii=self.chance(0.5))

    def escaped(self, value: str) -> str:
        """Some characters as escapes that need not be."""
        return re.sub(r"[a-zA-Z/]", self._maybe_escape, self.string(value))

    def _maybe_escape(self, match: re.Match[str]) -> str:
        letter = match[0]
        is_part_of_escape = "\\" in match.string[max(0, match.start() - 5) : match.start()]
        if is_part_of_escape or not self.chance(0.1):
            return letter
        return "\\/" if letter == "/" else f"\\u{ord(letter):04{self.rng.choice('xX')}}"


def respelt(document: Document, rng: Random) -> bytes:
    """The document with some values of its events changed, in a spelling of its own. Always valid JSON."""
    speller = _Speller(rng)
    space = speller.space
    header = speller.object({key: value for key, value in document.items() if key != "traceEvents"})
    events = [speller.object(speller.changed(event)) for event in document["traceEvents"] if speller.chance(0.9)]
    array = f"[{space()}{speller.joined(events)}{space()}]"
    if speller.chance(0.1):
        return f"{space()}{array}{space()}".encode()
    parts = [part for part in (header.strip()[1:-1], f'"traceEvents"{space()}:{space()}{array}') if part.strip()]
    rng.shuffle(parts)
    return f"{space()}{{{speller.joined(parts)}{space()}}}{space()}".encode()
