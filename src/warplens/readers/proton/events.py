"""The events of a Proton trace (`.chrome_trace`): trace-event JSON, one document per stream and line in older files.

A file that does not decode at once (cut, damaged, NaN in it) is read again event by event: what is whole is kept, what
is not is counted. `read_documents` does the same for any kind of event.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct, field

from warplens.readers.shared.json_value import is_cut, value_at

ARRAY_START: Final = re.compile(r'"traceEvents"\s*:\s*\[')
NEXT_EVENT: Final = re.compile(r"\}\s*,\s*\{")
NOT_A_SEPARATOR: Final = re.compile(r"[^\s,]|\Z")
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class ProtonArgs(Struct, gc=False):
    call_stack: Raw = Raw()
    """As it stands in the file: most kernels share theirs with others, and it is decoded once."""
    metrics: dict[str, object] = {}
    finalization_ns: float = field(name="Finalization Time (ns)", default=math.nan)
    frequency_mhz: float = field(name="Frequency (MHz)", default=math.nan)
    init_ns: int = field(name="Init Time (ns)", default=-1)
    label: str = field(name="name", default="")


class ProtonEvent(Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: float = math.nan
    dur: float = math.nan
    id: int | str | None = None
    bind_id: int | str | None = None
    flow_out: bool = False
    flow_in: bool = False
    args: ProtonArgs = field(default_factory=ProtonArgs)


E = TypeVar("E", bound=Struct)


class EventDocument(Struct, Generic[E]):
    traceEvents: list[E]  # noqa: N815 - the file's own spelling


NAMES: Final = msgspec.json.Decoder(list[str])


def read_events(text: bytes) -> tuple[list[ProtonEvent], Counter[str]]:
    return read_documents(text, ProtonEvent)


def read_documents(text: bytes, kind: type[E]) -> tuple[list[E], Counter[str]]:
    """The events of all documents in the text, and how often what kind of damage was met.

    `kind` is what an event becomes; its field `args` may get lost where it holds something unexpected.
    """
    decoder = msgspec.json.Decoder(EventDocument[kind], strict=False)  # type: ignore[valid-type]
    for parts in ([text], text.splitlines()):
        try:
            documents = [decoder.decode(part) for part in parts if part.strip(b"\0 \t\r\n")]
        except UNREADABLE:
            continue
        return [event for document in documents for event in document.traceEvents], Counter()
    return _Scan(text, kind).run()


def call_stack(raw: bytes) -> tuple[str, ...]:
    """The callers of an event, outermost first; none where the file says none, or something else."""
    try:
        return tuple(NAMES.decode(raw)) if raw else ()
    except UNREADABLE:
        return ()


class _Scan(Generic[E]):
    """Reads events one by one, and steps over what cannot be read."""

    def __init__(self, text: bytes, kind: type[E]) -> None:
        self.text = text.decode(errors="replace")
        self.kind = kind
        self.args = next(field.type for field in msgspec.structs.fields(kind) if field.name == "args")
        self.damage = Counter(bad_text=int("\N{REPLACEMENT CHARACTER}" in self.text))
        self.events: list[E] = []

    def run(self) -> tuple[list[E], Counter[str]]:
        start = ARRAY_START.search(self.text)
        while start is not None:
            start = ARRAY_START.search(self.text, self._read_array(start.end()))
        if not self.text.rstrip("\0 \t\r\n").endswith("}"):
            self.damage["truncated"] = 1
        return self.events, +self.damage

    def _read_array(self, position: int) -> int:
        """Reads the events from a position inside an array on; returns the position after the array."""
        while True:
            entry = NOT_A_SEPARATOR.search(self.text, position)
            position = entry.start() if entry else len(self.text)
            if self.text.startswith("]", position):
                return position + 1
            try:
                value, position = value_at(self.text, position)
            except (ValueError, RecursionError) as error:
                position = self._next_event(position, error)
                if position < 0:
                    return len(self.text)
            else:
                self._keep(value)

    def _next_event(self, position: int, error: Exception) -> int:
        """Where the next event after a damaged one begins; -1 where there is none."""
        following = None if is_cut(error) else NEXT_EVENT.search(self.text, position + 1)
        self.damage["truncated" if is_cut(error) else "damaged"] += 1
        return following.end() - 1 if following else -1

    def _keep(self, value: object) -> None:
        if not isinstance(value, dict):
            self.damage["not_events"] += 1
            return
        args = value.pop("args", {})
        try:
            event = msgspec.convert(value, self.kind, strict=False)
        except (msgspec.ValidationError, RecursionError, OverflowError, SystemError, UnicodeError):
            # SystemError: msgspec 0.19 on an integer that no float can hold; UnicodeError: half of a character
            self.damage["not_events"] += 1
            return
        try:
            setattr(event, "args", msgspec.json.decode(json.dumps(args), type=self.args, strict=False))  # noqa: B010
        except (*UNREADABLE, ValueError, OverflowError):
            self.damage["bad_args"] += 1
        self.events.append(event)
