"""Damaged capture bundles: damage of a file beside the trace costs what that file says, never the trace.

Every mutant is known by its seed. A usual run tries some 150 of them; WARPLENS_FUZZ=4 tries four times as many.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

import warplens
from laws import assert_adds_up, assert_kernels_add_up
from mutations import TEXT_MUTATIONS, WRONG_VALUES, _places, text_of
from support import ROOT, ends, kernel, launch, nightly_after, op
from warplens.planning.context import context_of
from warplens.ranks.file_heads import own_rank
from warplens.readers import inputs
from warplens_run.formats.bundle import Staging
from warplens_run.formats.bundle_files import (
    ENVIRONMENT,
    EXECUTION_TRACE,
    LAUNCHES,
    LIGHT_TRACE,
    MANIFEST,
    TIMING,
    TRACE,
)

EFFORT = int(os.environ.get("WARPLENS_FUZZ", "1"))
REAL = ROOT / "samples" / "execution_trace" / "mlp_train.json.gz"
KERNEL = {"name": "scale", "function": "scale", "parameters": ["x"], "options": {"num_warps": 4}, "source": "s.py"}
ARGUMENT = {"kind": "tensor", "shape": [8, 8], "stride": [8, 1], "dtype": "float32", "storage": 1, "bytes": 256}
JSON_FILES: dict[str, Any] = {
    ENVIRONMENT: {
        "packages": {"torch": "2.11.0", "triton": "3.6.0"},
        "torch": {"settings": {"allow_tf32": True}},
        "variables": {"TORCHINDUCTOR_MAX_AUTOTUNE": "1"},
        "clocks": {"start": [{"index": "0", "driver_version": "580.95"}]},
    },
    TIMING: {
        "version": 1,
        "windows": [{"position": "before", "steps": 4, "seconds": 0.2, "step_seconds": [0.05] * 4}],
        "light_marks_ns": [0, 60_000, 120_000],
    },
    LAUNCHES: {
        "version": 1,
        "kernels": [KERNEL],
        "launches": [{"kernel": 0, "grid": [1, 1, 1], "arguments": [ARGUMENT, {"kind": "int", "value": 7}]}],
        "order": [0, 0],
    },
}
BESIDE = (MANIFEST, *JSON_FILES, EXECUTION_TRACE, LIGHT_TRACE)


@lru_cache
def sound_files() -> dict[str, bytes]:
    light = text_of({"traceEvents": [op("step", 1, 50), launch(2, 2, 1), kernel("scale", 10, 20, 1)]})
    return {
        TRACE: REAL.read_bytes(),
        EXECUTION_TRACE: REAL.with_name("mlp_train.et.json.gz").read_bytes(),
        LIGHT_TRACE: gzip.compress(light, mtime=0),
        **{name: json.dumps(document).encode() for name, document in JSON_FILES.items()},
    }


def written(path: Path, changed: dict[str, bytes]) -> Path:
    """A bundle with these files instead of its own, a folder or an archive."""
    shutil.rmtree(path, ignore_errors=True)
    path.unlink(missing_ok=True)
    staging = Staging(path)
    for name, content in sound_files().items():
        staging.path(name).write_bytes(content)
    staging.finish({"status": "complete", "backend": "torch", "command": ["warplens", "profile", "x.py"], "notes": [],
                    "rank": 1, "world_size": 4, "gpu": True})  # fmt: skip
    if path.is_dir():
        for name, content in changed.items():
            (path / name).write_bytes(content)
        return path
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**files, **changed}.items():
            archive.writestr(name, content)
    return path


def damaged_text(content: bytes, rng: Random) -> bytes:
    mutate = rng.choice(TEXT_MUTATIONS)
    if not content.startswith(b"\x1f\x8b") or rng.random() < 0.5:
        return mutate(content, rng)
    return gzip.compress(mutate(gzip.decompress(content), rng), 1, mtime=0)


def wrong_values(content: bytes, rng: Random) -> bytes:
    document = json.loads(gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content)
    for _ in range(rng.choice((1, 1, 2, 5))):
        holder, key = rng.choice(_places(document))
        holder[key] = deepcopy(rng.choice(WRONG_VALUES))
    return json.dumps(rng.choice((document, document, document, [document], rng.choice(WRONG_VALUES)))).encode()


def deep(content: bytes, rng: Random) -> bytes:
    nested = rng.choice((b"[", b'{"a":')) * 100_000
    return rng.choice((nested, b'{"packages": ' + nested, b'{"format": "warplens-bundle", "notes": ' + nested))


DAMAGES: tuple[Callable[[bytes, Random], bytes], ...] = (damaged_text, wrong_values, deep)


def events_of(profile: warplens.Opened) -> Any:
    """What the trace of a bundle says by itself."""
    return profile.with_timeline().trace.events.select("kind", "start_ns", "dur_ns").rows()


@pytest.mark.parametrize(
    "damage", nightly_after(1, (wrong_values, damaged_text, deep)), ids=lambda damage: damage.__name__
)
@pytest.mark.parametrize("name", BESIDE)
def test_damage_of_a_file_beside_the_trace_does_not_cost_the_trace(
    tmp_path: Path, name: str, damage: Callable[[bytes, Random], bytes]
) -> None:
    sound = written(tmp_path / "sound", {})
    content = (sound / name).read_bytes()
    expected = events_of(warplens.open(sound, cache=False))
    for seed in range(5 * EFFORT):
        rng = Random(seed)
        path = written(tmp_path / rng.choice(("run", "run.zip")), {name: damage(content, rng)})
        with ends(f"seed {seed}"):
            try:
                profile = warplens.open(path, cache=False)
            except warplens.FormatError as error:  # it declares to be something else
                assert name == MANIFEST and "not a capture bundle" in str(error), f"seed {seed}"
                continue
            assert_kernels_add_up(profile)
            assert events_of(profile) == expected, f"seed {seed}"
            if seed % 4 == 0:
                assert_adds_up(profile)
                profile.table("findings")
            own_rank(path)
            context_of(path)
            light = inputs.find(path).light
            if light is not None:
                light.read()


def test_damage_anywhere_in_an_archive_is_one_line_or_notes(tmp_path: Path) -> None:
    stored = written(tmp_path / "run.zip", {}).read_bytes()
    mutant = tmp_path / "mutant.zip"
    for seed in range(40 * EFFORT):
        rng = Random(seed)
        mutant.write_bytes(rng.choice(TEXT_MUTATIONS)(stored, rng))
        with ends(f"seed {seed}"):
            try:
                assert_kernels_add_up(warplens.open(mutant, cache=False))
            except warplens.FormatError as error:
                assert str(error).startswith(str(mutant)), f"seed {seed}"
                assert "\n" not in str(error), f"seed {seed}"
