"""The call path in an HLO instruction's metadata, in the order in which PyTorch's profiler would nest it.

Python frames → JAX's scopes (annotations) → the primitive → the HLO instruction (both ops) → the kernel. `jvp(X)` is
the forward pass through the scope X and becomes X; `transpose(jvp(X))` is the backward pass through it and becomes X
with a mark "(backward)" below the scopes, so that both passes share the nodes of the user's code.

>>> [name for _, name in path_of("jit(step)/transpose(jvp(layer0))/attn/dot_general")]
['jit(step)', 'layer0', 'attn', '(backward)', 'dot_general']
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from warplens.model.kinds import BACKWARD
from warplens.readers.xplane.hlo import HloOrigin

MOST_CHARS: Final = 4_096
"""Of an `op_name`: each transformation that is taken off costs the length of what is inside."""
Path = tuple[tuple[str, str], ...]
TRANSFORM: Final = re.compile(r"(?P<name>\w+)\((?P<inside>.*)\)", re.DOTALL)
DERIVATIVES: Final = ("jvp", "transpose")
BACKWARD_MARK: Final = ("other", BACKWARD)
"""What stands between a forward scope and the backward work in it; see passes/context.py."""


def callers_of(origin: HloOrigin) -> Path:
    """Kind and name of each caller of an instruction, outermost first."""
    return (*(("python", frame) for frame in origin.frames), *path_of(origin.op_name))


@lru_cache(maxsize=4096)
def path_of(op_name: str) -> Path:
    """The scopes and the primitive of an `op_name`; none where it is only an argument's name."""
    parts = _parts(op_name[:MOST_CHARS])
    if len(parts) < 2:
        return ()
    has_primitive = TRANSFORM.fullmatch(parts[-1]) is None
    unwrapped = [_without_derivatives(part) for part in (parts[:-1] if has_primitive else parts)]
    path = [("annotation", scope) for scope, _ in unwrapped if scope]
    if any(is_backward for _, is_backward in unwrapped):
        path.append(BACKWARD_MARK)
    return (*path, ("op", parts[-1])) if has_primitive and parts[-1] else tuple(path)


def _parts(op_name: str) -> list[str]:
    """Split at the slashes that stand in no parentheses."""
    parts, depth = [""], 0
    for piece in re.split(r"([/()])", op_name):
        depth += (piece == "(") - (piece == ")")
        if piece == "/" and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts if depth == 0 else op_name.split("/")


def _without_derivatives(scope: str) -> tuple[str, bool]:
    """A scope without the transformations that differentiate it, and whether it is the backward pass."""
    names = []
    while (match := TRANSFORM.fullmatch(scope)) is not None:
        names.append(match["name"])
        scope = match["inside"]
    for name in reversed(names):
        if name not in DERIVATIVES:
            scope = f"{name}({scope})" if scope else ""
    return scope, "transpose" in names
