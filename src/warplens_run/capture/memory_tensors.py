"""Addresses of parameters, gradients, optimizer states and buffers, by name: who holds what was allocated.

Modules are noted when they get a submodule or a parameter, optimizers at their steps, both by hooks that PyTorch has
for that; a model that was made before the recording is looked for in the variables of the functions that are running.
An address belongs to a tensor at one time only, so each row has the time at which it was read.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
import weakref
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from types import FrameType
from typing import Any, Final, NamedTuple

MOST_ROWS: Final = 100_000
MOST_VARIABLES: Final = 10_000
"""That are looked at in the functions that are running."""
HOST: Final = -1
NEVER_CALLED: Final = ("ModuleList", "ModuleDict", "ParameterList", "ParameterDict")
"""Modules that only hold others: no call of theirs is in a trace."""


@dataclass(frozen=True)
class TensorRow:
    kind: str
    """parameter, gradient, optimizer or buffer."""
    name: str
    module: str
    state: str
    device: int
    """The GPU's number; -1 for the host."""
    address: int
    bytes: int
    time_ns: int
    classes: str = ""
    """The module by the classes around it, as traces name modules: `GPT/Block_*/Linear_*`."""


class Owner(NamedTuple):
    """The module that has a tensor: by the names of attributes, and by classes."""

    module: str = ""
    classes: str = ""


class NamedTensors:
    """What the program's modules and optimizers hold."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._modules: dict[int, weakref.ref[Any]] = {}
        self._inner: dict[int, weakref.ref[Any]] = {}
        """Modules that are a part of another."""
        self._optimizers: dict[int, weakref.ref[Any]] = {}
        self._gradients: list[TensorRow] = []
        self._handles: list[Any] = []
        self._is_window = False
        self._held: list[TensorRow] = []
        self._names: dict[int, tuple[str, Owner]] = {}

    def watch(self) -> None:
        module = self._torch.nn.modules.module
        optimizer = importlib.import_module("torch.optim.optimizer")
        for owner, name, hook in (
            (module, "register_module_module_registration_hook", self._on_module),
            (module, "register_module_parameter_registration_hook", self._on_parameter),
            (optimizer, "register_optimizer_step_post_hook", self._on_step),
        ):
            register = getattr(owner, name, None)
            if register is not None:
                self._handles.append(register(hook))

    def forget(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def begin_window(self) -> None:
        self._is_window = True

    def collect(self) -> None:
        """Note everything that is held now."""
        now = time.time_ns()
        for label, root in self._roots():
            self._held += self._rows_of_module(label, root, now)
        for optimizer in _alive(self._optimizers):
            self._held += self._rows_of_optimizer(optimizer, now)

    def rows(self) -> list[dict[str, Any]]:
        """Everything that was held when it was collected, and the gradients at each recorded step of an optimizer."""
        self._is_window = False
        gradients = [self._named(row) for row in self._gradients]
        return [asdict(row) for row in _unique([*self._held, *gradients])[:MOST_ROWS]]

    def _on_module(self, module: Any, _: str, submodule: Any) -> None:
        _note(self._modules, module)
        if submodule is not None:
            _note(self._modules, submodule)
            _note(self._inner, submodule)

    def _on_parameter(self, module: Any, _: str, parameter: Any) -> None:
        _note(self._modules, module)

    def _on_step(self, optimizer: Any, *_: Any) -> None:
        """Gradients may be gone by the end of the window, and at each step they may be elsewhere."""
        _note(self._optimizers, optimizer)
        if not self._is_window or len(self._gradients) >= MOST_ROWS:
            return
        now = time.time_ns()
        for parameter in _parameters(optimizer):
            if parameter.grad is not None:
                # Its name is known later: here it is the number of the parameter's object.
                self._gradients += self._row("gradient", str(id(parameter)), Owner(), parameter.grad, now)

    def _named(self, row: TensorRow) -> TensorRow:
        name, owner = self._names.get(int(row.name), ("", Owner()))
        return replace(row, name=name, module=owner.module, classes=owner.classes)

    def _rows_of_module(self, label: str, root: Any, now: int) -> list[TensorRow]:
        rows: list[TensorRow] = []
        for name, parameter in root.named_parameters():
            owner = _owner(label, root, name)
            self._names[id(parameter)] = name, owner
            rows += self._row("parameter", name, owner, parameter, now)
            if parameter.grad is not None:
                rows += self._row("gradient", name, owner, parameter.grad, now)
        for name, buffer in root.named_buffers():
            rows += self._row("buffer", name, _owner(label, root, name), buffer, now)
        return rows

    def _rows_of_optimizer(self, optimizer: Any, now: int) -> list[TensorRow]:
        rows: list[TensorRow] = []
        for number, parameter in enumerate(_parameters(optimizer)):
            unnamed = f"parameter {number}", Owner(type(optimizer).__name__)
            name, owner = self._names.setdefault(id(parameter), unnamed)
            rows += self._row("parameter", name, owner, parameter, now)
            state = optimizer.state.get(parameter, {})
            for key, value in state.items() if isinstance(state, dict) else ():
                rows += self._row("optimizer", name, owner, value, now, state=str(key))
        return rows

    def _row(self, kind: str, name: str, owner: Owner, tensor: Any, now: int, state: str = "") -> Iterator[TensorRow]:
        with contextlib.suppress(Exception):  # of a tensor that has no memory: fake, lazy, not initialised yet
            local = getattr(tensor, "_local_tensor", tensor)
            if isinstance(local, self._torch.Tensor) and local.device.type in ("cuda", "cpu"):
                storage = local.untyped_storage()
                device = local.device.index or 0 if local.device.type == "cuda" else HOST
                if storage.nbytes():
                    place = device, storage.data_ptr(), storage.nbytes()
                    yield TensorRow(kind, name, owner.module, state, *place, now, owner.classes)

    def _roots(self) -> Iterator[tuple[str, Any]]:
        """The outermost modules, each with its class as a name; a second one of a class is `Model#2`."""
        inner = {id(module) for module in _alive(self._inner)}
        roots = {id(module): module for module in _alive(self._modules) if id(module) not in inner}
        inside = {id(module) for root in roots.values() for module in root.modules()}
        found = {id(module): module for module in self._variables() if id(module) not in inside}
        covered = {id(part) for root in found.values() for part in root.modules() if part is not root}
        roots |= {key: module for key, module in found.items() if key not in covered}
        counts: dict[str, int] = {}
        for root in roots.values():
            name = type(root).__name__
            counts[name] = counts.get(name, 0) + 1
            yield name if counts[name] == 1 else f"{name}#{counts[name]}", root

    def _variables(self) -> Iterator[Any]:
        """Modules in the variables of the functions that are running, and of the objects whose methods they are."""
        module_class, optimizer_class = self._torch.nn.Module, self._torch.optim.Optimizer
        left = MOST_VARIABLES
        seen_globals: set[int] = set()
        frame: FrameType | None = sys._getframe()
        while frame is not None and left > 0:
            values = list(frame.f_locals.values())
            if id(frame.f_globals) not in seen_globals:
                seen_globals.add(id(frame.f_globals))
                values += list(frame.f_globals.values())
            owner = frame.f_locals.get("self")
            if owner is not None and owner is not self and not isinstance(owner, module_class):
                values += list(getattr(owner, "__dict__", {}).values())
            for value in values[:left]:
                # Not isinstance: an object of the program's may answer that with code of its own.
                kind = type(value)
                if issubclass(kind, module_class):
                    yield value
                elif issubclass(kind, optimizer_class):
                    _note(self._optimizers, value)
            left -= len(values)
            frame = frame.f_back


def _note(references: dict[int, weakref.ref[Any]], value: Any) -> None:
    known = references.get(id(value))
    if known is None or known() is not value:
        references[id(value)] = weakref.ref(value)


def _alive(references: dict[int, weakref.ref[Any]]) -> list[Any]:
    return [value for reference in list(references.values()) if (value := reference()) is not None]


def _parameters(optimizer: Any) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]


def _owner(label: str, root: Any, name: str) -> Owner:
    """The module that has a parameter, inside of a root."""
    path = name.rpartition(".")[0]
    classes, module = [type(root).__name__], root
    for part in path.split(".") if path else ():
        module = module._modules.get(part) if module is not None else None
        if module is not None and type(module).__name__ not in NEVER_CALLED:
            classes.append(f"{type(module).__name__}_*")
    return Owner(f"{label}.{path}" if path else label, "/".join(classes) if module is not None else "")


def _unique(rows: list[TensorRow]) -> list[TensorRow]:
    """Each address once of a kind and time, the first: tied weights and the optimizer's parameters come again."""
    seen: dict[tuple[str, int, int, int], TensorRow] = {}
    for row in rows:
        seen.setdefault((row.kind, row.device, row.address, row.time_ns), row)
    return list(seen.values())
