"""`manifest.json` and `environment.json` of a bundle, value by value: what is not as expected is omitted and named."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from warplens.model.trace import MOST_RANKS
from warplens_run.formats.bundle_files import FORMAT, STEPS_FOUND_BY

NOT_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding a text raises; the last where it is nested too deeply."""
INT32: Final = 1 << 31
SHOWN_PACKAGES: Final = ("torch", "triton", "jax", "transformers")


class Manifest(msgspec.Struct, frozen=True):
    """What `manifest.json` says; what is not used here is ignored."""

    format: str = FORMAT
    files: dict[str, dict[str, object]] = {}
    status: str = "complete"
    error: str = ""
    exit_code: int = 0
    command: list[str] = []
    backend: str = ""
    gpu: bool = False
    rank: int = 0
    world_size: int = 1
    notes: list[str] = []
    steps_marked: int = 0
    steps_recorded: int = 0
    steps_found_by: str = ""

    @property
    def steps(self) -> str:
        """How many steps of how many are recorded, and what marked them; empty where that is not known."""
        found_by = STEPS_FOUND_BY.get(self.steps_found_by)
        return f"{self.steps_recorded} of {self.steps_marked}, found by {found_by}" if found_by else ""

    @property
    def ending(self) -> str:
        """How the program ended, and the first sentences of its error: PyTorch's on memory has eight."""
        return f"{self.status}: {first_sentences(self.error)}" if self.error else self.status


def first_sentences(text: str, length: int = 150) -> str:
    """
    >>> first_sentences("ValueError: a. And b. And c.", 22)
    'ValueError: a. And b. …'
    """
    sentences = re.split(r"(?<=[.!?])\s+", text.strip())
    kept = sentences[0]
    for sentence in sentences[1:]:
        if len(kept) + 1 + len(sentence) > length:
            return f"{kept} …"
        kept = f"{kept} {sentence}"
    return kept


CHECKS: Final[dict[str, Callable[[Any], bool]]] = {
    "exit_code": lambda code: -INT32 <= code < INT32,
    "rank": lambda rank: 0 <= rank < MOST_RANKS,
    "world_size": lambda size: 1 <= size <= MOST_RANKS,
    "steps_marked": lambda count: count >= 0,
    "steps_recorded": lambda count: count >= 0,
}


def parse_manifest(text: bytes) -> tuple[Manifest, list[str]]:
    """The manifest, and the fields that were omitted; raises `ValueError` where the text is not a JSON object."""
    document = _decoded(text)
    if document.get("format") != FORMAT:
        return Manifest(format=str(document.get("format", ""))), []
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for field in msgspec.structs.fields(Manifest):
        if field.name not in document:
            continue
        try:
            value = msgspec.convert(document[field.name], field.type)
        except msgspec.ValidationError:
            wrong.append(field.name)
            continue
        if CHECKS.get(field.name, lambda _: True)(value):
            values[field.name] = value
        else:
            wrong.append(field.name)
    manifest = Manifest(**values)
    if manifest.rank >= manifest.world_size:
        wrong.append("rank")
        manifest = msgspec.structs.replace(manifest, rank=0, world_size=1)
    return manifest, list(dict.fromkeys(wrong))


def environment_facts(text: bytes) -> tuple[dict[str, str], list[str]]:
    """Versions to show of the run's packages and driver, and the fields that were omitted; raises `ValueError`."""
    wrong: list[str] = []
    document = _decoded(text)
    packages = _of_type(dict, document, "packages", wrong)
    clocks = _of_type(dict, document, "clocks", wrong)
    facts = {name: version for name in SHOWN_PACKAGES if (version := _text(packages.get(name), name, wrong))}
    # The driver's version on each GPU, as the driver's tool reported it when the recording began.
    gpus = _of_type(list, clocks, "start", wrong)
    drivers = [
        _text(gpu.get("driver_version"), "driver_version", wrong) if isinstance(gpu, dict) else _text(gpu, "gpu", wrong)
        for gpu in gpus
    ]
    driver = ", ".join(dict.fromkeys(filter(None, drivers)))
    return facts | ({"driver": driver} if driver else {}), list(dict.fromkeys(wrong))


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError("not an object")
    return document


def _of_type(kind: type[Any], document: dict[str, Any], name: str, wrong: list[str]) -> Any:
    value = document.get(name)
    if value is not None and not isinstance(value, kind):
        wrong.append(name)
    return value if isinstance(value, kind) else kind()


def _text(value: object, name: str, wrong: list[str]) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    wrong.append(name)
    return ""
