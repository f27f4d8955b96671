"""What every reader guarantees, checked by one call: a new format costs one sample and one line in test_readers.py.

A sample reads as its golden dump says; the same whatever its file is called and however it is packed; the same again
from the cache; and a cut or damaged copy is one clear error or a trace that adds up, with a note on what is lost.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import polars as pl

from damage import scrambled
from mutations import zip_of
from support import differences
from warplens.model.call_paths import CallPaths
from warplens.model.check import self_check
from warplens.model.kinds import KINDS
from warplens.model.quality import WARNING
from warplens.model.trace import SIDE_FRAMES, Trace
from warplens.readers import cache, inputs
from warplens_run.base.errors import FormatError

DISGUISES: tuple[tuple[str, Callable[[bytes], bytes]], ...] = (
    ("no extension at all", bytes),
    ("trace.json", gzip.compress),
    ("x.sqlite", zip_of),
)
CUTS = (0.25, 0.5, 0.9)
DAMAGED_PLACES = 5
SHOWN_ROWS = 4


def check_reader(name: str, content: bytes, folder: Path, golden: Callable[[str, str], None]) -> None:
    """`content` is that of an unpacked sample; `golden` compares a text with the file of that name."""
    whole = read(content, folder)
    golden(f"readers/{name}.txt", dump(whole))
    _is_the_same_under_any_name(content, whole, folder)
    _is_the_same_from_the_cache(whole)
    _says_when_it_is_cut(content, folder)
    _survives_damage(content, folder)


def read(content: bytes, folder: Path, name: str = "profile") -> Trace | CallPaths:
    path = folder / name
    path.write_bytes(content)
    return inputs.find(path).read()


def _is_the_same_under_any_name(content: bytes, whole: Trace | CallPaths, folder: Path) -> None:
    for name, pack in DISGUISES:
        assert _differences(whole, read(pack(content), folder, name)) == [], name


def _is_the_same_from_the_cache(whole: Trace | CallPaths) -> None:
    if isinstance(whole, Trace):
        cache.save(whole)
        again = cache.load(whole.meta.content_hash, whole.meta.source)
        assert again is not None and differences(whole, again) == []


def _says_when_it_is_cut(content: bytes, folder: Path) -> None:
    for share in CUTS:
        rest = _read_or_refuse(content[: int(share * len(content))], folder)
        if rest is not None:
            assert any(note.severity == WARNING for note in rest.quality.notes), f"cut at {share}"


def _survives_damage(content: bytes, folder: Path) -> None:
    for damaged in scrambled(content, max(1, len(content) // DAMAGED_PLACES)):
        _read_or_refuse(damaged, folder)


def _read_or_refuse(content: bytes, folder: Path) -> Trace | CallPaths | None:
    """The checked profile; None where it is refused, in one line that names the file."""
    try:
        profile = read(content, folder)
    except FormatError as error:
        assert str(error).startswith(str(folder)) and "\n" not in str(error)
        return None
    if isinstance(profile, Trace):
        self_check(profile)
    else:
        profile.tree.self_check()
    return profile


def _differences(first: Trace | CallPaths, second: Trace | CallPaths) -> list[str]:
    if isinstance(first, Trace) and isinstance(second, Trace):
        return differences(first, second)
    return [] if dump(first) == dump(second) else ["dump"]


def dump(profile: Trace | CallPaths) -> str:
    """What a reader made of a file, in a few readable lines."""
    meta = profile.meta
    lines = [f"format: {meta.format}", f"events in file: {meta.events_in_file:,}"]
    lines += [f"GPU {device.id}: {device.name}, {device.multiprocessors} SMs" for device in meta.devices]
    lines += [f"{name}: {text}" for name, text in sorted(meta.facts.items())]
    lines += [f"note {note.code} {note.count} {note.detail}" for note in profile.quality.notes]
    lines += _trace_lines(profile) if isinstance(profile, Trace) else _tree_lines(profile)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _trace_lines(trace: Trace) -> list[str]:
    lines = ["", "lanes: " + ", ".join(" / ".join(lane) for lane in trace.lanes.rows()[:SHOWN_ROWS])]
    events = trace.named_events()
    for kind in KINDS:
        rows = events.filter(pl.col("kind") == kind)
        if len(rows):
            lines += ["", f"{kind}: {len(rows):,} events, {rows['dur_ns'].sum():,} ns"]
            lines += [
                f"  {row['start_ns']:>14,} {row['dur_ns']:>12,}  {row['name'][:80]}"
                for row in rows.sort("start_ns", "id").head(SHOWN_ROWS).to_dicts()
            ]
    sides = {name: getattr(trace, name) for name in SIDE_FRAMES if name != "lanes"}
    lines += ["", *(f"{name}: {len(frame):,}" for name, frame in sides.items() if len(frame))]
    return lines


def _tree_lines(profile: CallPaths) -> list[str]:
    tree = profile.tree
    heads = [f"{name}: {float(values.sum()):,.0f}" for name, values in sorted(tree.metrics.items())]
    heads += [f"table {table.name}: {len(table):,} rows" for table in profile.extra]
    nodes = [
        f"  {'  ' * depth}{tree.kind[node]} {tree.name[node][:80]}: {tree.total_ns[node]:,} ns,"
        f" {tree.total_count[node]:,} times"
        for node, depth in list(tree.walk())[: 4 * SHOWN_ROWS]
    ]
    return [*heads, "", f"{len(tree):,} nodes by {tree.weight}", *nodes]
