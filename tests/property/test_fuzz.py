"""Damaged copies of real traces: each opens and adds up, or is refused with one line; nothing else, and soon.

Every mutant is told by its seed: `-k` with the test's id and the seed in the message bring it back. Each trace has seeds
of its own, so that no damage is tried twice. A usual run tries some 300; WARPLENS_FUZZ=4 tries four times as many.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pytest

import warplens
from laws import assert_adds_up, assert_kernels_add_up, assert_no_event_is_lost
from mutations import (
    TEXT_MUTATIONS,
    Document,
    delete_slice,
    flip_bytes,
    gzip_of,
    mutated,
    packed,
    piece,
    text_of,
    truncate,
    written,
    zip_of,
)
from support import SAMPLES, ends, nightly_after

EFFORT = int(os.environ.get("WARPLENS_FUZZ", "1"))
ALWAYS = ("cudagraph_infer", "gpt2_train_step")
"""Of these samples; mutants of the others are left to `make nightly`."""
PIECES = [
    pytest.param(path, id=name, marks=[] if name in ALWAYS else pytest.mark.nightly)
    for path in SAMPLES
    for name in [path.name.removesuffix(".json.gz")]
]
SMALLEST = sorted(SAMPLES, key=lambda path: path.stat().st_size)[:2]


def seeds(path: Path, count: int) -> range:
    """As many as are asked for of this trace, none of which another trace has."""
    return range(SAMPLES.index(path), len(SAMPLES) * count * EFFORT, len(SAMPLES))


def opened(content: bytes, folder: Path, what: str) -> warplens.Profile | None:
    """The checked profile of a mutant; None where it was refused, in words that name the file.

    Reading is checked of all; every table, which takes ten times as long, of one in eight.
    """
    path = folder / "mutant"
    path.write_bytes(content)
    with ends(what):
        try:
            profile = warplens.open(path, cache=False)
        except warplens.FormatError as error:
            assert str(error).startswith(str(path)), what
            assert "\n" not in str(error), what
            return None
        if crc32(content) % 8 == 0:
            assert_adds_up(profile)
        else:
            assert_kernels_add_up(profile)
    return profile


@pytest.mark.parametrize("path", PIECES)
@pytest.mark.parametrize("mutate", TEXT_MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_damaged_text_opens_and_adds_up_or_is_refused(
    path: Path, mutate: Callable[[bytes, Random], bytes], tmp_path: Path
) -> None:
    text = text_of(piece(path))
    for seed in seeds(path, 2):
        opened(mutate(text, Random(seed)), tmp_path, f"{mutate.__name__}, seed {seed}")


@pytest.mark.parametrize("path", PIECES)
@pytest.mark.parametrize("pack", [gzip_of, zip_of], ids=lambda pack: pack.__name__)
def test_damaged_archives_open_and_add_up_or_are_refused(
    path: Path, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    stored = pack(text_of(piece(path)))
    for seed in seeds(path, 5):
        rng = Random(seed)
        mutate = rng.choice(TEXT_MUTATIONS)
        opened(mutate(stored, rng), tmp_path, f"{mutate.__name__}, seed {seed}")


@pytest.mark.parametrize("path", PIECES)
def test_wrong_values_open_and_add_up_and_no_event_is_lost_uncounted(path: Path, tmp_path: Path) -> None:
    for seed in seeds(path, 14):
        rng = Random(seed)
        document = mutated(piece(path), rng)
        profile = opened(packed(written(document, rng), rng), tmp_path, f"seed {seed}")
        if profile is not None:
            assert_no_event_is_lost(profile, document, f"seed {seed}")


@pytest.mark.parametrize("path", PIECES)
def test_a_cut_file_keeps_every_event_before_the_cut_and_says_so(path: Path, tmp_path: Path) -> None:
    document = piece(path)
    text, ends = _with_ends(document)
    for seed in seeds(path, 5):
        cut = Random(seed).randrange(ends[-1])
        profile = opened(text[:cut], tmp_path, f"seed {seed}")
        whole = [event for event, end in zip(document["traceEvents"], ends, strict=True) if end <= cut]
        timed = sum(event["ph"] == "X" for event in whole)
        assert (profile is None) == (timed == 0), f"seed {seed}"
        if profile is not None:
            assert len(profile.trace) == timed, f"seed {seed}"
            assert profile.trace.quality.has("truncated"), f"seed {seed}"


def _with_ends(document: Document) -> tuple[bytes, list[int]]:
    """The text of a document and where in it each event ends."""
    header = {key: value for key, value in document.items() if key != "traceEvents"}
    text, ends = json.dumps(header)[:-1] + ', "traceEvents": [', []
    for event in document["traceEvents"]:
        text += json.dumps(event)
        ends.append(len(text))
        text += ", "
    return (text.removesuffix(", ") + "]}").encode(), ends


@pytest.mark.parametrize("path", PIECES)
@pytest.mark.parametrize("mutate", [flip_bytes, delete_slice], ids=lambda mutate: mutate.__name__)
def test_one_damaged_place_costs_few_events_or_is_noted(
    path: Path, mutate: Callable[[bytes, Random], bytes], tmp_path: Path
) -> None:
    document = piece(path)
    text, ends = _with_ends(document)
    timed = sum(event["ph"] == "X" for event in document["traceEvents"])
    start = text.index(b'"traceEvents"') + len('"traceEvents": [')
    for seed in seeds(path, 4):
        damaged = text[:start] + mutate(text[start : ends[-1]], Random(seed)) + text[ends[-1] :]
        profile = opened(damaged, tmp_path, f"seed {seed}")
        assert profile is not None, f"seed {seed}"
        warned = any(note.severity == "warning" for note in profile.trace.quality.notes)
        assert warned or len(profile.trace) >= timed - 2, f"seed {seed}"


@pytest.mark.parametrize("path", nightly_after(1, SMALLEST), ids=lambda path: path.name.removesuffix(".json.gz"))
def test_whole_files_damaged_anywhere_open_or_are_refused(path: Path, tmp_path: Path) -> None:
    stored = path.read_bytes()
    for seed in seeds(path, 4):
        rng = Random(seed)
        mutate = rng.choice((flip_bytes, truncate, delete_slice))
        opened(mutate(stored, rng), tmp_path, f"{mutate.__name__}, seed {seed}")


@pytest.mark.parametrize("path", PIECES)
def test_mutants_that_open_can_be_written_in_every_format_and_come_back_from_the_cache(
    path: Path, tmp_path: Path
) -> None:
    targets: list[Any] = [f"{tmp_path}/out/", *(f"{tmp_path}/report.{suffix}" for suffix in ("json", "md", "xlsx"))]
    for seed in seeds(path, 1):
        rng = Random(seed)
        mutant = tmp_path / "mutant"
        mutant.write_bytes(packed(written(mutated(piece(path), rng), rng), rng))
        with ends(f"seed {seed}"):
            try:
                fresh = warplens.report(mutant, targets, force=True)
            except warplens.FormatError:
                continue
            again = warplens.open(mutant)
        assert again.trace.events.equals(fresh.trace.events), f"seed {seed}"
        assert again.table("quality").to_dicts() == fresh.table("quality").to_dicts(), f"seed {seed}"
