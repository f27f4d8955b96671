"""Which step an optimizer takes: fused, or foreach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from warplens_run.base.errors import WarplensError
from warplens_run.trying.fixes.protocol import live, optimizer_module

FUSED: Final = "fused"
FOREACH: Final = "foreach"
SCALES_ITSELF: Final = "_step_supports_amp_scaling"
"""A fused step divides gradients by a GradScaler's factor itself."""


class OptimizerStep:
    """Optimizers that have such a step take it; their state stays, where that step needs it."""

    needs_op = ""

    def __init__(self, torch: Any, kind: str = FUSED) -> None:
        self.name = f"{kind} optimizer"
        self._torch, self._kind = torch, kind
        self._own: list[tuple[Any, list[dict[str, Any]]]] = []
        """While it is on: each optimizer, with the choices of its groups without the fix."""
        self._scaling: list[Any] = []
        """Those that are marked as scaling gradients themselves."""

    def switch(self, on: bool) -> None:
        if on:
            self._switch_on()
            return
        for optimizer, own in self._own:
            for group, before in zip(optimizer.param_groups, own, strict=False):
                self._take(optimizer, group, before)
        for optimizer in self._scaling:
            vars(optimizer).pop(SCALES_ITSELF, None)
        self._own, self._scaling = [], []

    def _switch_on(self) -> None:
        optimizers = [one for one in live(self._torch.optim.Optimizer) if self._has_it(one)]
        if not optimizers:
            raise WarplensError(f"no optimizer of the program has a {self._kind} step")
        chosen = [one for one in optimizers if not all(self._takes_it(group) for group in one.param_groups)]
        if not chosen:
            raise WarplensError(f"the program's optimizers take their {self._kind} step already")
        choice = {FUSED: self._kind == FUSED, FOREACH: self._kind == FOREACH}
        for optimizer in chosen:
            own = [{name: group.get(name) for name in (FUSED, FOREACH)} for group in optimizer.param_groups]
            self._own.append((optimizer, own))
            for group in optimizer.param_groups:
                self._take(optimizer, group, choice)
            if self._kind == FUSED and SCALES_ITSELF not in vars(optimizer):
                setattr(optimizer, SCALES_ITSELF, True)
                self._scaling.append(optimizer)

    def _has_it(self, optimizer: Any) -> bool:
        return bool(optimizer.param_groups) and all(self._kind in group for group in optimizer.param_groups)

    def _takes_it(self, group: Mapping[str, Any]) -> bool:
        if group.get(self._kind) is not None:
            return bool(group[self._kind])
        is_open = self._kind == FOREACH and not group.get(FUSED)
        return is_open and _takes_foreach_unasked(group)

    def _take(self, optimizer: Any, group: dict[str, Any], choice: Mapping[str, Any]) -> None:
        group.update({name: value for name, value in choice.items() if name in group})
        _move_counts(optimizer, group, is_fused=bool(group.get(FUSED)))


def _takes_foreach_unasked(group: Mapping[str, Any]) -> bool:
    """What PyTorch chooses where the program does not."""
    choose = getattr(optimizer_module(), "_default_to_fused_or_foreach", None)
    return choose is not None and bool(choose(group["params"], bool(group.get("differentiable")), False)[1])


def _move_counts(optimizer: Any, group: Mapping[str, Any], *, is_fused: bool) -> None:
    """A fused step has its counts of steps where the parameters are, the others on the host."""
    for parameter in group["params"]:
        state = optimizer.state.get(parameter, {})
        if "step" in state and hasattr(state["step"], "to") and not group.get("capturable"):
            state["step"] = state["step"].to(parameter.device if is_fused else "cpu")
