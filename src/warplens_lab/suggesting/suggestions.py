"""Suggestions from a kernel's facts, with stable codes; a change of config is compiled to show its effect.

A rule reads facts and drafts. All changes that the drafts propose are compiled together. A draft whose changes do not
help is dropped or kept without one, as it says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from warplens_lab.compiling.targets import TARGETS
from warplens_lab.facts.records import KernelFacts
from warplens_lab.suggesting import config_rules
from warplens_lab.suggesting.counterfactual import Change, Counterfactual, Recompile, counterfactual
from warplens_lab.suggesting.merging import one_per_cause, places_text
from warplens_lab.suggesting.records import Draft, Situation, Suggestion, unit_of
from warplens_lab.suggesting.rules import RULES

__all__ = ["Suggestion", "suggest", "wave_suggestions"]


def suggest(
    facts: KernelFacts,
    *,
    recompile: Recompile | None = None,
    grid: Sequence[int] | None = None,
    card: str | None = None,
    free: frozenset[str] | None = None,
    is_test_data: bool = False,
) -> list[Suggestion]:
    """What to change, in the order of the codes, one entry per cause.

    `grid` and `card` are for the count of waves (WK109). `free` names the constexprs that may have other values.
    `is_test_data` says that the grid is a script's own, which may be smaller than what the kernel is for.
    """
    if not facts.is_compiled:
        return []
    situation = Situation(facts, tuple(grid) if grid else None, card, free, is_test_data)
    drafts = [draft for rule in RULES for draft in rule.check(situation)]
    after: Mapping[Change, KernelFacts] = {}
    if recompile:
        after = _compiled(drafts, recompile, {})
        drafts = [replace(draft, changes=draft.changes + draft.further(_helping(draft, after))) for draft in drafts]
        after = _compiled(drafts, recompile, after)
    suggestions = (_suggestion(draft, facts, after) for draft in drafts)
    return one_per_cause([suggestion for suggestion in suggestions if suggestion is not None])


def wave_suggestions(facts: KernelFacts, grid: Sequence[int], card: str | None = None) -> list[Suggestion]:
    """WK109 alone, for a grid that is known only after the rest: that of a profile."""
    if not facts.is_compiled:
        return []
    situation = Situation(facts, tuple(grid), card)
    suggestions = (_suggestion(draft, facts, {}) for draft in config_rules.waves(situation))
    return [replace(suggestion, grid=tuple(grid)) for suggestion in suggestions if suggestion is not None]


def _compiled(
    drafts: Sequence[Draft], recompile: Recompile, before: Mapping[Change, KernelFacts]
) -> Mapping[Change, KernelFacts]:
    """The facts with each change of the drafts; those in `before` are not compiled again."""
    changes = list(dict.fromkeys(change for draft in drafts for change in draft.changes if change not in before))
    return {**before, **dict(zip(changes, recompile(changes), strict=True))} if changes else before


def _helping(draft: Draft, after: Mapping[Change, KernelFacts]) -> list[Change]:
    tried = [change for change in draft.changes if change in after]
    return [change for change in tried if after[change].is_compiled and draft.helps(after[change])]


def _suggestion(draft: Draft, facts: KernelFacts, after: Mapping[Change, KernelFacts]) -> Suggestion | None:
    tried = [change for change in draft.changes if change in after]
    helping = _helping(draft, after)
    if tried and not helping and draft.needs_proof:
        return None
    proof: Counterfactual | None = None
    about = draft.changes[0] if draft.changes else Change()
    if helping:
        about = draft.smallest(helping)
        proof = counterfactual(about, facts, after[about])
        advice = _filled(draft, about)
    elif tried:
        listed = "; ".join(change.text() for change in tried)
        advice = draft.otherwise or f"{draft.advice} (compiled without help: {listed})"
    else:
        advice = _filled(draft, about)
    needed = [name for name in draft.unknown if name in about.divisible]
    names = dict.fromkeys([*needed, *draft.unknown])
    return Suggestion(
        code=draft.code,
        title=RULES[draft.code].title.replace("multiprocessor", unit_of(TARGETS[facts.target])),
        compiled_for=facts.target,
        config=facts.config,
        source=draft.place,
        place=places_text([draft.place]) if draft.place else "",
        evidence=draft.evidence.replace("{unknown}", ", ".join(names)),
        advice=advice,
        counterfactual=proof,
        targets=(draft.target,),
    )


def _filled(draft: Draft, change: Change) -> str:
    return draft.advice.replace("{change}", change.text()).replace("{written}", draft.written(change))
