"""The native reader against the Python reader: the same trace or the file handed over, never a different trace.

A usual run tries some hundred mutants; WARPLENS_MUTANTS=10000 tries that many. A mutant is known by its seed.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from mutations import TEXT_MUTATIONS, mutated, piece, text_of, written
from native_reading import HANDED_OVER, SAME, needs_library, verdict, with_pieces_of
from spellings import respelt
from support import ROOT, SAMPLES, distinct, nightly_after, shared_traces
from warplens.readers.shared import stored_file

pytestmark = needs_library
MUTANTS = int(os.environ.get("WARPLENS_MUTANTS", "400"))
BATCH = 50
TRACES = distinct([
    *sorted(ROOT.glob("samples/**/*.json.gz")),
    *sorted(ROOT.glob("samples/**/*.chrome_trace.gz")),
    *shared_traces(),
])  # fmt: skip
IS_TRACE = b'"traceEvents"'


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_every_trace_reads_the_same_or_is_handed_over(path: Path) -> None:
    text, _ = stored_file.load(path).unwrap()
    if IS_TRACE not in text[: 1 << 20]:
        pytest.skip("not trace-event JSON")
    assert verdict(text, Random(path.name)) == SAME  # what profilers write is never handed over


@pytest.mark.parametrize("batch", nightly_after(2, range(0, MUTANTS, BATCH)))
def test_mutants_read_the_same_or_are_handed_over(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = Counter(verdict_of_mutant(seed, monkeypatch) for seed in range(batch, min(MUTANTS, batch + BATCH)))
    assert set(verdicts) <= {SAME, HANDED_OVER}, verdicts
    assert verdicts[SAME] and verdicts[HANDED_OVER]  # else nothing was compared, or nothing was odd


def verdict_of_mutant(seed: int, monkeypatch: pytest.MonkeyPatch) -> str:
    rng = Random(seed)
    with_pieces_of(rng.choice((200, 1000, 4000, 1 << 17)), monkeypatch)
    text = mutant(rng)
    result = verdict(text, rng)
    return result if result in (SAME, HANDED_OVER) else f"seed {seed}: {result}"


def mutant(rng: Random) -> bytes:
    """A piece of a sample with wrong values, spelt another way, or with damaged text; each kind a third."""
    document = piece(rng.choice(SAMPLES))
    kind = rng.randrange(3)
    if kind == 0:
        return written(mutated(document, rng), rng)
    if kind == 1:
        return respelt(document, rng)
    return rng.choice(TEXT_MUTATIONS)(text_of(document), rng)


def test_the_text_of_a_mutant_depends_on_its_seed_alone() -> None:
    assert mutant(Random(5)) == mutant(Random(5))
    json.loads(respelt(piece(SAMPLES[0]), Random(1)))
