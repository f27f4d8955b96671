"""What the verbs about call paths share: which paths, seen how."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from warplens.errors import UsageError

if TYPE_CHECKING:
    from warplens.model.tree import Tree
    from warplens.profiles.opened import Opened


def add_path_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-c", "--context", default="python", help="python, module, op, annotation or full")
    parser.add_argument("-i", "--include", metavar="REGEX", help="only paths that hold a matching name")
    parser.add_argument("-e", "--exclude", metavar="REGEX", help="leave out matching names; their callees move up")
    parser.add_argument("--full-names", action="store_true", help="kernel names as recorded")


class PathFilter:
    """`--include` and `--exclude`, checked before a trace is opened."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._include, self._exclude = _pattern(args.include), _pattern(args.exclude)

    def __call__(self, tree: Tree) -> Tree:
        from warplens.model.tree import keep_paths, without

        if self._exclude is not None:
            tree = without(tree, self._exclude)
        return keep_paths(tree, self._include) if self._include is not None else tree


def kernel_categories(profile: Opened, *, full_names: bool) -> dict[str, str]:
    """The category of each kernel by the name that a tree shows it with."""
    name = "kernel" if full_names else "kernel_short"
    kernels = profile.table("kernels").frame
    return dict(kernels.select(name, "kernel_category").unique().sort(name, "kernel_category").iter_rows())


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(text) if text else None
    except re.error as error:
        raise UsageError(f"bad regular expression {text!r}: {error}") from None
