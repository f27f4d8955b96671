"""Modules import each other in one direction, type-checking imports and those inside functions included."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter

from support import ROOT

SOURCE = ROOT / "src"
FILES = {".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in SOURCE.glob("warplens*/**/*.py")}
MODULES = {name for name in FILES if not name.endswith("__init__")}
"""The faces of packages name what is in them, and are not counted."""


def imported(name: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(FILES[name].read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found & (MODULES - {name})


def test_no_module_imports_one_that_leads_back_to_it() -> None:
    graph = {name: imported(name) for name in MODULES}
    assert len(graph) > 900
    assert sum(map(len, graph.values())) > 4000
    TopologicalSorter(graph).prepare()  # a `CycleError` names the modules
