"""Modules that the user names with `--import`, and the ops that they add to PyTorch's registry."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from warplens_run.base.errors import WarplensError
from warplens_run.replay.faults import one_line

_imported: set[str] = set()
"""PyTorch has one registry of ops in a process, so this is the process's too."""


def import_modules(modules: Sequence[str]) -> None:
    """Imports them; from then on the namespaces and ops that they define may be called."""
    before = _ops()
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as error:
            raise WarplensError(f"{name} cannot be imported: {one_line(error)}") from error
    _imported.update(added(before, _ops()))


def imported() -> frozenset[str]:
    return frozenset(_imported)


def added(before: frozenset[str], after: frozenset[str]) -> set[str]:
    """Namespaces that are new, and new ops of namespaces that are not.

    >>> sorted(added(frozenset(["aten::mm"]), frozenset(["aten::mm", "aten::mine", "own::a", "own::b"])))
    ['aten::mine', 'own']
    """
    known = {op.partition("::")[0] for op in before}
    spaces = ((op, op.partition("::")[0]) for op in after - before)
    return {op if space in known else space for op, space in spaces}


def _ops() -> frozenset[str]:
    import torch

    return frozenset(name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names())
