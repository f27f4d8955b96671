"""Facts in a file: compiled with one version of Triton, compared with those of another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from warplens_lab.compiling.targets import TARGETS
from warplens_lab.facts.records import KernelFacts
from warplens_run.base.errors import FormatError
from warplens_run.base.files import write_whole

FORMAT: Final = "warplens kernel facts"
VERSION: Final = 1
MAX_INT: Final = 1 << 63


class _FactsFile(msgspec.Struct):
    format: str
    version: int
    facts: list[KernelFacts]


def save_facts(path: Path, facts: Sequence[KernelFacts], *, force: bool = True) -> None:
    """Written whole or not at all."""
    content = msgspec.json.format(msgspec.json.encode(_FactsFile(FORMAT, VERSION, list(facts))))
    write_whole(path, content, force=force)


def load_facts(path: Path) -> list[KernelFacts]:
    try:
        saved = msgspec.json.decode(path.read_bytes(), type=_FactsFile)
    except OSError as error:
        raise FormatError(error.strerror or str(error), where=str(path)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"not a file of kernel facts: {error}", where=str(path)) from error
    if saved.format != FORMAT or saved.version != VERSION:
        raise FormatError(f"{saved.format} {saved.version}, not {FORMAT} {VERSION}", where=str(path))
    if _is_beyond_64_bits(msgspec.to_builtins(saved.facts)):
        raise FormatError("not a file of kernel facts: a number beyond 64 bits", where=str(path))
    unknown = sorted({facts.target for facts in saved.facts} - set(TARGETS))
    if unknown:
        hint = f"known: {', '.join(TARGETS)}"
        raise FormatError(f"not a file of kernel facts: unknown target {unknown[0]!r}", where=str(path), hint=hint)
    return saved.facts


def _is_beyond_64_bits(value: object) -> bool:
    """Whether any whole number within it is: no table holds such."""
    if isinstance(value, dict):
        return any(map(_is_beyond_64_bits, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_is_beyond_64_bits, value))
    return isinstance(value, int) and not -MAX_INT <= value < MAX_INT
