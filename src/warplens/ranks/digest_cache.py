"""Digests on disk, beside the cache of parsed traces: a second report of a job reads these."""

from __future__ import annotations

import contextlib
import hashlib
from functools import cache
from pathlib import Path

import msgspec
import polars as pl

from warplens.errors import WarplensError
from warplens.files import whole_folder
from warplens.ranks.records import FRAMES, RankDigest, RankFacts
from warplens.readers import cache as trace_cache

ROOMS = ("model", "readers", "passes", "categories", "analyses", "ranks")


def load(content_hash: str, options: str, source: str) -> RankDigest | None:
    """The digest that was kept; None where there is none."""
    try:
        folder = _folder(content_hash, options)
        facts = msgspec.json.decode((folder / "head.json").read_bytes(), type=RankFacts)
        frames = {name: pl.read_ipc(folder / f"{name}.arrow") for name in FRAMES}
    except (*trace_cache.NO_PLACE, ValueError, msgspec.DecodeError, pl.exceptions.PolarsError):
        return None
    if any(dict(frame.schema) != FRAMES[name] for name, frame in frames.items()):
        return None
    return RankDigest(msgspec.structs.replace(facts, source=source), frames)


def save(digest: RankDigest, options: str) -> None:
    """Keep a digest; a full disk or a read-only home is ignored."""
    with contextlib.suppress(*trace_cache.NO_PLACE, WarplensError, pl.exceptions.PolarsError):
        target = _folder(digest.facts.content_hash, options)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with whole_folder(target) as staging:
            for name, frame in digest.frames.items():
                frame.write_ipc(staging / f"{name}.arrow", compression="lz4")
            (staging / "head.json").write_bytes(msgspec.json.encode(digest.facts))


def evict() -> None:
    """Remove what is oldest, once all ranks of a job are saved: to look at every entry after each would take long."""
    with contextlib.suppress(*trace_cache.NO_PLACE, WarplensError):
        trace_cache.evict(trace_cache.cache_directory() / "no entry")  # there is none that must stay


def _folder(content_hash: str, options: str) -> Path:
    """Named like the entries of parsed traces, so that the oldest go when the cache is over its size."""
    name = hashlib.blake2b(f"digest {content_hash} {options}".encode(), digest_size=16).hexdigest()
    return trace_cache.cache_directory() / f"{name}-{_shape()}"


@cache
def _shape() -> str:
    """Changes with the code that makes digests."""
    return trace_cache.code_hash(ROOMS, str(FRAMES))
