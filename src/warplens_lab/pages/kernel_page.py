"""The page of traced kernel launches: style, script and data in one file, with nothing to fetch."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from warplens.outputs.html.pack import Packer
from warplens.outputs.html.page import assembled
from warplens.outputs.html.records import ColumnSpec
from warplens_lab.pages import ASSETS
from warplens_lab.pages.records import (
    KernelHeader,
    PackedEvents,
    PackedLaunch,
    PackedMask,
    PackedPattern,
    PackedTensor,
)
from warplens_lab.scenes.kernel_scene import (
    KernelScene,
    LaunchFacts,
    Mask,
    MaskFacts,
    Numbers,
    Pattern,
    PatternFacts,
    SceneEvents,
    SceneLaunch,
    SceneTensor,
    TensorFacts,
)

COLUMNS: Final = ("program", "op", "site", "tensor", "base", "pattern", "mask", "shape", "value")
STEADY: Final = ("program", "base")
"""Columns whose neighbours are near each other: differences are small."""


def kernel_page_bytes(scene: KernelScene) -> bytes:
    """A scene as a page. Text of the trace is only in the data, which is base64: none of it can become markup."""
    return assembled(scene.title, "kernel", packed_scene(scene), assets=ASSETS)


def packed_scene(scene: KernelScene) -> bytes:
    packer = Packer()
    launches = [_launch(launch, packer) for launch in scene.launches]
    header = KernelHeader(
        title=scene.title,
        texts=list(packer.texts),
        triton=scene.triton,
        mode=scene.mode,
        sampling=scene.sampling,
        notes=list(scene.notes),
        fault_kinds=scene.fault_kinds,
        launches=launches,
    )
    return packer.packed(header)


def _plain(kind: type, record: object) -> dict[str, Any]:
    """The fields of a record that its base `kind` has."""
    return {field.name: getattr(record, field.name) for field in fields(kind)}


def _launch(launch: SceneLaunch, packer: Packer) -> PackedLaunch:
    return PackedLaunch(
        **_plain(LaunchFacts, launch),
        tensors=[_tensor(tensor, packer) for tensor in launch.tensors],
        patterns=[_pattern(pattern, packer) for pattern in launch.patterns],
        masks=[_mask(mask, packer) for mask in launch.masks],
        events=_events(launch.events, packer) if launch.events else None,
    )


def _tensor(tensor: SceneTensor, packer: Packer) -> PackedTensor:
    before, after = _numbers(tensor.before, packer), _numbers(tensor.after, packer)
    return PackedTensor(**_plain(TensorFacts, tensor), before=before, after=after)


def _pattern(pattern: Pattern, packer: Packer) -> PackedPattern:
    offsets = packer.add_ints(pattern.offsets, delta=True) if pattern.offsets is not None else None
    return PackedPattern(**_plain(PatternFacts, pattern), offsets=offsets)


def _mask(mask: Mask, packer: Packer) -> PackedMask:
    bits = packer.add_ints(np.frombuffer(mask.bits, np.uint8)) if mask.bits is not None else None
    return PackedMask(**_plain(MaskFacts, mask), bits=bits)


def _events(events: SceneEvents, packer: Packer) -> PackedEvents:
    return PackedEvents(
        list(events.ops),
        list(map(list, events.shapes)),
        {name: packer.add_ints(getattr(events, name), delta=name in STEADY) for name in COLUMNS},
        [_numbers(value, packer) for value in events.values],
    )


def _numbers(values: Numbers | None, packer: Packer) -> ColumnSpec | None:
    """Whole numbers as they are, decimals by their bits as float32, doubles as such where all are finite."""
    if values is None:
        return None
    if values.dtype.kind in "biu":
        return packer.add_ints(values)
    doubles = values.astype(np.float64)
    # A column of doubles has no infinity: it would come back as "nothing here".
    if values.dtype.itemsize > 4 and np.isfinite(doubles).all():
        return packer.add_floats(doubles)
    with np.errstate(over="ignore"):
        return replace(packer.add_ints(values.astype(np.float32).view(np.int32)), is_single=True)
