"""The HTML file: style, script and data in one, with nothing to fetch."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from warplens.model.kinds import KINDS
from warplens.model.targets import Target
from warplens.outputs.document import Document, Extras
from warplens.outputs.html.events import Kept, choose_events, pack_scene, page_target
from warplens.outputs.html.pack import Packer
from warplens.outputs.html.records import ReportHeader
from warplens.outputs.html.tables import pack_table
from warplens.outputs.palette import CATEGORY_COLOURS, KIND_COLOURS, SPARE_COLOURS, category_colour

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'unsafe-inline' blob:",
        "worker-src blob:",
        "style-src 'unsafe-inline'",
        "img-src data: blob:",
    ]
)
"""The browser itself refuses every request: what is on the page came with the file."""
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This report needs JavaScript, which runs from this file alone; it fetches nothing.</noscript>
<div id="app"></div>
<script type="text/plain" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def page_bytes(document: Document) -> bytes:
    """A document as a page. Text of the trace is only in the data, which is base64: none of it can become markup."""
    assets = files("warplens.outputs") / "assets"
    return PAGE.format(
        policy=POLICY,
        title=escape(document.title),
        style=(assets / "page.css").read_text("utf-8"),
        data=packed_document(document).decode("ascii"),
        script=(assets / "page.js").read_text("utf-8"),
    ).encode("utf-8", errors="replace")


def packed_document(document: Document) -> bytes:
    extras = document.extras() if document.extras is not None else Extras()
    packer = Packer()
    kept = [choose_events(scene) for scene in extras.scenes]
    scenes = [pack_scene(scene, packer, events) for scene, events in zip(extras.scenes, kept, strict=True)]
    tables = [pack_table(table, packer) for table in document.tables]
    header = ReportHeader(
        title=document.title,
        texts=list(packer.texts),
        source=document.source,
        mode=document.kind,
        start=extras.start,
        command=extras.command,
        facts=dict(document.facts),
        definitions={name: dict(entries) for name, entries in extras.definitions.items()},
        explanations=dict(extras.explanations),
        finding_targets=_on_page(extras.finding_targets, kept),
        targets=_on_page(extras.evidence_targets, kept),
        kinds=list(KINDS),
        colours=_colours(document, extras),
        kind_colours=KIND_COLOURS,
        spare_colours=list(SPARE_COLOURS),
        scenes=scenes,
        tables=tables,
    )
    return packer.packed(header)


def _on_page(targets: Sequence[Sequence[Target]], kept: Sequence[Kept]) -> list[list[Target]]:
    """Targets of the rows of a table; findings are about the first trace."""
    if not kept:
        return [list(row) for row in targets]
    placed = [[page_target(target, kept[0]) for target in row] for row in targets]
    return [[target for target in row if target is not None] for row in placed]


def _colours(document: Document, extras: Extras) -> dict[str, str]:
    """Every built-in category's colour, and those of the user's own."""
    frames = [scene.kernels for scene in extras.scenes] or [table.frame for table in document.tables]
    named = [frame["kernel_category"].unique() for frame in frames if "kernel_category" in frame.columns]
    own = {each for names in named for each in names.to_list() if each}
    return {**CATEGORY_COLOURS, **{each: category_colour(each) for each in sorted(own)}}
