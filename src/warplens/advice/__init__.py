"""Advice: rules over tables, and the Answer."""

from warplens.advice.rules import NEEDED_TABLES, RULES, SERVING_TABLES, find, rules_of_others
from warplens.advice.thresholds import THRESHOLDS

__all__ = ["NEEDED_TABLES", "RULES", "SERVING_TABLES", "THRESHOLDS", "find", "rules_of_others"]
