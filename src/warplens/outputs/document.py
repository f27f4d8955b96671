"""`Document`: what one run has to say, before it becomes a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warplens.model.table import Table


@dataclass(frozen=True)
class Document:
    """The tables of a run plus the facts about it (device, steps, time span …), ready to be written."""

    title: str
    source: str
    facts: Mapping[str, str]
    tables: Sequence[Table]

    def __post_init__(self) -> None:
        names = [table.name for table in self.tables]
        if len(set(names)) != len(names):
            raise ValueError(f"a document's tables need distinct names, got {names}")
