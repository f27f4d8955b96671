"""Products in bf16, and casts of weights that are kept until the weights change."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from warplens_run.base.errors import WarplensError
from warplens_run.trying.fixes.protocol import optimizer_module, replaced

INSIDE = "a step ends inside the program's own autocast, where no other can begin"


class Bf16Autocast:
    """Autocast to bf16 from one step to the next, but for backward passes and optimizers: as PyTorch advises.

    Where the program has autocast regions of its own, these use bf16 too; regions that it switches off stay off. A
    GradScaler does no harm: gradients in bf16 have the range of fp32.
    """

    name = "bf16 autocast"
    needs_op = ""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._region: Any = None
        self._is_on = False
        self._thread = 0
        self._undo: list[Callable[[], None]] = []
        # Before the program runs: hooks cannot be added while one of them is called.
        optim = optimizer_module()
        optim.register_optimizer_step_pre_hook(lambda *_: self._leave())
        optim.register_optimizer_step_post_hook(lambda *_: self._enter())

    def switch(self, on: bool) -> None:
        if on:
            self._check()
        self._is_on = on
        if on:
            self._thread = threading.get_ident()
            autograd, autocast = self._torch.autograd, self._torch.amp.autocast_mode.autocast
            self._undo = [
                replaced(autograd, "backward", self._outside),
                replaced(autograd, "grad", self._outside),
                replaced(autocast, "__enter__", self._with_bf16),
            ]
            self._enter()
        else:
            self._leave()
            while self._undo:
                self._undo.pop()()

    def _check(self) -> None:
        if depth(self._torch):
            raise WarplensError(f"{self.name}: {INSIDE}")
        if self._device == "cuda" and not self._torch.cuda.is_bf16_supported():
            raise WarplensError(f"{self.name}: this GPU does not have bf16")

    def _enter(self) -> None:
        if self._is_on and self._region is None and self._thread == threading.get_ident():
            self._region = self._torch.autocast(self._device, dtype=self._torch.bfloat16)
            self._region.__enter__()

    def _leave(self) -> None:
        """Casts of weights are forgotten as well: the optimizer changes what they were made of."""
        # Regions are left in the order in which they were entered: not ours while one of the program's is open.
        if self._region is not None and self._thread == threading.get_ident() and depth(self._torch) == 1:
            self._region.__exit__(None, None, None)
            self._region = None

    def _outside(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._leave()
            try:
                return function(*args, **kwargs)
            finally:
                self._enter()

        return call

    def _with_bf16(self, enter: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(enter)
        def enter_with_bf16(region: Any) -> Any:
            entered = enter(region)
            if region._enabled and region.device == self._device:
                self._torch.set_autocast_dtype(self._device, self._torch.bfloat16)
            return entered

        return enter_with_bf16


class WeightsCastOnce:
    """What autocast makes of a weight serves until an optimizer changes the weights, and not in one region only.

    So a step of several forward passes (gradient accumulation) casts its weights once.
    """

    name = "weights cast once a step"
    needs_op = ""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._is_on = False
        self._has_regions = False
        self._stop_looking: Callable[[], None] = replaced(torch.amp.autocast_mode.autocast, "__enter__", self._looking)
        optimizer_module().register_optimizer_step_post_hook(lambda *_: self._forget())

    def switch(self, on: bool) -> None:
        if on:
            self._check()
            self._torch.autocast_increment_nesting()
        elif self._is_on:
            self._torch.autocast_decrement_nesting()
            self._torch.clear_autocast_cache()
        self._is_on = on

    def _check(self) -> None:
        if depth(self._torch):
            raise WarplensError(f"{self.name}: {INSIDE}")
        if not self._has_regions:
            self._stop_looking()
            raise WarplensError("the program does not use autocast, which casts weights")
        if not keeps_gradients(self._torch):
            raise WarplensError("this PyTorch also keeps casts that were made without gradients, which would lose some")

    def _looking(self, enter: Callable[..., Any]) -> Callable[..., Any]:
        """Until the program enters a region for the first time."""

        @functools.wraps(enter)
        def found(region: Any) -> Any:
            if not self._has_regions:
                self._has_regions = True
                self._stop_looking()
            return enter(region)

        return found

    def _forget(self) -> None:
        if self._is_on:
            self._torch.clear_autocast_cache()


def depth(torch: Any) -> int:
    """How many autocast regions are open here."""
    torch.autocast_increment_nesting()
    return int(torch.autocast_decrement_nesting())


def keeps_gradients(torch: Any) -> bool:
    """Whether a weight that was first cast without gradients still gets some. Older PyTorch loses them."""
    weight = torch.ones(1, 1, requires_grad=True)
    with torch.enable_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.no_grad():
            torch.mm(weight, weight)
        return bool(torch.mm(weight, weight).requires_grad)
