"""The page of layouts, tiles side by side: one file, with nothing to fetch."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from warplens.outputs.html.pack import Packer
from warplens.outputs.html.page import assembled
from warplens_lab.pages import ASSETS
from warplens_lab.pages.records import LayoutHeader, PackedLayoutAccess, PackedLayoutPanel
from warplens_lab.scenes.layout_scene import LayoutAccess, LayoutAccessFacts, LayoutPanel, LayoutPanelFacts, LayoutScene


def layout_page_bytes(scene: LayoutScene) -> bytes:
    """Tiles as a page. What a user wrote is only in the data, which is base64: none of it can become markup."""
    return assembled(f"{scene.title} – layout", "layout", packed_layouts(scene), assets=ASSETS)


def packed_layouts(scene: LayoutScene) -> bytes:
    packer = Packer()
    panels = [_panel(panel, packer) for panel in scene.panels]
    header = LayoutHeader(
        title=scene.title, texts=list(packer.texts), banks=scene.banks, notes=list(scene.notes), panels=panels
    )
    return packer.packed(header)


def _plain(kind: type, record: object) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(kind)}


def _panel(panel: LayoutPanel, packer: Packer) -> PackedLayoutPanel:
    return PackedLayoutPanel(
        **_plain(LayoutPanelFacts, panel),
        offsets=packer.add_ints(panel.offsets, delta=True) if panel.offsets is not None else None,
        held=packer.add_ints(panel.held, delta=True) if panel.held is not None else None,
        accesses=[_access(access, packer) for access in panel.accesses],
    )


def _access(access: LayoutAccess, packer: Packer) -> PackedLayoutAccess:
    return PackedLayoutAccess(
        **_plain(LayoutAccessFacts, access),
        lanes={name: packer.add_ints(values, delta=True) for name, values in access.lanes.items()},
        cells=packer.add_ints(access.cells.ravel(), delta=True),
    )
