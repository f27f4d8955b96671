"""What the site shows besides docs/*.md: the generated reference and pages of the top folder. Called by MkDocs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']https?:|<link[^>]*\shref=["']https?:|url\(["']?https?:"""
)
"""What a browser would fetch from a network by itself; links that a reader may follow are fine."""
FROM_ROOT = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md", "security.md": "SECURITY.md"}

PAGES = {name: path for path, name in FROM_ROOT.items()}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    sys.path.insert(0, str(HERE))
    import reference

    generated = {path: _for_the_site((ROOT / name).read_text("utf-8")) for path, name in FROM_ROOT.items()}
    for path, text in {**reference.pages(), **generated}.items():
        files.append(File.generated(config, path, content=text))
    return files


def _for_the_site(text: str) -> str:
    """Links of a page at the top of the repository, as a page of the site has them."""
    text = re.sub(r"\]\(docs/", "](", text)
    return re.sub(r"\]\((\w+\.md)\)", lambda link: f"]({PAGES.get(link[1], link[1])})", text)


def on_post_build(config: MkDocsConfig) -> None:
    for file in Path(config.site_dir).rglob("*"):
        if file.suffix in (".html", ".css") and (match := FETCHED.search(file.read_text("utf-8"))):
            raise PluginError(f"{file.relative_to(config.site_dir)} fetches from a network: {match.group()}")
