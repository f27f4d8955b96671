"""Advice: rules over Tables, and the verdict."""

from warplens.advice.rules import EXPLAIN, NEEDED_TABLES, THRESHOLDS, explain, findings
from warplens.advice.verdict import verdict

__all__ = ["EXPLAIN", "NEEDED_TABLES", "THRESHOLDS", "explain", "findings", "verdict"]
