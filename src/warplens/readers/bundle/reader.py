"""Capture bundles, as `warplens profile` writes them: a directory or .zip with a manifest of everything in it.

The manifest is written last, so a directory without one is not a bundle. Each file's size and SHA-256 are compared:
what differs is still read where it can be, and said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from warplens.model.quality import Note
from warplens.model.trace import Distributed
from warplens.readers.bundle.contents import Contents, FolderContents, ZipContents
from warplens.readers.bundle.counters import RecordedCounters
from warplens.readers.bundle.counters import parse as parse_counters
from warplens.readers.bundle.launches import Launches
from warplens.readers.bundle.launches import parse as parse_launches
from warplens.readers.bundle.light import StoredLightPass
from warplens.readers.bundle.manifest import NOT_JSON, Manifest, environment_facts, parse_manifest
from warplens.readers.bundle.memory import StoredMemory, memory_of
from warplens.readers.bundle.timing import PlainWindow, Timing
from warplens.readers.bundle.timing import parse as parse_timing
from warplens.readers.shared.stored_file import StoredFile
from warplens.readers.shared.zip_archive import DAMAGED_ZIP
from warplens_run.base.errors import FormatError
from warplens_run.formats.bundle_files import (
    COUNTERS,
    ENVIRONMENT,
    EXECUTION_STEP,
    EXECUTION_TRACE,
    FORMAT,
    LAUNCHES,
    LIGHT_TRACE,
    MANIFEST,
    PROFILES,
    SAMPLED_LINES,
    TIMING,
    TRACE,
    is_incomplete,
)

USED: Final = (ENVIRONMENT, EXECUTION_TRACE, EXECUTION_STEP, LAUNCHES, TIMING, LIGHT_TRACE, COUNTERS, SAMPLED_LINES)
"""What is read besides the manifest and the profile; all else is left where it is."""


@dataclass(frozen=True)
class Bundle:
    """The files of one capture, by name."""

    path: Path
    manifest: Manifest
    contents: Contents = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)
    """Those that are used, where they can be read."""
    max_bytes: int = 0
    own_notes: tuple[Note, ...] = ()
    """What is wrong with the manifest."""

    @property
    def profile(self) -> str:
        """The name of the file that holds the profile."""
        profile = profile_in(self.contents)
        if profile is None:
            links = [f"{name} is a link that leads out of it" for name in self.contents.links if name in PROFILES]
            why = "; ".join([*self.manifest.notes, *links]) or "nothing was recorded"
            raise FormatError(f"a capture bundle without a profile ({why})", where=str(self.path))
        return profile

    @property
    def rank(self) -> Distributed | None:
        """Which rank of which job this is; None for a run of one process."""
        manifest = self.manifest
        if manifest.world_size <= 1:
            return None
        return Distributed(rank=manifest.rank, world_size=manifest.world_size)

    @cached_property
    def content_hash(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for name in sorted(self.contents.sizes):
            digest.update(f"{name}\0{self._hash_of(name)}\0".encode("utf-8", "replace"))
        return digest.hexdigest()

    def _hash_of(self, name: str) -> object:
        """Of a file that is not used, what the manifest says of it."""
        content = self.files.get(name)
        return self._stated(name, "sha256") if content is None else hashlib.sha256(content).hexdigest()

    def _stated(self, name: str, fact: str) -> object:
        return self.manifest.files.get(name, {}).get(fact)

    def stored(self, name: str) -> StoredFile | None:
        """A file that is used, as it is stored."""
        content = self.files.get(name)
        return None if content is None else StoredFile(self.path / name, content, self.max_bytes)

    def folder(self, start: str) -> dict[str, bytes]:
        """The files whose names begin so, with those that are not used otherwise; without what cannot be read."""
        names = [name for name in self.contents.sizes if name.startswith(start)]
        return {name: content for name in names if (content := _readable(self.contents, name)) is not None}

    @cached_property
    def _timing(self) -> Timing | Note | None:
        """Times of unrecorded steps; a note where they cannot be read, None where there are none."""
        text = self.files.get(TIMING)
        if text is None:
            return None
        try:
            return parse_timing(text)
        except NOT_JSON as error:
            return Note("timing_damaged", detail=str(error))

    @property
    def plain_step_ns(self) -> float | None:
        """A step's time without the profiler, where it was measured."""
        return self._timing.plain_step_ns if isinstance(self._timing, Timing) else None

    @cached_property
    def launches(self) -> Launches | None:
        """Triton kernels that the program launched itself; None where there are none, or their file is damaged."""
        try:
            return parse_launches(self.files[LAUNCHES])
        except (KeyError, *NOT_JSON):
            return None  # the damaged file is named in the notes

    @property
    def source_lines(self) -> dict[tuple[str, int], str]:
        """The texts of sampled source lines, by file and number; none where their file is damaged, as the notes say."""
        try:
            texts = msgspec.json.decode(self.files.get(SAMPLED_LINES, b"{}"), type=dict[str, dict[int, str]])
        except NOT_JSON:
            return {}
        return {(file, number): text for file, lines in texts.items() for number, text in lines.items()}

    @cached_property
    def _counters(self) -> RecordedCounters | Note | None:
        """What was sampled of the GPUs; a note where it cannot be read, None where nothing was."""
        text = self.files.get(COUNTERS)
        if text is None:
            return None
        try:
            return parse_counters(text)
        except NOT_JSON as error:
            return Note("counters_damaged", detail=str(error))

    @property
    def counters(self) -> RecordedCounters | None:
        """What was sampled of the GPUs; None where there is nothing, or its file is damaged."""
        return None if isinstance(self._counters, Note) else self._counters

    @property
    def plain_windows(self) -> tuple[PlainWindow, ...]:
        """Unrecorded steps that were timed."""
        return self._timing.windows if isinstance(self._timing, Timing) else ()

    @property
    def light(self) -> StoredLightPass | None:
        """The steps that were recorded with the GPU's activity only, not read yet."""
        file = self.stored(LIGHT_TRACE)
        if file is None or not isinstance(self._timing, Timing):
            return None
        return StoredLightPass(file, self._timing.light_marks_ns)

    @property
    def memory(self) -> StoredMemory | None:
        """The memory snapshot, not read yet."""
        return memory_of(self.contents, self.path, self.max_bytes)

    def notes(self) -> list[Note]:
        """What the capture itself has to say of its completeness."""
        manifest = self.manifest
        notes = [Note("capture_note", detail=text) for text in manifest.notes]
        if manifest.status != "complete":
            notes.append(Note("capture_ended", manifest.exit_code, manifest.ending))
        damaged = [name for name in manifest.files if self._differs(name)]
        if damaged:
            notes.append(Note("bundle_damaged", len(damaged), ", ".join(damaged)))
        if self.contents.links:
            notes.append(Note("bundle_links", len(self.contents.links), ", ".join(self.contents.links)))
        return [*notes, *self.own_notes, *self._environment[1], *self._timing_notes(), *self._counter_notes()]

    def _counter_notes(self) -> list[Note]:
        return [self._counters] if isinstance(self._counters, Note) else []

    def _timing_notes(self) -> list[Note]:
        if isinstance(self._timing, Note):
            return [self._timing]
        if TRACE not in self.files or not self.manifest.gpu:
            return []
        if self.plain_step_ns is None:
            return [Note("no_plain_steps")]
        return [] if self._timing is not None and self._timing.is_before else [Note("plain_steps_after")]

    def facts(self) -> dict[str, str]:
        """What to show of the run that made it."""
        manifest = self.manifest
        facts = {"recorded with": manifest.backend, "program": " ".join(manifest.command[1:]), "steps": manifest.steps}
        return {name: text for name, text in {**facts, **self._environment[0]}.items() if text}

    @cached_property
    def _environment(self) -> tuple[dict[str, str], list[Note]]:
        """What to show of it, and notes on what it should not have."""
        try:
            facts, wrong = environment_facts(self.files.get(ENVIRONMENT, b"{}"))
        except (ValueError, *NOT_JSON) as error:
            return {}, [Note("bundle_values", 1, f"{ENVIRONMENT}: {error}")]
        return facts, _wrong_values(ENVIRONMENT, wrong)

    def _differs(self, name: str) -> bool:
        if name in USED or name in self.files:
            content = self.files.get(name)
            return content is None or hashlib.sha256(content).hexdigest() != self._stated(name, "sha256")
        return self.contents.sizes.get(name) != self._stated(name, "bytes")


def profile_in(contents: Contents) -> str | None:
    """The name of the file that holds the profile."""
    return next((name for name in PROFILES if name in contents.sizes), None)


def of_folder(path: Path, max_bytes: int) -> Bundle | None:
    """The bundle that a folder is; None where it is something else."""
    if (path / MANIFEST).is_file():
        return _opened(path, FolderContents(path), max_bytes)
    if is_incomplete(path.name):
        raise FormatError("an incomplete capture: the run was killed before it was saved", where=str(path))
    return None


def of_zip(path: Path, max_bytes: int) -> Bundle | None:
    """Likewise for a .zip file."""
    try:
        contents = ZipContents(path, max_bytes)
    except DAMAGED_ZIP:
        return None  # opened as a plain archive, it says what is wrong
    return _opened(path, contents, max_bytes) if MANIFEST in contents.sizes else None


def _opened(path: Path, contents: Contents, max_bytes: int) -> Bundle:
    if MANIFEST not in contents.sizes:
        raise FormatError("the manifest of the bundle is a link that leads out of it", where=str(path))
    files = {MANIFEST: contents.read(MANIFEST)}
    profile = profile_in(contents)
    try:
        manifest, wrong = parse_manifest(files[MANIFEST])
        notes = _wrong_values(MANIFEST, wrong)
    except (ValueError, *NOT_JSON) as error:
        if profile is None:
            raise FormatError(f"the manifest of the bundle is damaged ({error})", where=str(path)) from None
        manifest, notes = Manifest(), [Note("bundle_values", 1, f"{MANIFEST}: {error}")]
    if manifest.format != FORMAT:
        raise FormatError(f"not a capture bundle: its manifest has the format {manifest.format!r}", where=str(path))
    if profile is not None:
        files[profile] = contents.read(profile)
    for name in USED:
        content = _readable(contents, name) if name in contents.sizes else None
        if content is not None:
            files[name] = content
    return Bundle(path, manifest, contents, files, max_bytes, tuple(notes))


def _readable(contents: Contents, name: str) -> bytes | None:
    try:
        return contents.read(name)
    except FormatError:
        return None  # the damaged file is named in the notes


def _wrong_values(file: str, names: Sequence[str]) -> list[Note]:
    return [Note("bundle_values", len(names), f"{file}: {', '.join(names)}")] if names else []
