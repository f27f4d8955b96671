"""A user's own GPU: a TOML file with the fields of gpus.toml, whole or as changes to a known GPU (`base`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from warplens.hardware.gpus import Gpu
from warplens.hardware.lookup import gpu_named
from warplens.hardware.tables import Fields, TomlTable, builtin_tables, gpu_from_table, parse_toml
from warplens_run.base.errors import UsageError

_HINT = 'a TOML file with the fields of one GPU, for example: base = "H100 SXM" and bandwidth_tbps = 3.0'


def load_gpu_file(path: str | Path) -> Gpu:
    """The one GPU that a TOML file describes, at top level or as its only [[gpu]]."""
    where = str(path)
    table = _only_entry(parse_toml(_read(path), where), where)
    if "base" not in table:
        return gpu_from_table(table, where)
    changes = {key: value for key, value in table.items() if key != "base"}
    return gpu_from_table(_changed(_base(table, where), changes), where)


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise UsageError(f"cannot read the GPU file {path}: {error.strerror or error}", hint=_HINT) from error
    except ValueError as error:  # not UTF-8, or a path that no file can have
        raise UsageError(f"cannot read the GPU file {path}: {error}", hint=_HINT) from error


def _only_entry(content: TomlTable, where: str) -> TomlTable:
    if "gpu" not in content:
        return content
    Fields(content, where).allow("gpu")
    entries = content["gpu"] if isinstance(content["gpu"], list) else [content["gpu"]]
    entry = entries[0] if len(entries) == 1 else None
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where}: one [[gpu]] is needed, found {len(entries)}", hint=_HINT)
    return entry


def _base(table: TomlTable, where: str) -> TomlTable:
    name = Fields(table, where).text("base")
    try:
        return builtin_tables()[gpu_named(name).name]
    except UsageError as error:
        raise UsageError(f"{where}: base: {error.message}", hint=error.hint) from error


def _changed(base: TomlTable, changes: TomlTable) -> TomlTable:
    # A measured ceiling of the base would win over the figure that the user has just put in its place.
    measured = base.get("max_achievable")
    ceilings = _without(measured, changes) if isinstance(measured, Mapping) else {}
    return _merged({**base, "max_achievable": ceilings}, changes)


def _merged(base: TomlTable, changes: TomlTable) -> TomlTable:
    inner = {key: _merged(*tables) for key in changes if (tables := _both_tables(base, changes, key))}
    return {**base, **changes, **inner}


def _without(base: TomlTable, changes: TomlTable) -> TomlTable:
    inner = {key: _without(*tables) for key in base if (tables := _both_tables(base, changes, key))}
    return {**{key: value for key, value in base.items() if key not in changes}, **inner}


def _both_tables(base: TomlTable, changes: TomlTable, key: str) -> tuple[TomlTable, TomlTable] | None:
    first, second = base.get(key), changes.get(key)
    return (first, second) if isinstance(first, Mapping) and isinstance(second, Mapping) else None
