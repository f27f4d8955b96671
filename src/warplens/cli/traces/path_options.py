"""Options of the verbs about call paths: which callers are shown, and which paths are kept."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from warplens.model.tree import Tree, keep_paths, without
from warplens_run.base.errors import UsageError

if TYPE_CHECKING:
    from warplens.profiles.opened import Opened


def add_path_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-c", "--context", default="python", metavar="KIND",
                        help="callers to show: python (default), module, op, annotation or full")  # fmt: skip
    parser.add_argument("-i", "--include", metavar="REGEX", help="only paths that contain a matching name")
    parser.add_argument("-e", "--exclude", metavar="REGEX", help="omit matching names; their callees move up")
    parser.add_argument("--full-names", action="store_true", help="full kernel names as recorded")


class PathFilter:
    """`--include` and `--exclude`, checked before a trace is opened."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._include, self._exclude = compiled(args.include), compiled(args.exclude)

    def __call__(self, tree: Tree) -> Tree:
        if self._exclude is not None:
            tree = without(tree, self._exclude)
        return keep_paths(tree, self._include) if self._include is not None else tree


def kernel_categories(profile: Opened, *, full_names: bool) -> dict[str, str]:
    """The category of each kernel by the name that a tree shows it with."""
    name = "kernel" if full_names else "kernel_short"
    kernels = profile.table("kernels").frame
    return dict(kernels.select(name, "kernel_category").unique().sort(name, "kernel_category").iter_rows())


def compiled(text: str | None) -> re.Pattern[str] | None:
    """The regular expression of an option; None where it is not given."""
    try:
        return re.compile(text) if text else None
    except re.error as error:
        raise UsageError(f"{text!r} is not a valid regular expression: {error}") from None
