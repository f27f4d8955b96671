"""Pictures of the page at two widths, one in each theme: not blank, in the theme's colours, nothing cut off.

They are kept in the folder that WARPLENS_SCREENSHOTS names; docs/scripts/make_screenshots.py takes those of the guides.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import ROOT

Show = Callable[..., Any]
Written = Callable[[Path], Path]
EAGER = ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz"
BACKGROUNDS = {"light": 0xFFFFFF, "dark": 0x14181F}
CHARTS = ("steps", "timeline", "flame", "roofline")


def shares(png: bytes) -> dict[int, float]:
    """The picture's colours (0xrrggbb), each with its share of the pixels."""
    from PIL import Image  # comes with Matplotlib

    rgb = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(np.int32)
    colours, counts = np.unique(rgb @ (1 << 16, 1 << 8, 1), return_counts=True)
    return dict(zip(colours.tolist(), (counts / counts.sum()).tolist(), strict=True))


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), pytest.param("dark", 1920, marks=pytest.mark.nightly)])
def test_the_page_in_pictures(written: Written, show: Show, tmp_path: Path, width: int, theme: str) -> None:
    folder = Path(os.environ.get("WARPLENS_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    page = show(written(EAGER), width=width, height=1080, dark=theme == "dark")
    pictures = {"top": page.page.screenshot(animations="disabled")}
    for chart in CHARTS:
        section = page.page.locator(f"#{chart}")
        section.scroll_into_view_if_needed()
        if chart == "flame":
            page.page.wait_for_selector("#flame .is-made")
        page.settled()
        pictures[chart] = section.screenshot(animations="disabled")
    kinds = page.js("() => warplens.header.colours")
    gemm = int(kinds["GEMM"].removeprefix("#"), 16)
    for name, picture in pictures.items():
        (folder / f"{name}-{theme}-{width}.png").write_bytes(picture)
        found = shares(picture)
        assert len(found) > 40, name
        assert found.get(BACKGROUNDS[theme], 0) > 0.1, name
        assert found.get(BACKGROUNDS["dark" if theme == "light" else "light"], 0) < 0.05, name
        pale = sum(share for colour, share in found.items() if min(colour >> 16, colour >> 8 & 255, colour & 255) > 190)
        assert pale > 0.8 if theme == "light" else pale < 0.06, name
        if name in ("steps", "timeline", "flame") and theme == "light":
            # The heaviest category has the palette's own colour on every chart of GPU time.
            assert found.get(gemm, 0) > 0.001, name
    page.assert_quiet()
