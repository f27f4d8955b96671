"""Quality notes: a count agrees with its noun, and every note can be explained without one."""

from __future__ import annotations

import pytest

from support import each_case
from warplens.model.quality import MESSAGES, Note, explained


@pytest.mark.parametrize(
    ("note", "message"),
    [
        (Note("unnamed", 1), "1 event without a name"),
        (Note("unnamed", 2_000), "2,000 events without a name"),
        (Note("other_processes", 1), "1 more process in the file; only the first is read"),
        (Note("other_processes", 3), "3 more processes in the file; only the first is read"),
        (Note("zip_members", detail="a.json"), "the archive has several files; a.json is read"),
    ],
)
def test_a_count_agrees_with_its_noun(note: Note, message: str) -> None:
    assert note.message == message


@each_case(MESSAGES)
def test_every_note_reads_well_with_and_without_a_count(code: str) -> None:
    for text in (explained(code), Note(code, 2, "x").message):
        assert "{" not in text and text == text.strip()


def test_an_explanation_has_no_number() -> None:
    assert explained("not_events") == "N entries skipped: not an event (no ph, or not an object)"
