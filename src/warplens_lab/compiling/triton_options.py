"""The options that the backends of the installed Triton take, read from their text: importing Triton takes a second."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from warplens_lab.compiling.records import OptionValue
from warplens_run.base.errors import UsageError

FALLBACK: Final = {
    **dict.fromkeys(("num_warps", "num_stages", "num_ctas", "maxnreg", "waves_per_eu", "kpack"), "int"),
    "matrix_instr_nonkdim": "int",
    **dict.fromkeys(("launch_pdl", "launch_cooperative_grid", "enable_fp_fusion"), "bool"),
}
"""What every version from 3.6 on takes, for where its text is not to be had."""
NOT_SET: Final = ("arch", "backend_name", "warp_size", "ptx_version")
"""Fields that follow from the target."""
KINDS: Final = ("int", "bool", "float", "str")
_TRUTH: Final = {"true": True, "1": True, "false": False, "0": False}


@cache
def option_kinds() -> Mapping[str, str]:
    """By name: the kind of value that the option takes."""
    kinds: dict[str, str] = {}
    for file in _compilers():
        try:
            kinds |= dict(_fields(ast.parse(file.read_bytes())))
        except (OSError, SyntaxError, ValueError):
            continue
    return {**FALLBACK, **kinds}


def is_option_name(name: str) -> bool:
    return name in option_kinds()


def parse_option(name: str, text: str) -> OptionValue:
    """
    >>> parse_option("num_warps", "8"), parse_option("launch_pdl", "true")
    (8, True)
    """
    kind = option_kinds()[name]
    if kind == "bool":
        if text.lower() not in _TRUTH:
            raise UsageError(f"{name} is True or False, not {text!r}")
        return _TRUTH[text.lower()]
    if kind == "str":
        return text
    try:
        return float(text) if kind == "float" else int(text)
    except ValueError:
        raise UsageError(f"{name} is a number, not {text!r}") from None


def _compilers() -> Iterator[Path]:
    try:
        spec = find_spec("triton")
    except (ImportError, ValueError):
        return
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield from sorted(Path(folder).glob("backends/*/compiler.py"))


def _fields(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The fields of the option classes, which are dataclasses, that a text can give a value."""
    for node in tree.body:
        if not (isinstance(node, ast.ClassDef) and node.name.endswith("Options")):
            continue
        for field in node.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                kind = _kind(ast.unparse(field.annotation))
                if kind and field.target.id not in NOT_SET:
                    yield field.target.id, kind


def _kind(annotation: str) -> str:
    """
    >>> _kind("Optional[int]"), _kind("str | Tuple[Tuple[str, str], ...]"), _kind("Tuple[str]")
    ('int', 'str', '')
    """
    first = annotation.removeprefix("Optional[").removesuffix("]").partition("|")[0].strip()
    return first if first in KINDS else ""
