"""Advice: rules over Tables, and the verdict."""

from warplens.advice.explanations import EXPLAIN, explain
from warplens.advice.rules import NEEDED_TABLES, find
from warplens.advice.thresholds import THRESHOLDS
from warplens.advice.verdict import verdict

__all__ = ["EXPLAIN", "NEEDED_TABLES", "THRESHOLDS", "explain", "find", "verdict"]
