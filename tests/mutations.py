"""Pieces of real traces, and ways to damage them; every choice comes from the `Random` that is handed in."""

from __future__ import annotations

import gzip
import io
import json
import math
import zipfile
from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from support import raw_events

Document = dict[str, Any]
GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
WRONG_VALUES = (
    *(None, True, False, 0, -1, -3, 7, 1.5, -0.0, 1e-300, 1e300, 1.7e15, 4e15, 2**31, 2**63, 2**64, 2**70, -(2**70)),
    *(math.nan, math.inf, -math.inf, "", "7", "x", "NaN", "²", "1e999", "\ud800", "\x1b[31m\0", "a\r\nb", "_ZN3foo"),
    *([], [[1]], {}, {"a": {"b": [None]}}, "X", "E", "s", "f", "kernel", "python_function", "ProfilerStep#1"),
)


@lru_cache
def piece(path: Path, host_events: int = 36) -> Document:
    """Some consecutive host events of a trace with what belongs to them: their GPU work, arrows and labels."""
    with gzip.open(path) as stream:
        header = {key: value for key, value in json.load(stream).items() if key != "traceEvents"}
    events = raw_events(path)
    host = sorted((e for e in events if e["ph"] == "X" and e["cat"] not in GPU_CATEGORIES), key=lambda e: e["ts"])
    launches = [place for place, event in enumerate(host) if "LaunchKernel" in event["name"]]
    middle = launches[len(launches) // 2] if launches else len(host) // 2
    own = host[max(0, middle - host_events + 4) : middle + 4]
    low, high = own[0]["ts"], own[-1]["ts"]
    launched = {event.get("args", {}).get("correlation", -1) for event in own} - {-1}
    gpu = [e for e in events if e.get("cat") in GPU_CATEGORIES and e["args"]["correlation"] in launched]
    marks = [e for e in events if e["ph"] in "sfi" and low <= e["ts"] <= high][:12]
    labels = [e for e in events if e["ph"] == "M"][:4]
    return {**header, "traceEvents": labels + own + gpu[:12] + marks}


def text_of(document: Document) -> bytes:
    return json.dumps(document).encode()


def flip_bytes(text: bytes, rng: Random) -> bytes:
    damaged = bytearray(text)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def truncate(text: bytes, rng: Random) -> bytes:
    return text[: rng.randrange(len(text))]


def delete_slice(text: bytes, rng: Random) -> bytes:
    start, end = _slice(text, rng)
    return text[:start] + text[end:]


def duplicate_slice(text: bytes, rng: Random) -> bytes:
    start, end = _slice(text, rng)
    at = rng.choice((end, rng.randrange(len(text))))
    return text[:at] + text[start:end] + text[at:]


def insert_garbage(text: bytes, rng: Random) -> bytes:
    garbage = (b"\0" * 40, b"\xff\xfe", b"]", b"[", b"}", b"{", b'"', b",,", b"\\", b"\x1b[2J", b"\r\n", b"[" * 3000)
    at = rng.randrange(len(text))
    return text[:at] + rng.choice(garbage) + text[at:]


def _slice(text: bytes, rng: Random) -> tuple[int, int]:
    start = rng.randrange(len(text))
    return start, min(len(text), start + rng.choice((1, 2, 5, 30, 300, 3000)))


TEXT_MUTATIONS: tuple[Callable[[bytes, Random], bytes], ...] = (
    flip_bytes,
    truncate,
    delete_slice,
    duplicate_slice,
    insert_garbage,
)


def replace_values(document: Document, rng: Random) -> None:
    for _ in range(rng.choice((1, 1, 2, 5))):
        holder, key = rng.choice(_places(rng.choice(_events(document))))
        holder[key] = deepcopy(rng.choice(WRONG_VALUES))


def replace_one_field_everywhere(document: Document, rng: Random) -> None:
    field, value = rng.choice(("ts", "dur", "pid", "tid", "name", "cat", "args", "ph")), rng.choice(WRONG_VALUES)
    for event in _events(document):
        if field in event and rng.random() < 0.7:
            event[field] = deepcopy(value)


def scale_times(document: Document, rng: Random) -> None:
    field, factor = rng.choice(("ts", "dur")), rng.choice((0, -1, 1e-9, 1e6, 1e9, 1e12, 1e30))
    for event in _events(document):
        if isinstance(event.get(field), (int, float)) and rng.random() < 0.5:
            event[field] *= factor


def delete_fields(document: Document, rng: Random) -> None:
    for _ in range(rng.choice((1, 1, 3, 20))):
        holder, key = rng.choice(_places(rng.choice(_events(document))))
        del holder[key]


def shuffle_events(document: Document, rng: Random) -> None:
    rng.shuffle(document["traceEvents"])


def duplicate_events(document: Document, rng: Random) -> None:
    document["traceEvents"] += deepcopy(rng.choices(_events(document), k=rng.choice((1, 5, 60))))


def delete_events(document: Document, rng: Random) -> None:
    kept = rng.random()
    document["traceEvents"] = [event for event in document["traceEvents"] if rng.random() < kept]


def insert_entries(document: Document, rng: Random) -> None:
    for _ in range(rng.choice((1, 3))):
        at = rng.randrange(len(document["traceEvents"]) + 1)
        document["traceEvents"].insert(at, deepcopy(rng.choice(WRONG_VALUES)))


def mix_ids(document: Document, rng: Random) -> None:
    """Correlations, threads, sequence numbers and arrows point anywhere."""
    fields = (
        "correlation",
        "External id",
        "Sequence number",
        "Fwd thread id",
        "Python id",
        "Python parent id",
        "stream",
    )
    for event in _events(document):
        args = event.get("args")
        for key in fields if isinstance(args, dict) else ():
            if key in args and rng.random() < 0.5:
                args[key] = rng.randrange(6)
        if rng.random() < 0.3:
            event["tid"] = rng.randrange(3)


def split_into_begin_and_end(document: Document, rng: Random) -> None:
    parts: list[Any] = []
    for event in document["traceEvents"]:
        splittable = isinstance(event, dict) and isinstance(event.get("dur"), (int, float))
        if splittable and isinstance(event.get("ts"), (int, float)) and rng.random() < 0.5:
            parts.append({**event, "ph": "B"})
            if rng.random() < 0.9:
                parts.append({**event, "ph": "E", "ts": event["ts"] + event["dur"], "args": {}})
        else:
            parts.append(event)
    document["traceEvents"] = parts


def damage_header(document: Document, rng: Random) -> None:
    holder, key = rng.choice(_places({key: value for key, value in document.items() if key != "traceEvents"}))
    holder[key] = deepcopy(rng.choice(WRONG_VALUES))
    document[rng.choice(list(document.keys() - {"traceEvents"}))] = deepcopy(rng.choice(WRONG_VALUES))


def _events(document: Document) -> list[Document]:
    return [event for event in document["traceEvents"] if isinstance(event, dict)] or [{"ph": "X"}]


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) within a JSON value."""
    if not isinstance(value, (dict, list)) or not value:
        return [({"nothing": 0}, "nothing")]
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    inner = [
        place for key in keys if isinstance(value[key], (dict, list)) and value[key] for place in _places(value[key])
    ]
    return [(value, key) for key in keys] + inner


DOCUMENT_MUTATIONS: tuple[Callable[[Document, Random], None], ...] = (
    replace_values,
    replace_values,
    replace_one_field_everywhere,
    scale_times,
    delete_fields,
    shuffle_events,
    duplicate_events,
    delete_events,
    insert_entries,
    mix_ids,
    split_into_begin_and_end,
    damage_header,
)


def mutated(document: Document, rng: Random) -> Document:
    """A copy with one to three kinds of damage; still a document, so what it holds can be counted."""
    copy = deepcopy(document)
    for mutate in rng.choices(DOCUMENT_MUTATIONS, k=rng.choice((1, 1, 2, 3))):
        mutate(copy, rng)
    return copy


def written(document: Document, rng: Random) -> bytes:
    """The document in one of the shapes that files come in."""
    events, header = document["traceEvents"], {key: value for key, value in document.items() if key != "traceEvents"}
    shapes = (
        lambda: json.dumps({**header, "traceEvents": events}),
        lambda: json.dumps({"traceEvents": events, **header}),
        lambda: json.dumps({**header, "traceEvents": events}, indent=1).replace("\n", "\r\n"),
        lambda: "\ufeff" + json.dumps({**header, "traceEvents": events}, separators=(",", ":")),
        lambda: json.dumps(events),
        lambda: json.dumps(events)[:-1] + rng.choice(("", ",", "\n", ",\n")),
    )
    return rng.choice(shapes)().encode()


def packed(text: bytes, rng: Random) -> bytes:
    return rng.choice((bytes, bytes, gzip_of, gzip_of_two_members, zip_of))(text)


def gzip_of(text: bytes) -> bytes:
    return gzip.compress(text, mtime=0)


def gzip_of_two_members(text: bytes) -> bytes:
    return gzip_of(text[: len(text) // 2]) + gzip_of(text[len(text) // 2 :])


def zip_of(text: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("trace.json"), text, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
