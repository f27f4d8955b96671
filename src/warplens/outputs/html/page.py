"""The HTML file: style, script and data in one, with nothing to fetch."""

from __future__ import annotations

import base64
import gzip
from html import escape
from importlib.resources import files

from warplens.model.kinds import KINDS
from warplens.outputs.document import CorrectedTimes, Document, Extras
from warplens.outputs.html.events import choose_events, pack_scene
from warplens.outputs.html.job import pack_job
from warplens.outputs.html.pack import Packer
from warplens.outputs.html.path import pack_path
from warplens.outputs.html.records import CorrectedHeader, ReportHeader
from warplens.outputs.html.tables import pack_table
from warplens.outputs.html.tiles import gains_base, page_tiles, step_parts
from warplens.outputs.palette import CATEGORY_COLOURS, KIND_COLOURS, SPARE_COLOURS, category_colour

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'unsafe-inline'",
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
{scripts}
</body>
</html>
"""
LOADER = """(async () => {
  const code = document.getElementById("code");
  const text = code.textContent;
  const slowly = () => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const bytes = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : slowly();
  const gzip = new DecompressionStream("gzip");
  const writer = gzip.writable.getWriter();
  writer.write(bytes);
  writer.close();
  const script = document.createElement("script");
  script.textContent = await new Response(gzip.readable).text();
  code.remove();
  document.body.append(script);
})().catch((error) => { document.getElementById("app").textContent = "This page cannot be shown: " + error; });"""
"""Unpacks the page's script, which takes half the room that way: as the data, it is gzip in base64."""


def page_bytes(document: Document) -> bytes:
    """A document as a page. Text of the trace is only in the data, which is base64: none of it can become markup."""
    scripts = f'<script type="text/plain" id="code">{packed_script()}</script>\n<script>{LOADER}</script>'
    return assembled(document.title, "page", packed_document(document), scripts)


def assembled(title: str, name: str, data: bytes, scripts: str = "", assets: str = "warplens.outputs") -> bytes:
    """A page of this title and data with the style and, where no scripts are given, the plain script of that name.

    `assets` is the package that has them in a folder of this name.
    """
    folder = files(assets) / "assets"
    return PAGE.format(
        policy=POLICY,
        title=escape(title),
        style=(folder / f"{name}.css").read_text("utf-8"),
        data=data.decode("ascii"),
        scripts=scripts or f"<script>{(folder / f'{name}.js').read_text('utf-8')}</script>",
    ).encode("utf-8", errors="replace")


def packed_script() -> str:
    script = (files("warplens.outputs") / "assets" / "page.js").read_bytes()
    return base64.b64encode(gzip.compress(script, 9, mtime=0)).decode("ascii")


def packed_document(document: Document) -> bytes:
    extras = document.extras() if document.extras is not None else Extras()
    packer = Packer()
    kept = [choose_events(scene) for scene in extras.scenes]
    scenes = [pack_scene(scene, packer, own) for scene, own in zip(extras.scenes, kept, strict=True)]
    tables = [pack_table(table, packer) for table in (*document.tables, *extras.tables)]
    path = extras.critical_path
    corrected = _corrected(extras.corrected, packer) if extras.corrected else None
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
        finding_targets=[list(row) for row in extras.finding_targets],
        targets=[list(row) for row in extras.evidence_targets],
        kinds=list(KINDS),
        colours=_colours(document, extras),
        kind_colours=KIND_COLOURS,
        spare_colours=list(SPARE_COLOURS),
        scenes=scenes,
        tables=tables,
        tiles=page_tiles(document, extras.overview),
        gains_base=gains_base(document.answer.clock) if document.answer.clock else "",
        verdict=document.answer.verdict,
        gains=[finding.gain for finding in document.answer.findings],
        parts=step_parts(document.answer),
        fix_subsets=extras.fix_subsets,
        critical_path=pack_path(path, extras.scenes[0].trace, kept[0], packer) if path else None,
        corrected=corrected,
        job=pack_job(extras.job, packer) if extras.job else None,
    )
    return packer.packed(header)


def _corrected(times: CorrectedTimes, packer: Packer) -> CorrectedHeader:
    kept = choose_events(times.scene)
    path = times.critical_path
    return CorrectedHeader(
        pack_scene(times.scene, packer, kept),
        pack_path(path, times.scene.trace, kept, packer) if path else None,
    )


def _colours(document: Document, extras: Extras) -> dict[str, str]:
    """Every built-in category's colour, and those of the user's own."""
    frames = [scene.kernels for scene in extras.scenes] or [table.frame for table in document.tables]
    named = [frame["kernel_category"].unique() for frame in frames if "kernel_category" in frame.columns]
    own = {category for names in named for category in names.to_list() if category}
    return {**CATEGORY_COLOURS, **{category: category_colour(category) for category in sorted(own)}}
