"""The order of an image's numbers in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from warplens_run.base.errors import WarplensError
from warplens_run.trying.fixes.protocol import live

IMAGE_SIDES: Final = 4


class ChannelsLast:
    """Weights of convolutions with their channels next to each other; what they compute follows them."""

    name = "channels_last"
    needs_op = ""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._changed: list[Any] = []

    def switch(self, on: bool) -> None:
        if not on:
            for weight in self._changed:
                weight.data = weight.data.contiguous()
            self._changed = []
            return
        form = self._torch.channels_last
        weights = list(self._weights())
        if not weights:
            raise WarplensError("no module of the program convolves images")
        # A filter of one pixel has both layouts at once.
        self._changed = [weight for weight in weights if not weight.is_contiguous(memory_format=form)]
        if not self._changed:
            raise WarplensError("the program's convolutions have channels_last weights already")
        for weight in self._changed:
            weight.data = weight.data.contiguous(memory_format=form)

    def _weights(self) -> Iterator[Any]:
        for module in live(self._torch.nn.modules.conv._ConvNd):
            if module.weight.dim() == IMAGE_SIDES:
                yield module.weight
