"""The rules on kernels: facts of a compilation → drafts of suggestions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from warplens.kernel_lab.suggesting import access_rules, config_rules, matrix_rules
from warplens.kernel_lab.suggesting.explanations import EXPLANATIONS
from warplens.kernel_lab.suggesting.records import Draft, Situation
from warplens.kernel_lab.suggesting.thresholds import THRESHOLDS
from warplens.model.rule import RuleSet

CHECKS: Final[Mapping[str, Callable[[Situation], Iterator[Draft]]]] = {
    "WK101": config_rules.spills,
    "WK102": access_rules.narrow_accesses,
    "WK103": matrix_rules.matrix_unit,
    "WK104": matrix_rules.pipelining,
    "WK105": matrix_rules.conversions_in_loops,
    "WK106": access_rules.bank_conflicts,
    "WK107": access_rules.masks,
    "WK108": config_rules.low_occupancy,
    "WK109": config_rules.waves,
    "WK110": config_rules.tile_size,
}
RULES: Final = RuleSet(CHECKS, EXPLANATIONS, THRESHOLDS)
