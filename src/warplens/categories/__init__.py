"""Kernel categories: what a kernel does, derived from its name by ordered rules that users can extend."""

from warplens.categories.demangling import demangle
from warplens.categories.families import families_of
from warplens.categories.matching import OTHER, Categorizer, KernelClass, category_names, load_categorizer
from warplens.categories.op_names import op_category
from warplens.categories.rules import Rule
from warplens.categories.short_names import short_name, short_names

__all__ = [
    "OTHER",
    "Categorizer",
    "KernelClass",
    "Rule",
    "category_names",
    "demangle",
    "families_of",
    "load_categorizer",
    "op_category",
    "short_name",
    "short_names",
]
