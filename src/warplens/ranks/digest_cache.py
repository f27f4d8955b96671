"""Digests on disk, beside the cache of parsed traces: a second report of a job reads these."""

from __future__ import annotations

import contextlib
import hashlib
from functools import cache

import msgspec

from warplens.cache import entries, place
from warplens.ranks.records import FRAMES, RankDigest, RankFacts

ROOMS = tuple(f"warplens/{room}" for room in ("cache", "model", "readers", "passes", "categories", "analyses", "ranks"))


def load(content_hash: str, options: str, source: str) -> RankDigest | None:
    """The digest that was kept; None where there is none."""
    entry = entries.load(_name(content_hash, options))
    if entry is None or {name: dict(frame.schema) for name, frame in entry.frames.items()} != FRAMES:
        return None
    try:
        facts = msgspec.json.decode(entry.head, type=RankFacts)
    except msgspec.DecodeError:
        return None
    return RankDigest(msgspec.structs.replace(facts, source=source), entry.frames)


def save(digest: RankDigest, options: str) -> None:
    """Keep a digest."""
    name = _name(digest.facts.content_hash, options)
    entries.save(name, msgspec.json.encode(digest.facts), digest.frames, compression="lz4", evicts=False)


def evict() -> None:
    """Remove what is oldest, once all ranks of a job are saved: to look at every entry after each would take long."""
    with contextlib.suppress(*place.NO_PLACE):
        place.evict()


def _name(content_hash: str, options: str) -> str:
    name = hashlib.blake2b(f"digest {content_hash} {options}".encode(), digest_size=16).hexdigest()
    return f"{name}-{_shape()}"


@cache
def _shape() -> str:
    """Changes with the code that makes digests."""
    return place.code_hash(ROOMS, str(FRAMES))
