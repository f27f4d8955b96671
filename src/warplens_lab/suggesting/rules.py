"""The rules on kernels: facts of a compilation → drafts of suggestions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from warplens.model.rule import RuleSet
from warplens_lab.suggesting import access_rules, config_rules, cuda_rules, matrix_rules
from warplens_lab.suggesting.explanations import EXPLANATIONS
from warplens_lab.suggesting.records import Draft, Situation
from warplens_lab.suggesting.thresholds import THRESHOLDS

Check = Callable[[Situation], Iterator[Draft]]


def _by_language(triton: Check, cuda: Check) -> Check:
    """The same finding has another cause and remedy in CUDA C++."""
    return lambda situation: (cuda if situation.facts.is_cuda else triton)(situation)


CHECKS: Final[Mapping[str, Check]] = {
    "WK101": _by_language(config_rules.spills, cuda_rules.spills),
    "WK102": _by_language(access_rules.narrow_accesses, cuda_rules.narrow_accesses),
    "WK103": matrix_rules.matrix_unit,
    "WK104": matrix_rules.pipelining,
    "WK105": matrix_rules.conversions_in_loops,
    "WK106": _by_language(access_rules.bank_conflicts, cuda_rules.bank_conflicts),
    "WK107": _by_language(access_rules.masks, cuda_rules.nothing),
    "WK108": _by_language(config_rules.low_occupancy, cuda_rules.low_occupancy),
    "WK109": config_rules.waves,
    "WK110": _by_language(config_rules.tile_size, cuda_rules.too_large),
    "WK121": cuda_rules.divergence,
    "WK122": cuda_rules.scattered_accesses,
    "WK123": cuda_rules.parted_barriers,
    "WK124": cuda_rules.unmet_barriers,
}
RULES: Final = RuleSet(CHECKS, EXPLANATIONS, THRESHOLDS)
