"""A call tree as a file: a flame graph, its rows in any form that a report has, or both on a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from warplens.model.call_paths import CallPaths
from warplens.model.table import Column, Table
from warplens.model.tree import Tree
from warplens.outputs.document import Document, Extras
from warplens.outputs.files import Target, plan_outputs, write
from warplens.outputs.flamegraph import FORMATS, FlamegraphTarget, plan_flamegraph, write_flamegraph
from warplens.outputs.flamegraph_svg import FlameLook
from warplens.outputs.registry import OUTPUTS
from warplens_run.base.errors import UsageError

PAGE = "html"
CATEGORY = Column(
    "kernel_category", "what the kernel does, derived from its name; empty for other nodes", "", pl.String
)
TreeTarget = Target | FlamegraphTarget


def plan_tree_file(path: str, *, force: bool, inputs: Sequence[str] = ()) -> TreeTarget:
    """The target a path asks for, or a `UsageError` before anything is computed."""
    if path.endswith(tuple(FORMATS)):
        return plan_flamegraph(path, force=force, inputs=inputs)
    tables = tuple(dict.fromkeys(output.suffix for output in OUTPUTS if not output.directory))
    if not path.lower().endswith(tables):
        raise UsageError(f"unknown output format: {path!r}", hint=f"end it in {' or '.join((*FORMATS, *tables))}")
    (target,) = plan_outputs([path], tables="csv", force=force, names=["tree"], inputs=inputs)
    return target


def holds_paths(target: TreeTarget) -> bool:
    """Whether a file keeps the paths themselves, with full names, for other programs to open."""
    return isinstance(target, Target) and target.output.name == "hatchet"


def is_picture(target: TreeTarget) -> bool:
    return isinstance(target, FlamegraphTarget)


def write_tree_file(
    target: TreeTarget,
    tree: Tree,
    name: str,
    *,
    look: Callable[[], FlameLook],
    rows: Callable[[], Table],
    paths: Callable[[], CallPaths] | None = None,
    command: str = "warplens tree",
) -> None:
    """Write a tree, with what only some of the forms need made on demand; `command` is what a page says made it."""
    if isinstance(target, FlamegraphTarget):
        write_flamegraph(target, tree, name=name, look=look())
        return
    is_page = target.output.name == PAGE
    content = with_categories(rows(), look().categories) if is_page else rows()
    extras = (lambda: Extras(command=command)) if is_page else None
    write(target, Document(f"Warplens call tree: {name}", name, {}, [content], extras, "paths", paths=paths))


def with_categories(tree: Table, categories: Mapping[str, str]) -> Table:
    """The rows of a tree with the kernels' categories, which a page's flame graph takes its colours from."""
    kernel = pl.col("name").replace_strict(categories, default=None, return_dtype=pl.String)
    category = pl.when(pl.col("kind") == "kernel").then(kernel).alias(CATEGORY.name)
    return Table.from_frame(
        tree.name, tree.meaning, (*tree.columns, CATEGORY), tree.frame.with_columns(category), *tree.notes
    )
