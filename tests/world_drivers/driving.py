"""What the drivers share: a case per function, chosen by the script's argument, whose results equal a reference.

A driver imports kernels, or the functions that launch them, from a checkout on the search path. None of the projects'
text is here.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

Case = Callable[[], None]
MAKING = ("rand", "randn", "zeros", "empty", "empty_like", "ones", "arange", "tensor")


def checkout(project: str) -> Path:
    return Path(os.environ["WARPLENS_WORLD"]) / project


def run(cases: dict[str, Case]) -> None:
    torch.manual_seed(0)
    cases[sys.argv[1]]()


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype, device="cuda")


def close(actual: Any, expected: Any, tolerance: float = 1e-4) -> None:
    pairs = zip(_listed(actual), _listed(expected), strict=True)
    for ours, theirs in pairs:
        torch.testing.assert_close(ours.detach().double(), theirs.detach().double(), rtol=tolerance, atol=tolerance)


def agree(actual: Any, expected: Any, *inputs: Any, tolerance: float = 1e-4, backward: bool = True) -> None:
    """Both functions on the same inputs: equal results and, with `backward`, equal gradients where `actual` has any."""
    rows = []
    for function in (actual, expected):
        own = [_own(value, backward) for value in inputs]
        outputs = _listed(function(*own))
        if backward:
            differentiable = [output for output in outputs if output.requires_grad]
            generator = torch.Generator().manual_seed(1)
            slopes = [torch.randn(output.shape, generator=generator).to(output.dtype) for output in differentiable]
            torch.autograd.backward(differentiable, slopes)
        rows.append(outputs + [value.grad if isinstance(value, torch.Tensor) else None for value in own])
    pairs = [(ours, theirs) for ours, theirs in zip(*rows, strict=True) if ours is not None]
    close([ours for ours, _ in pairs], [theirs for _, theirs in pairs], tolerance)


def bare_package(name: str, folder: Path) -> None:
    """A package whose modules can be imported without what its own `__init__` needs."""
    if name not in sys.modules:
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        package = sys.modules[name] = importlib.util.module_from_spec(spec)
        package.__version__ = "0"  # type: ignore[attr-defined]  # modules ask for it


def definitions(file: Path) -> ModuleType:
    """A script's functions, classes and constants, without what it runs at the end: a tutorial, say."""
    tree = ast.parse(file.read_text())
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    omitted: set[str] = set()
    tree.body = [node for node in tree.body if not _runs(node, own, omitted)]
    name = "tutorial_" + "".join(letter if letter.isalnum() else "_" for letter in file.stem)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    exec(compile(tree, str(file), "exec"), vars(module))
    return module


def _runs(node: ast.stmt, own: set[str], omitted: set[str]) -> bool:
    """Whether a statement of a script computes: it makes tensors, gives arguments to the script's own functions, uses
    what such a one has made, or is a call."""
    if isinstance(node, ast.Expr | ast.Assert | ast.For | ast.With):
        return not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    if not isinstance(node, ast.Assign | ast.If):
        return False
    inner = list(ast.walk(node.value)) if isinstance(node, ast.Assign) else _tested_or_run(node)
    names = {part.id for part in inner if isinstance(part, ast.Name)}
    calls = [part for part in inner if isinstance(part, ast.Call) and part.args]
    computes = (
        any(isinstance(part, ast.Attribute) and part.attr in MAKING for part in inner)
        or any(isinstance(call.func, ast.Name) and call.func.id in own for call in calls)
        or bool(names & {*omitted, "__name__"})
    )
    if computes and isinstance(node, ast.Assign):
        omitted |= {part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    return computes


def _tested_or_run(node: ast.If) -> list[ast.AST]:
    """Of a branch that makes tensors of its own for what it imports, the test alone."""
    body = [part for part in node.body if not isinstance(part, ast.Import | ast.ImportFrom)]
    return list(ast.walk(node.test if len(body) < len(node.body) else node))


def _listed(value: Any) -> list[Any]:
    return [part for part in value if part is not None] if isinstance(value, tuple | list) else [value]


def _own(value: Any, backward: bool) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    copy = value.detach().clone()
    return copy.requires_grad_() if backward and copy.is_floating_point() else copy
