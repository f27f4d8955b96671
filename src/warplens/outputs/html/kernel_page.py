"""The page of traced kernel launches: style, script and data in one file, with nothing to fetch."""

from __future__ import annotations

from dataclasses import fields
from html import escape
from importlib.resources import files
from typing import Any, Final

import numpy as np

from warplens import __version__
from warplens.model.kernel_scene import (
    KernelScene,
    Mask,
    Numbers,
    Pattern,
    SceneEvents,
    SceneLaunch,
    SceneTensor,
)
from warplens.outputs.html.pack import Packer, Spec
from warplens.outputs.html.page import PAGE, POLICY

COLUMNS: Final = ("program", "op", "site", "tensor", "base", "pattern", "mask", "shape", "value")
STEADY: Final = ("program", "base")
"""Columns whose neighbours are near each other: differences are small."""
PARTS: Final = ("tensors", "patterns", "masks", "events")


def kernel_page_bytes(scene: KernelScene) -> bytes:
    """A scene as a page. Text of the trace is only in the data, which is base64: none of it can become markup."""
    assets = files("warplens.outputs") / "assets"
    return PAGE.format(
        policy=POLICY,
        title=escape(scene.title),
        style=(assets / "kernel.css").read_text("utf-8"),
        data=packed_scene(scene).decode("ascii"),
        script=(assets / "kernel.js").read_text("utf-8"),
    ).encode("utf-8", errors="replace")


def packed_scene(scene: KernelScene) -> bytes:
    packer = Packer()
    header: dict[str, Any] = {
        "warplens": __version__,
        "title": scene.title,
        "triton": scene.triton,
        "mode": scene.mode,
        "sampling": scene.sampling,
        "notes": scene.notes,
        "launches": [_launch(launch, packer) for launch in scene.launches],
    }
    return packer.packed(header)


def _launch(launch: SceneLaunch, packer: Packer) -> dict[str, Any]:
    rest = {each.name: getattr(launch, each.name) for each in fields(launch) if each.name not in PARTS}
    return rest | {
        "totals": dict(launch.totals),
        "tensors": [_tensor(tensor, packer) for tensor in launch.tensors],
        "patterns": [_pattern(pattern, packer) for pattern in launch.patterns],
        "masks": [_mask(mask, packer) for mask in launch.masks],
        "events": _events(launch.events, packer) if launch.events else None,
    }


def _tensor(tensor: SceneTensor, packer: Packer) -> dict[str, Any]:
    plain = {each.name: getattr(tensor, each.name) for each in fields(tensor) if each.name not in ("before", "after")}
    return plain | {"before": _numbers(tensor.before, packer), "after": _numbers(tensor.after, packer)}


def _pattern(pattern: Pattern, packer: Packer) -> dict[str, Any]:
    offsets = packer.add_ints(pattern.offsets, delta=True) if pattern.offsets is not None else None
    return {"itemsize": pattern.itemsize, "shape": pattern.shape, "strides": pattern.strides, "offsets": offsets}


def _mask(mask: Mask, packer: Packer) -> dict[str, Any]:
    bits = packer.add_ints(np.frombuffer(mask.bits, np.uint8)) if mask.bits is not None else None
    return {"active": mask.active, "box": mask.box, "bits": bits}


def _events(events: SceneEvents, packer: Packer) -> dict[str, Any]:
    columns = {name: packer.add_ints(getattr(events, name), delta=name in STEADY) for name in COLUMNS}
    return {
        "ops": events.ops,
        "shapes": events.shapes,
        "columns": columns,
        "values": [_numbers(value, packer) for value in events.values],
    }


def _numbers(values: Numbers | None, packer: Packer) -> Spec | None:
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
        return packer.add_ints(values.astype(np.float32).view(np.int32)) | {"single": True}
