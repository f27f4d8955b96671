"""Event by event through text that does not decode at once: what is whole is kept, what is not is counted."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw, Struct

from warplens.readers.kineto.records import UNREADABLE, KinetoArgs, KinetoEvent
from warplens.readers.shared.json_value import is_cut, value_at

NEXT_EVENT = re.compile(r"\}\s*,\s*\{")
SEPARATORS = re.compile(r"[\s,\0\]]*")
LAST_EVENT = re.compile(r'\}\s*\](?=\s*(?:,\s*"|\}\s*\Z))')
END_OF_ARRAY = re.compile(r'\]\s*(?:,\s*"|\}|\0*\Z)')


class SlowScan:
    """Reads events one by one with the standard library (which takes NaN) and steps over damage."""

    def __init__(self, text: str, damage: Counter[str]) -> None:
        self.text = text
        self.damage = damage
        self.position = 0
        self.closed = False
        self.exhausted = False
        self.wants_more = False

    def run(self, until: int, *, final: bool) -> list[KinetoEvent]:
        events: list[KinetoEvent] = []
        self._skip_separators()
        while self.position < min(until, len(self.text)) and not self.closed:
            start = self.position
            try:
                value, self.position = value_at(self.text, start)
            except (ValueError, RecursionError) as error:
                if not self._recover(start, error, final):
                    break
            else:
                self._keep(value, self.text[start : self.position], events)
            self._skip_separators()
        return events

    def _skip_separators(self) -> None:
        """On to the next entry. A bracket closes the array only where the text behind it can follow one."""
        match = SEPARATORS.match(self.text, self.position)
        end = match.end() if match else self.position
        bracket = self.text.rfind("]", self.position, end)
        self.closed = bracket >= 0 and END_OF_ARRAY.match(self.text, bracket) is not None
        self.position = bracket if self.closed else end
        if bracket >= 0 and not self.closed:
            self.damage["damaged"] += 1

    def _recover(self, start: int, error: Exception, final: bool) -> bool:
        """Step to the next event after a damaged one; False where the rest of the text has none."""
        goes_on = self.text[start] == "{" and is_cut(error)
        following = -1 if goes_on else self._next_event(start)
        if following < 0 and not final:
            self.wants_more = True
            return False
        if following < 0:
            self.damage["truncated"] += 1
            self.exhausted = True
            return False
        self.damage["damaged"] += 1
        self.position = following
        return True

    def _next_event(self, start: int) -> int:
        """Where the next event, or else the array's end, may stand; -1 where neither is to be seen."""
        if self.text[start] != "{":
            return self.text.find("{", start)
        following = NEXT_EVENT.search(self.text, start + 1) or LAST_EVENT.search(self.text, start + 1)
        return following.end() - 1 if following else -1

    def _keep(self, value: object, text: str, events: list[KinetoEvent]) -> None:
        if not isinstance(value, dict):
            self.damage["not_events"] += 1
            return
        from warplens.readers.kineto import stream_handles

        try:  # most events of a damaged piece are whole, and shall read the same as everywhere
            events += stream_handles.decode(f"[{text}]".encode(errors="surrogateescape"))
        except (UnicodeEncodeError, *UNREADABLE):
            event, lost = _salvage(self._clean(value))
            events.append(event)
            self.damage["bad_args"] += lost

    def _clean(self, value: dict[str, object]) -> dict[str, object]:
        """The same event with bytes that are not text replaced, and without fields nested beyond reading."""
        try:
            text = json.dumps(value, ensure_ascii=False)
        except RecursionError:
            shallow = {key: field for key, field in value.items() if not isinstance(field, (dict, list))}
            return self._clean({**shallow, "args": TOO_DEEP})
        try:
            text.encode()
        except UnicodeEncodeError:
            self.damage["bad_text"] += 1
            cleaned: dict[str, object] = json.loads(text.encode(errors="replace"))  # bounded: decoded already
            return cleaned
        return value


NAMES_AND_IDS = ("name", "pid", "tid", "id")
TOO_DEEP = "(nested too deep)"


def _salvage(value: dict[str, object]) -> tuple[KinetoEvent, bool]:
    """An event with the fields that make sense, and whether any did not; those keep their defaults."""
    event, args = KinetoEvent(), value.get("args")
    lost = _assign_known(event, value)
    if isinstance(args, dict):
        event.args = KinetoArgs()
        lost += _assign_known(event.args, args)
    return event, bool(lost) or not isinstance(args, dict | None)


@lru_cache
def _fields(struct: type[Struct]) -> dict[str, tuple[str, Any]]:
    """Attribute and type by the name in the file."""
    return {info.encode_name: (info.name, info.type) for info in msgspec.structs.fields(struct) if info.name != "args"}


def _assign_known(target: Struct, values: dict[str, object]) -> int:
    """Set what fits; returns how many fields did not."""
    fields = _fields(type(target))
    return sum(not _assign(target, *fields[name], value) for name, value in values.items() if name in fields)


def _assign(target: Struct, attribute: str, kind: Any, value: object) -> bool:
    if kind is Raw:
        setattr(target, attribute, Raw(json.dumps(value).encode()))
        return True
    from warplens.readers.kineto.stream_handles import HANDLE

    if attribute == "stream" and isinstance(value, str) and HANDLE.fullmatch(value):
        return True  # ROCm's calls name the handle of their stream, which is no number of a stream
    # A name or a thread id may be a number of the wrong type: as text it still distinguishes events.
    as_text = attribute in NAMES_AND_IDS and isinstance(value, (int, float))
    for candidate in (value, str(value)) if as_text else (value,):
        try:
            setattr(target, attribute, msgspec.convert(candidate, kind, strict=False))
        except (msgspec.ValidationError, RecursionError, OverflowError, SystemError):
            # SystemError: msgspec 0.19 on an integer that no float can hold
            continue
        return True
    return False
