"""Planning: a trace's units as a replay plan. Needs no PyTorch and no GPU; what runs a plan is in `warplens.replay`."""

from __future__ import annotations

from warplens.planning.plan import make_plan

__all__ = ["make_plan"]
