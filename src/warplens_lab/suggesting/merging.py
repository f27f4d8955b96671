"""One suggestion per cause: those of several lines, or of several slices of one tile, with the same remedy are one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Final

from warplens_lab.facts.records import SourcePlace
from warplens_lab.suggesting.records import Suggestion

MOST_EVIDENCE: Final = 3
MOST_LINES: Final = 8


def one_per_cause(suggestions: Sequence[Suggestion]) -> list[Suggestion]:
    """In the order of the first of each cause."""
    return _merged(_merged(suggestions, _remedy), _line)


def _remedy(suggestion: Suggestion) -> Hashable:
    """The change that was compiled, else the advice."""
    change = suggestion.counterfactual.change if suggestion.counterfactual else ""
    return suggestion.code, change or suggestion.advice, suggestion.grid


def _line(suggestion: Suggestion) -> Hashable:
    """Of one line a rule says one thing, unless other changes help other parts of it."""
    change = suggestion.counterfactual.change if suggestion.counterfactual else ""
    at = (suggestion.source.file, suggestion.source.line) if suggestion.source else id(suggestion)
    return suggestion.code, at, change


def _merged(suggestions: Sequence[Suggestion], cause: Callable[[Suggestion], Hashable]) -> list[Suggestion]:
    groups: dict[Hashable, list[Suggestion]] = {}
    for suggestion in suggestions:
        groups.setdefault(cause(suggestion), []).append(suggestion)
    return [_one(group) if len(group) > 1 else group[0] for group in groups.values()]


def _one(group: Sequence[Suggestion]) -> Suggestion:
    first = group[0]
    places = dict.fromkeys(place for suggestion in group for place in suggestion.places)
    evidence = list(dict.fromkeys(suggestion.evidence for suggestion in group))
    more = len(evidence) - MOST_EVIDENCE
    shown = [*evidence[:MOST_EVIDENCE], *([f"and {more} more like these"] if more > 0 else [])]
    return replace(
        first,
        others=tuple(place for place in places if place != first.source),
        place=places_text(tuple(places)) or first.place,
        evidence="; ".join(shown),
        targets=tuple(dict.fromkeys(target for suggestion in group for target in suggestion.targets)),
    )


def places_text(places: Sequence[SourcePlace]) -> str:
    """
    >>> places_text([SourcePlace("a/k.py", 9), SourcePlace("a/k.py", 12), SourcePlace("a/k.py", 9, 4)])
    'k.py:9, 12'
    """
    by_file: dict[str, list[int]] = {}
    for place in places:
        by_file.setdefault(PurePath(place.file).name, []).append(place.line)
    texts = []
    for file, lines in by_file.items():
        distinct = sorted(set(lines))
        more = f" and {len(distinct) - MOST_LINES} more" if len(distinct) > MOST_LINES else ""
        texts.append(f"{file}:{', '.join(map(str, distinct[:MOST_LINES]))}{more}")
    return "; ".join(texts)
