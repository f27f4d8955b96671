"""What every start of a verb would find out again, kept in three files among Python's own files of bytecode."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import NamedTuple

from warplens.collected.modules import CollectedModules
from warplens.collected.patterns import CollectedPatterns
from warplens.collected.texts import CollectedTexts


class Collected(NamedTuple):
    """The collections of this installation."""

    modules: CollectedModules
    patterns: CollectedPatterns
    texts: CollectedTexts

    def use(self) -> None:
        """Imports and compiled patterns come from the collections from now on; for a process of our own."""
        self.modules.use()
        self.patterns.use()

    def use_for_verbs(self) -> None:
        """Compiled texts too: for a verb, which defines more classes than all before it."""
        self.texts.use()

    def renew(self) -> None:
        """Keep what this process had to find out for itself."""
        self.modules.renew()
        self.patterns.renew()
        self.texts.renew()

    def leave(self) -> None:
        """Leave all to Python alone again: the programs of others run in this process."""
        self.modules.leave()
        self.patterns.leave()
        self.texts.leave()


@lru_cache
def collected() -> Collected:
    bytecode = Path(cache_from_source(str(Path(__file__).parents[1] / "collected.py")))
    return Collected(
        CollectedModules(bytecode.with_suffix(".modules")),
        CollectedPatterns(bytecode.with_suffix(".patterns")),
        CollectedTexts(bytecode.with_suffix(".texts")),
    )
