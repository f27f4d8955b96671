"""From a kernel's name to its category: the first rule that takes the name decides."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens.categories.facts import find_arch, find_direction, find_dtype, known_dtype
from warplens.categories.families import families_of
from warplens.categories.fusions import inductor_fusion
from warplens.categories.kernel_name import MAX_CHARS, KernelName, parse_kernel_name
from warplens.categories.rules import (
    CompiledRule,
    Rule,
    builtin_categories,
    builtin_rules,
    compile_rule,
    read_rules,
)

OTHER = "Other"


class KernelClass(msgspec.Struct, frozen=True):
    """What a kernel's name says about it; an empty text means the name does not say."""

    category: str
    library: str = ""
    dtype: str = ""
    arch: str = ""
    direction: str = ""
    fuses: str = ""


class Categorizer:
    """Compiled rules; each name is matched once."""

    def __init__(self, builtin: Sequence[CompiledRule], user_rules: Sequence[CompiledRule] = ()) -> None:
        self._builtin = tuple(builtin)
        self._user_rules = tuple(user_rules)
        self._classes: dict[str, KernelClass] = {}

    def classify(self, name: str) -> KernelClass:
        """The class of one kernel name, as the trace has it (mangled or not)."""
        key = name[:MAX_CHARS]
        kernel_class = self._classes.get(key)
        if kernel_class is None:
            kernel_class = self._classes[key] = self._match(parse_kernel_name(key))
        return kernel_class

    def classify_all(self, names: Sequence[str], families: Sequence[str] | None = None) -> list[KernelClass]:
        """The classes of many names, in order; names of one family (`families_of`) have one class."""
        if self._user_rules:  # which may be about numbers
            return [self.classify(name) for name in names]
        if families is None:
            families = families_of(names)
        classes: dict[str, KernelClass] = {}
        for family, name in zip(families, names, strict=True):
            if family not in classes:
                classes[family] = self.classify(name)
        return [classes[family] for family in families]

    def _match(self, name: KernelName) -> KernelClass:
        # People write rules from what they see in the trace, which may be the mangled name.
        as_seen = KernelName(name.raw, name.raw, name.function, name.raw.lower(), name.lower_function)
        for rule in self._user_rules:
            match = rule.match(name) or rule.match(as_seen)
            if match:
                return _describe(rule.rule, match, name)
        for rule in self._builtin:
            match = rule.match(name)
            if match:
                return _describe(rule.rule, match, name)
        return _describe(Rule(OTHER), True, name)


def _describe(rule: Rule, match: re.Match[str] | bool, name: KernelName) -> KernelClass:
    groups = {} if isinstance(match, bool) else {key: text or "" for key, text in match.groupdict().items()}
    return KernelClass(
        category=rule.category,
        library=rule.library or groups.get("library", ""),
        dtype=rule.dtype or known_dtype(groups.get("dtype", "")) or find_dtype(name),
        arch=rule.arch or groups.get("arch", "") or find_arch(name),
        direction=rule.direction or find_direction(name),
        fuses=rule.fuses or groups.get("fuses", "") or inductor_fusion(name.lower_function),
    )


def load_categorizer(user_rules: Sequence[Path | str] = (), extra: Sequence[Rule] = ()) -> Categorizer:
    """The built-in rules, with the user's before them: `extra` first, then the files in their order."""
    located_rules = [(rule, f"extra rule {number}") for number, rule in enumerate(extra, start=1)]
    for path in user_rules:
        located_rules += read_rules(Path(path))
    return Categorizer(builtin_rules(), [compile_rule(rule, where) for rule, where in located_rules])


def category_names() -> tuple[str, ...]:
    """All built-in categories, in the order in which they are shown."""
    return tuple(builtin_categories())
