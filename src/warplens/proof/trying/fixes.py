"""What can be switched on and off while a program runs, by the code of the finding that proposes it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from warplens.errors import UsageError, WarplensError

IMAGE_SIDES: Final = 4
FUSED: Final = "fused"


class Fix(Protocol):
    """A change that can be made and taken back between two steps."""

    name: str

    def switch(self, on: bool) -> None: ...


class Switches:
    """Some of PyTorch's own switches."""

    def __init__(self, name: str, torch: Any, values: Mapping[str, Any]) -> None:
        self.name = name
        self._torch, self._values = torch, values
        self._own: dict[str, Any] = {}
        """What they were before."""

    def switch(self, on: bool) -> None:
        for path, value in self._values.items():
            *parents, last = path.split(".")
            place = self._torch
            for parent in parents:
                place = getattr(place, parent)
            self._own.setdefault(path, getattr(place, last))
            setattr(place, last, value if on else self._own[path])


class FusedOptimizers:
    """Optimizers that have a fused step take it; their state stays, where that step needs it."""

    name = "fused optimizer"

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._own: dict[int, tuple[Any, list[dict[str, Any]]]] = {}
        """By identity: each optimizer, with the choices of its groups before."""

    def switch(self, on: bool) -> None:
        optimizers = [optimizer for optimizer in _live(self._torch.optim.Optimizer) if _has_fused_step(optimizer)]
        if on and not optimizers:
            raise WarplensError("no optimizer of the program has a fused step")
        for optimizer in optimizers:
            self._keep(optimizer)
            _, own = self._own[id(optimizer)]
            for group, before in zip(optimizer.param_groups, own, strict=True):
                group.update({FUSED: True, "foreach": False} if on else before)
                _move_counts(optimizer, group, is_fused=bool(group[FUSED]))

    def _keep(self, optimizer: Any) -> None:
        if id(optimizer) not in self._own:
            chosen = [{name: group.get(name) for name in (FUSED, "foreach")} for group in optimizer.param_groups]
            self._own[id(optimizer)] = (optimizer, chosen)


def _has_fused_step(optimizer: Any) -> bool:
    return bool(optimizer.param_groups) and all(FUSED in group for group in optimizer.param_groups)


def _move_counts(optimizer: Any, group: Mapping[str, Any], *, is_fused: bool) -> None:
    """A fused step has its counts of steps where the parameters are, the others on the host."""
    for parameter in group["params"]:
        state = optimizer.state.get(parameter, {})
        if "step" in state and hasattr(state["step"], "to") and not group.get("capturable"):
            state["step"] = state["step"].to(parameter.device if is_fused else "cpu")


class ChannelsLast:
    """Weights of convolutions with their channels next to each other; what they compute follows them."""

    name = "channels_last"

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def switch(self, on: bool) -> None:
        weights = list(self._weights())
        if on and not weights:
            raise WarplensError("no module of the program convolves images")
        form = self._torch.channels_last if on else self._torch.contiguous_format
        for weight in weights:
            weight.data = weight.data.contiguous(memory_format=form)

    def _weights(self) -> Iterator[Any]:
        for module in _live(self._torch.nn.modules.conv._ConvNd):
            if module.weight.dim() == IMAGE_SIDES:
                yield module.weight


def _live(kind: Any) -> list[Any]:
    """The instances of a class that the program holds. Odd ones warn or fail when asked for their class."""
    return [one for one in gc.get_objects() if issubclass(type(one), kind)]


MAKE: Final[Mapping[str, Callable[[Any], Fix]]] = {
    "WL202": lambda torch: Switches(
        "TF32", torch, {"backends.cuda.matmul.allow_tf32": True, "backends.cudnn.allow_tf32": True}
    ),
    "WL203": lambda torch: Switches("cuDNN benchmark", torch, {"backends.cudnn.benchmark": True}),
    "WL207": ChannelsLast,
    "WL208": FusedOptimizers,
}
REFUSED: Final[Mapping[str, str]] = {
    "WL201": "sizes are part of the program",
    "WL204": "which attention runs is part of the program",
    "WL205": "compiling modules cannot be taken back between two steps",
    "WL206": "types are part of the program",
    "WL301": "what the program does with a value is part of it",
    "WL302": "how data are loaded is part of the program",
}


def fixes_for(codes: Sequence[str], torch: Any) -> list[Fix]:
    """The fixes that these codes stand for; refused with the reason before anything runs."""
    for code in codes:
        if code not in MAKE:
            reason = REFUSED.get(code, "it cannot be switched while a program runs")
            raise UsageError(f"{code} cannot be tried: {reason}", hint=f"can be: {', '.join(MAKE)}")
    return [MAKE[code](torch) for code in dict.fromkeys(codes)]
