"""Experiments: for each finding of a trace, units as they were recorded, and as they would be after the change."""

from __future__ import annotations

from warplens.proof.experiments.planning import make_proof_plan

__all__ = ["make_proof_plan"]
