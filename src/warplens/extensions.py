"""Readers and rules that other installed packages bring along, by entry points; never looked for at start.

A reader (group `warplens.readers`) is a `ProfileFormat` of `readers.registry`; readers are looked for when a file is
not known. Rules (group `warplens.rules`) are a `RuleSet` of `model.rule` on `advice.figures.TraceFigures`; rules are
looked for when findings are made. Both may change without anybody's notice, so nothing that they made is kept in a
cache.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from warplens.cache.place import NO_PLACE, cache_directory
from warplens_run.base.files import write_whole
from warplens_run.base.loading import loaded

READERS: Final = "warplens.readers"
RULES: Final = "warplens.rules"
LIST: Final = "extensions.json"
INSTALLED: Final = ("site-packages", "dist-packages")


class Extension(NamedTuple):
    """What a package offers: its group, the package with its version, and where the object is (`module:name`)."""

    group: str
    package: str
    place: str


class _Listed(msgspec.Struct):
    folders: dict[str, int]
    """By folder of packages: when one was last installed there or removed, in ns."""
    extensions: list[Extension]


def offered(group: str) -> list[Extension]:
    """The extensions of a group."""
    places = [Path(entry) for entry in sys.path if Path(entry).name in INSTALLED]
    folders = tuple((str(place), place.stat().st_mtime_ns) for place in places if place.is_dir())
    return [each for each in _listed(folders) if each.group == group]


@lru_cache(maxsize=1)
def _listed(changes: tuple[tuple[str, int], ...]) -> tuple[Extension, ...]:
    """Those of all groups, from the list that was kept unless a package was installed or removed since."""
    folders = dict(changes)
    try:
        kept = cache_directory() / LIST
        listed = msgspec.json.decode(kept.read_bytes(), type=_Listed)
    except (*NO_PLACE, msgspec.DecodeError):
        listed = _Listed({}, [])
    if listed.folders != folders:
        listed = _Listed(folders, _looked_for(folders))
        with suppress(*NO_PLACE):
            if cache_directory().is_dir():
                write_whole(cache_directory() / LIST, msgspec.json.encode(listed))
    return tuple(listed.extensions)


def extensions(group: str, kind: type) -> Iterator[tuple[Extension, Any]]:
    """The objects of a group; one that cannot be loaded, or is of another kind, is a warning."""
    for extension in offered(group):
        try:
            found = loaded(extension.place)
        except Exception as error:  # noqa: BLE001 - whatever happens in code of others must not end a report
            warn(extension, error)
            continue
        if isinstance(found, kind):
            yield extension, found
        else:
            warn(extension, TypeError(f"not a {kind.__name__}"))


def warn(extension: Extension, error: Exception) -> None:
    text = f"{extension.place} of {extension.package} is not used: {type(error).__name__}: {error}"
    warnings.warn(text, RuntimeWarning, stacklevel=3)


def _looked_for(folders: dict[str, int]) -> list[Extension]:
    from importlib.metadata import distributions

    return [
        Extension(entry.group, f"{package.metadata['Name']} {package.version}", entry.value)
        for package in distributions(path=list(folders))
        for entry in package.entry_points
        if entry.group in (READERS, RULES)
    ]
