"""Damage to files of every kind: JSON, CSV, SQLite, protobuf and archives. All choices come from the `Random`."""

from __future__ import annotations

import io
import json
import sqlite3
import zipfile
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from mutations import TEXT_MUTATIONS, WRONG_VALUES, packed
from protobuf_bytes import varint

DEEP = 3000
FEW = (1, 1, 1, 2, 5)
CELLS: tuple[Any, ...] = (None, 0, -1, 2**31, 2**62, -(2**62), 1e300, "", "x", "NaN", b"\0\xff", b"7", "\x1b[2J", 1.5)
CSV_CELLS = ("", "-1", "1e999", "nan", "x", '"', '""', "2,5", "9" * 400, "\0", "\x1b[31m", "=1+1", "\ufeff", "é" * 50)
WIRES = (0, 1, 2, 3, 5, 7)


def damaged_text(text: bytes, rng: Random) -> bytes:
    for _ in range(rng.choice(FEW)):
        text = rng.choice(TEXT_MUTATIONS)(text, rng) or b" "
    return text


def damaged_json(value: Any, rng: Random) -> bytes:
    """Values of a JSON document replaced, removed, repeated or nested too deep; or its text damaged."""
    if rng.random() < 0.3:
        return packed(damaged_text(json.dumps(value).encode(), rng), rng)
    value = deepcopy(value)
    for _ in range(rng.choice(FEW)):
        _damage_place(value, rng)
    text = json.dumps(value)
    if rng.random() < 0.03:
        text = text.replace("1", "[" * DEEP + "]" * DEEP, 1)
    if rng.random() < 0.05:
        text = rng.choice(("\ufeff", " " * 5000, "\n\t\r ")) + text
    return packed(text.encode("utf-8", "surrogatepass"), rng)


def _damage_place(value: Any, rng: Random) -> None:
    holder, key = _place(value, rng)
    change = rng.randrange(8)
    if change < 4:
        holder[key] = deepcopy(rng.choice(WRONG_VALUES))
    elif change == 4:
        del holder[key]
    elif change == 5 and isinstance(holder, list):
        holder.extend(deepcopy(holder[key : key + 1]) * rng.choice((1, 3, 40)))
    elif change == 6 and isinstance(holder, list):
        rng.shuffle(holder)
    elif change == 6:
        holder[str(rng.choice(WRONG_VALUES))] = holder[key]
    elif isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
        holder[key] = holder[key] * rng.choice((-1, 1000, 10**9, 1e-9))


def _place(value: Any, rng: Random) -> tuple[Any, Any]:
    """A container within a document and one of its keys; it goes down at random, so that no place is out of reach."""
    if not isinstance(value, (dict, list)) or not value:
        return {"nothing": 0}, "nothing"
    while True:
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        inner = value[key]
        if not isinstance(inner, (dict, list)) or not inner or rng.random() < 0.1:
            return value, key
        value = inner


def damaged_csv(text: str, rng: Random) -> bytes:
    if rng.random() < 0.3:
        return packed(damaged_text(text.encode(), rng), rng)
    lines = text.splitlines()
    for _ in range(rng.choice(FEW)):
        at = rng.randrange(len(lines))
        cells = lines[at].split(",")
        change = rng.randrange(5)
        if change < 3:
            cells[rng.randrange(len(cells))] = rng.choice(CSV_CELLS)
        elif change == 3:
            del cells[rng.randrange(len(cells))]
        else:
            lines.insert(rng.randrange(len(lines)), lines[at])
        lines[at] = ",".join(cells)
    return packed(rng.choice(("\n", "\r\n")).join(lines).encode("utf-8", "replace"), rng)


def damaged_database(content: bytes, rng: Random) -> bytes:
    """An SQLite file with odd cells, columns and tables; or with damaged pages."""
    if rng.random() < 0.3:
        return packed(damaged_text(content, rng), rng)
    with TemporaryDirectory() as folder:
        path = Path(folder, "x.sqlite")
        path.write_bytes(content)
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode=OFF")
        for _ in range(rng.choice(FEW)):
            try:
                connection.execute(*_statement(connection, rng))
            except sqlite3.Error:
                continue
        connection.commit()
        connection.close()
        return packed(path.read_bytes(), rng)


def _statement(connection: sqlite3.Connection, rng: Random) -> tuple[str, tuple[Any, ...]]:
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    table = rng.choice(tables)
    columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
    column = rng.choice(columns)
    change = rng.randrange(10)
    if change < 5:
        return f'UPDATE "{table}" SET "{column}" = ? WHERE rowid % ? = 0', (rng.choice(CELLS), rng.choice((1, 2, 3)))
    if change == 5:
        return f'ALTER TABLE "{table}" DROP COLUMN "{column}"', ()
    if change == 6:
        return f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{rng.choice(("rowid", "x", column.upper()))}"', ()
    if change == 7:
        return f'DELETE FROM "{table}" WHERE rowid % 2 = ?', (rng.randrange(2),)
    if change == 8:
        return f'DROP TABLE "{table}"', ()
    return f'INSERT INTO "{table}" SELECT * FROM "{table}"', ()


def damaged_protobuf(content: bytes, rng: Random) -> bytes:
    """One or more fields of a message, at any depth, with other values, lengths or types; or damaged bytes."""
    if rng.random() < 0.3:
        return packed(damaged_text(content, rng), rng)
    for _ in range(rng.choice(FEW)):
        content = _damaged_message(content, rng)
    return packed(content, rng)


def _damaged_message(content: bytes, rng: Random, depth: int = 0) -> bytes:
    fields = _fields(content)
    if not fields:
        return content
    start, end, wire, inside = fields[rng.randrange(len(fields))]
    if wire == 2 and depth < 6 and rng.random() < 0.8:
        inner = _damaged_message(content[inside:end], rng, depth + 1)
        tag = content[start:inside][: _tag_length(content, start)]
        return content[:start] + tag + varint(len(inner)) + inner + content[end:]
    change = rng.randrange(5)
    if change == 0:
        return content[:start] + content[end:]
    if change == 1:
        return content[:end] + content[start:end] * rng.choice((1, 3, 50)) + content[end:]
    if change == 2:
        return content[:start] + varint(rng.randrange(1, 40) << 3 | rng.choice(WIRES)) + content[start + 1 :]
    if change == 3:
        return content[:inside] + varint(rng.choice((0, 1, 2**31, 2**63 - 1, 2**64 - 1))) + content[end:]
    return content[:start] + content[start:end] + rng.randbytes(rng.choice((1, 4, 9))) + content[end:]


def _fields(content: bytes) -> list[tuple[int, int, int, int]]:
    """Start, end, wire type and start of the value of each field; none where it is no message."""
    found, at = [], 0
    while at < len(content):
        start = at
        tag, at = _varint(content, at)
        wire, inside = tag & 7, at
        if wire == 0:
            _, at = _varint(content, at)
        elif wire == 2:
            size, inside = _varint(content, at)
            at = inside + size
        else:
            at += {1: 8, 5: 4}.get(wire, len(content) + 1)
        if at > len(content) or tag >> 3 == 0:
            return []
        found.append((start, at, wire, inside))
    return found


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(content) and shift < 64:
        value |= (content[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if content[at - 1] < 128:
            return value, at
    return 0, len(content) + 1


def _tag_length(content: bytes, start: int) -> int:
    return _varint(content, start)[1] - start


def zip_of_members(members: Mapping[str, bytes], rng: Random) -> bytes:
    """An archive of them, now and then with a member twice, or one whose name leads elsewhere."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
            if rng.random() < 0.02:
                archive.writestr(zipfile.ZipInfo(f"../{name}"), content, zipfile.ZIP_DEFLATED)
    whole = buffer.getvalue()
    return damaged_text(whole, rng) if rng.random() < 0.2 else whole


def damaged_archive(content: bytes, rng: Random) -> bytes:
    """A zip file with one damaged member; or with damaged bytes."""
    if rng.random() < 0.3:
        return damaged_text(content, rng)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(members))
    if name.endswith(".json"):
        value = json.loads(members[name])
        for _ in range(rng.choice(FEW)):
            _damage_place(value, rng)
        members[name] = json.dumps(value).encode("utf-8", "surrogatepass")
    else:
        members[name] = damaged_text(members[name] or b"\0", rng)
    return zip_of_members(members, rng)
