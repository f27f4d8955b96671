"""A call tree as a file: a flame graph, or its rows in any form that a report has."""

from __future__ import annotations

from collections.abc import Callable

from warplens.errors import UsageError
from warplens.model.table import Table
from warplens.model.tree import Tree
from warplens.outputs.document import Document
from warplens.outputs.files import Target, plan_outputs, write
from warplens.outputs.flamegraph import FORMATS, FlamegraphTarget, plan_flamegraph, write_flamegraph
from warplens.outputs.flamegraph_svg import FlameLook
from warplens.outputs.registry import OUTPUTS

PAGE = "html"
"""A page holds a whole report, not one table."""
TreeTarget = Target | FlamegraphTarget


def plan_tree_file(path: str, *, force: bool) -> TreeTarget:
    """The target a path asks for, or a `UsageError` before anything is computed."""
    if path.endswith(tuple(FORMATS)):
        return plan_flamegraph(path, force=force)
    tables = tuple(output.suffix for output in OUTPUTS if not output.directory and output.name != PAGE)
    if not path.lower().endswith(tables):
        raise UsageError(f"cannot tell what to write to {path!r}", hint=f"end it in {' or '.join((*FORMATS, *tables))}")
    (target,) = plan_outputs([path], tables="csv", force=force, names=["tree"])
    return target


def is_picture(target: TreeTarget) -> bool:
    return isinstance(target, FlamegraphTarget)


def write_tree_file(
    target: TreeTarget,
    tree: Tree,
    name: str,
    *,
    look: Callable[[], FlameLook],
    rows: Callable[[], Table],
) -> None:
    """Write a tree, with what only one of the two forms needs made on demand."""
    if isinstance(target, FlamegraphTarget):
        write_flamegraph(target, tree, name=name, look=look())
    else:
        write(target, Document(f"Warplens call tree: {name}", name, {}, [rows()]))
