"""`torch.compile` of some modules, and the same modules as they are."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

from warplens_run.base.errors import WarplensError
from warplens_run.trying.fixes.protocol import live

COMPILED: Final = "_compiled_call_impl"
"""What `nn.Module.compile` sets, and a module's call looks at first."""
CONTAINERS: Final = ("ModuleList", "ModuleDict")
SHOWN_NAMES: Final = 8


class CompiledModules:
    """Modules by path (`layers`, `layers.*.mlp`) or class (`Block`); without a name those that are in no other.

    Both forms of a module's call are kept, so that it is compiled once and not in every turn.
    """

    needs_op = ""

    def __init__(self, torch: Any, wanted: str = "") -> None:
        self.name = f"torch.compile of {wanted}" if wanted else "torch.compile"
        self._torch, self._wanted = torch, wanted
        self._calls: list[tuple[Any, Any]] = []
        """Each module with its compiled call."""

    def switch(self, on: bool) -> None:
        if on and not self._calls:
            self._calls = [(module, self._torch.compile(module._call_impl)) for module in self._found()]
        for module, compiled in self._calls:
            if on:
                vars(module)[COMPILED] = compiled
            else:
                vars(module).pop(COMPILED, None)

    def _found(self) -> list[Any]:
        roots = list(self._roots())
        if not roots:
            raise WarplensError("the program has no module with parameters")
        found = [module for root in roots for module in (_matching(root, self._wanted) if self._wanted else [root])]
        if not found:
            kinds = sorted({type(part).__name__ for root in roots for part in root.modules()})
            shown = ", ".join(kinds[:SHOWN_NAMES]) + (" …" if len(kinds) > SHOWN_NAMES else "")
            raise WarplensError(f"no module of the program is {self._wanted!r}", hint=f"classes: {shown}")
        for module in found:
            if hasattr(module, "_orig_mod") or vars(module).get(COMPILED) is not None:
                raise WarplensError(f"{type(module).__name__}: the program compiles it already")
        return found

    def _roots(self) -> Iterator[Any]:
        modules = live(self._torch.nn.Module)
        inner = {id(child) for module in modules for child in module.children()}
        for module in modules:
            if id(module) not in inner and any(True for _ in module.parameters()):
                yield module


def _matching(root: Any, wanted: str) -> Iterator[Any]:
    """The outermost that match. A list of modules, which is never called, stands for what is in it."""
    open_modules = [("", root)]
    while open_modules:
        path, module = open_modules.pop()
        names = (path, type(module).__name__)
        if any(fnmatchcase(name, wanted) for name in names if name):
            yield from module.children() if type(module).__name__ in CONTAINERS else [module]
            continue
        open_modules += [(f"{path}.{name}".lstrip("."), child) for name, child in module.named_children()]
