"""What `--fix` names: `WL202,WL208=foreach`, `env:NAME=VALUE`, `attention=sdpa`."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from warplens_run.base.errors import UsageError
from warplens_run.trying.known import FixName, check

VARIABLE: Final = "env:"
ATTENTION: Final = "attention"
BEFORE_A_FIX: Final = re.compile(rf",(?=\s*(?:w[lk]\d|{VARIABLE}|{ATTENTION}=))", re.IGNORECASE)
"""A comma in the value of a variable belongs to it: allocator settings have some."""
VARIABLE_NAME: Final = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class FixVariant:
    """What is tried together."""

    text: str
    fixes: tuple[FixName, ...] = ()
    """Those that are switched while the program runs."""
    variables: dict[str, str] = field(default_factory=dict)
    attention: str = ""
    """`attn_implementation` of transformers' models."""

    @property
    def is_fresh(self) -> bool:
        """Whether it needs a process of its own."""
        return bool(self.variables or self.attention)


def parse_variants(texts: Sequence[str]) -> list[FixVariant]:
    """One for each text; what is known to be impossible is refused."""
    return [parse_variant(text) for text in dict.fromkeys(texts)]


def parse_variant(text: str) -> FixVariant:
    words = [word for part in BEFORE_A_FIX.split(text) for word in _words(part)]
    if not words:
        raise UsageError("no fix is named", hint="WL202, or several that are tried together: WL202,WL208")
    names: list[FixName] = []
    variables: dict[str, str] = {}
    attention = ""
    for word in words:
        kind, _, value = word.partition("=")
        if word.startswith(VARIABLE):
            variables |= _variable(word)
        elif kind.lower() == ATTENTION:
            attention = _attention(value)
        else:
            names.append(FixName(kind.strip().upper(), value.strip()))
            check(names[-1])
    return FixVariant(text.strip(), tuple(dict.fromkeys(names)), variables, attention)


def _words(part: str) -> list[str]:
    words = [part] if part.strip().startswith(VARIABLE) else part.split(",")
    return [word.strip() for word in words if word.strip()]


def _variable(word: str) -> dict[str, str]:
    name, equals, value = word.removeprefix(VARIABLE).partition("=")
    if not equals or not VARIABLE_NAME.fullmatch(name):
        raise UsageError(f"{word!r} sets no variable", hint=f"{VARIABLE}NAME=VALUE")
    if os.environ.get(name) == value:
        raise UsageError(f"{word} cannot be tried: {name} has this value already")
    return {name: value}


def _attention(value: str) -> str:
    if not value.strip():
        raise UsageError(f"{ATTENTION}= names nothing", hint=f"{ATTENTION}=sdpa, eager, flash_attention_2 …")
    if importlib.util.find_spec("transformers") is None:
        raise UsageError(f"{ATTENTION}={value} cannot be tried: transformers, whose models have it, is not installed")
    return value.strip()
