"""Advice: rules over tables, and the verdict."""

from warplens.advice.rules import NEEDED_TABLES, RULES, SERVING_TABLES, find
from warplens.advice.thresholds import THRESHOLDS
from warplens.advice.verdict import verdict

__all__ = ["NEEDED_TABLES", "RULES", "SERVING_TABLES", "THRESHOLDS", "find", "verdict"]
