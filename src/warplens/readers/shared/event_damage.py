"""Quality notes on trace-event JSON that is cut or damaged, the same for every reader of such files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from warplens.model.quality import Note


def damage_notes(damage: Counter[str], notes: Iterable[Note]) -> list[Note]:
    """What to say of damage, counted by the codes of notes; `notes` are those that unpacking the file gave."""
    more = []
    if damage["truncated"] and not any(note.code == "truncated" for note in notes):
        more.append(Note("truncated", detail="the last event is incomplete"))
    if damage["damaged"]:
        more.append(Note("damaged", damage["damaged"], "each up to the next complete event"))
    if damage["bad_args"]:
        more.append(Note("bad_args", damage["bad_args"], "of an unexpected type"))
    return more + [Note(code) for code in ("bad_text", "header") if damage[code]]
