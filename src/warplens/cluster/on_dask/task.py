"""What runs on a worker: one attempt at one task, if the worker has the versions that the client has."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from warplens.cluster.attempt import attempt_by_name
from warplens.cluster.records import Outcome
from warplens_run import __version__
from warplens_run.base.machine import CORES

PACKAGES: Final = ("polars", "msgspec", "distributed")
"""Beside Python and this package: what values are made of and sent by."""


@dataclass(frozen=True)
class Request:
    name: str
    argument: Any
    versions: dict[str, str]


@dataclass(frozen=True)
class Answer:
    outcome: Outcome[Any]
    host: str
    differences: tuple[str, ...] = ()
    """Versions that the worker should have and does not; nothing was run then."""


def run(request: Request) -> Answer:
    host = platform.node()
    differences = version_differences(request.versions, own_versions())
    if differences:
        return Answer(Outcome(reason="other versions"), host, differences)
    # Other ranks have the other cores, and a worker is full of threads, with which a fork does not go well.
    os.environ.setdefault(CORES, "1")
    return Answer(attempt_by_name(request.name, request.argument), host)


@lru_cache(maxsize=1)
def own_versions() -> dict[str, str]:
    python = ".".join(platform.python_version_tuple()[:2])
    return {"Python": python, "warplens": __version__, **{name: _version(name) for name in PACKAGES}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def version_differences(wanted: dict[str, str], present: dict[str, str]) -> tuple[str, ...]:
    """
    >>> version_differences({"Python": "3.12", "polars": "1.30.0"}, {"Python": "3.12", "polars": "1.31.0"})
    ('polars 1.31.0 instead of 1.30.0',)
    """
    pairs = ((name, present.get(name, "none"), version) for name, version in wanted.items())
    return tuple(f"{name} {has} instead of {version}" for name, has, version in pairs if has != version)
