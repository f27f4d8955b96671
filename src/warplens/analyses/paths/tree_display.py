"""The tree of a profile as it is shown: which callers, short names or not, and how frames are spelled."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from warplens.analyses.paths.workspace import PathWorkspace
from warplens.analyses.trees.call_tree import CONTEXTS
from warplens.model.kinds import NONE
from warplens.model.tree import Tree, build_tree, without
from warplens.model.user_code import FRAME
from warplens_run.base.errors import UsageError

CALLERS: Final = ("python", "module", "annotation", "op")
"""Kinds that a context may omit; kernels and their contents are always kept."""
NEVER: Final = re.compile(r"(?!)")
DROPPED: Final = "\0"
FRAME_FORMATS: Final[dict[str, Callable[[re.Match[str]], str]]] = {
    # format: a frame's name
    "full": lambda frame: frame[0],
    "file_function_line": lambda frame: f"{_file(frame)}({frame['line']}): {frame['function']}",
    "function_line": lambda frame: f"({frame['line']}): {frame['function']}",
    "file_function": lambda frame: f"{_file(frame)}: {frame['function']}",
}


def shown_tree(work: PathWorkspace, context: str = "python", *, short_names: bool = True) -> Tree:
    """The tree with the callers that a context asks for; `context`: python, module, op, annotation or full."""
    if context not in CONTEXTS:
        raise UsageError(f"no context {context!r}", hint=f"one of: {', '.join(CONTEXTS)}")
    tree, kept = work.tree, CONTEXTS[context]
    short = work.short_names if short_names else {}
    names = [
        DROPPED if kind in CALLERS and kind not in kept else short.get(name, name) if kind == "kernel" else name
        for name, kind in zip(tree.name, tree.kind, strict=True)
    ]
    return without(replace(tree, name=names), re.compile(f"^{DROPPED}$"))


def with_frames(tree: Tree, spelling: str) -> Tree:
    """The tree with Python frames spelled in one of `FRAME_FORMATS`; siblings that are then equal become one."""
    if spelling not in FRAME_FORMATS:
        raise UsageError(f"no format {spelling!r}", hint=f"one of: {', '.join(FRAME_FORMATS)}")
    if spelling == "full":
        return tree
    names = [
        FRAME_FORMATS[spelling](frame) if kind in ("python", "line") and (frame := FRAME.fullmatch(name)) else name
        for name, kind in zip(tree.name, tree.kind, strict=True)
    ]
    return without(replace(tree, name=names), NEVER)


def without_subtrees(tree: Tree, pattern: re.Pattern[str]) -> Tree:
    """The tree less the nodes whose names match and all that is below them: what they had leaves every total."""
    gone = np.zeros(len(tree), bool)
    for node in range(1, len(tree)):
        gone[node] = gone[tree.parent[node]] or pattern.search(tree.name[node]) is not None
    rows = np.flatnonzero(~gone)
    number = np.cumsum(~gone) - 1
    parent = np.where(tree.parent[rows] >= 0, number[tree.parent[rows]], NONE)
    names, kinds = [tree.name[row] for row in rows.tolist()], [tree.kind[row] for row in rows.tolist()]
    rest = build_tree(parent, names, kinds, tree.self_ns[rows], tree.self_count[rows], tree.weight)
    return rest.with_metrics({name: values[rows] for name, values in tree.metrics.items()})


def _file(frame: re.Match[str]) -> str:
    return frame["file"].replace("\\", "/").rpartition("/")[2]
