"""Where in the user's code some GPU work comes from: the line and the module that account for most of its time."""

from __future__ import annotations

import re

import msgspec
import numpy as np

from warplens.analyses.shared import shared
from warplens.analyses.work.modules import line_context, module_context, module_paths
from warplens.analyses.workspace import Workspace
from warplens.model.arrays import numbered
from warplens.model.trace import Ints
from warplens.model.user_code import FRAME

INSTANCE = re.compile(r"_\d+(?=/|$)")
BUILT_IN = re.compile(r"<built-in (?:method|function) (\w+) of (\S+) object at 0x[0-9a-f]+>")


class Places(msgspec.Struct, frozen=True):
    """Per group a `file:line function` and a module path; empty where it is not recorded."""

    lines: list[str]
    modules: list[str]


def places_of(work: Workspace, group: Ints, count: int) -> Places:
    """The places of `count` groups, given for each GPU event the group it belongs to (-1 for none)."""
    names, events = work.trace.names, _event_places(work)
    lines = [place_text(names[code]) if code >= 0 else "" for code in _most(work, group, events.lines, count)]
    return Places(lines, [events.module_texts[code] for code in _most(work, group, events.modules, count)])


class Place(msgspec.Struct, frozen=True):
    line: str
    module: str


def place_of_rows(work: Workspace, rows: Ints) -> Place:
    """The place of some GPU events: rows of `work.gpu`."""
    names, events, duration = work.trace.names, _event_places(work), work.gpu["dur_ns"].to_numpy()[rows]
    line, module = (_most_of(codes[rows], duration) for codes in (events.lines, events.modules))
    return Place(place_text(names[line]) if line >= 0 else "", events.module_texts[module])


class _EventPlaces(msgspec.Struct, frozen=True):
    """For each GPU event the name code of its line and the number of its module, -1 for none; the modules' texts."""

    lines: Ints
    modules: Ints
    module_texts: list[str]


@shared
def _event_places(work: Workspace) -> _EventPlaces:
    row = line_context(work).row
    line = np.where(row >= 0, work.trace.ints("name").astype(np.int64)[np.maximum(row, 0)], -1)
    # Modules that differ only in their instance's number are one place: Block_* for Block_0 … Block_11.
    patterns = {path: pattern_of(path) for path in set(module_paths(work).values())}
    paths = {call: patterns[path] for call, path in module_paths(work).items()}
    number_of = {text: number for number, text in enumerate(dict.fromkeys(paths.values()))}
    calls, call_of_event = numbered(module_context(work).row)
    module = np.array([number_of.get(paths.get(call, ""), -1) for call in calls.tolist()], np.int64)[call_of_event]
    return _EventPlaces(line, module, [*number_of, ""])


def _most(work: Workspace, group: Ints, code: Ints, count: int) -> list[int]:
    """Per group the code that takes most of its time, -1 where none does."""
    known = (code >= 0) & (group >= 0)
    codes = int(code.max(initial=0)) + 1
    pairs, pair_of = numbered(group[known].astype(np.int64) * codes + code[known])
    time = np.bincount(pair_of, work.gpu["dur_ns"].to_numpy()[known])
    most = np.full(count, -1, np.int64)
    order = np.lexsort((-pairs, time))  # what comes last stays: most time, then the least code
    most[pairs[order] // codes] = pairs[order] % codes
    return most.tolist()  # type: ignore[no-any-return]


def _most_of(code: Ints, duration: Ints) -> int:
    """The code that takes most of the time, the least of several; -1 where there is none."""
    known = code >= 0
    codes, number = numbered(code[known])
    return int(codes[np.bincount(number, duration[known]).argmax()]) if len(codes) else -1


def pattern_of(path: str) -> str:
    """A module path without its instances' numbers.

    >>> pattern_of("GPT_0/Block_11/MLP_11")
    'GPT/Block_*/MLP_*'
    """
    outer, _, inner = path.partition("/")
    return INSTANCE.sub("", outer) + ("/" + INSTANCE.sub("_*", inner) if inner else "")


def place_text(frame: str) -> str:
    """A profiler's frame name as people and editors write places.

    >>> place_text("model.py(12): forward"), place_text("<built-in method transpose of Tensor object at 0x7f7c2f0c>")
    ('model.py:12 forward', 'transpose of Tensor')
    """
    if built_in := BUILT_IN.fullmatch(frame):
        return f"{built_in[1]} of {built_in[2]}"
    match = FRAME.fullmatch(frame)
    return f"{match['file']}:{match['line']} {match['function']}" if match else frame
