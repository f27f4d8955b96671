"""What every family of costs can do."""

from __future__ import annotations

from typing import Protocol

from warplens.costs.cost import Cost
from warplens.costs.tensors import Call


class Family(Protocol):
    def cost(self, call: Call) -> Cost | str | None:
        """The cost, the reason why there is none, or None where too little is recorded."""
