"""Takes docs/page-*.png, docs/kernel-*.png and docs/layout.png, the pictures of the pages in the guides: Chromium shows
the reports of two bundled traces, two bundled kernels and a tile of shared memory.

Needs `python -m pip install -e '.[dev,dev-torch]'` (Playwright, Pillow, Triton) and Debian's chromium.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warplens

KERNELS = Path("samples/kernels").resolve()
SAMPLE = "samples/kineto/gpt2_train_step.json.gz"
SERVED = "samples/serving/served.json.gz"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ["--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb"]
MOST_BYTES = 250_000
MARGIN_PX = 10
PLACE = """([id, margin]) => {
  scrollTo(0, 0);
  if (id === 'top') return;
  document.getElementById(id).scrollIntoView();  // the bar of sections is now where it stays
  const bar = document.getElementById('contents')?.getBoundingClientRect().bottom ?? 0;
  scrollBy(0, document.getElementById(id).getBoundingClientRect().top - bar - margin);
}"""


@dataclass(frozen=True)
class Shot:
    """A picture of the window (`at`: the section at its upper edge) or of one `section` alone."""

    name: str
    width: int
    height: int
    dark: bool = False
    at: str = "top"
    section: str = ""
    state: str = ""


def shots(profile: warplens.Profile) -> list[Shot]:
    # The recorded step, and in it the longest kernel: what a reader sees after a click.
    events = profile.gpu_events()
    first, last = events["start_ns"].min(), (events["start_ns"] + events["dur_ns"]).max()
    kernel = events.sort("dur_ns")["id"][-1]
    step = f"view={first - 1_000_000}-{last + 1_000_000}"
    chosen = f"{step}&event=0:{kernel}"
    return [
        Shot("page-light-1280", 1280, 900, state="fixes=0,1"),
        Shot("page-dark-1280", 1280, 900, dark=True, at="timeline", state=step),
        Shot("page-light-1920", 1920, 1080, at="timeline", state=chosen),
        Shot("page-dark-1920", 1920, 1080, dark=True),
        Shot("page-timeline", 1280, 1000, section="timeline", state=f"{step}&path=1"),
        Shot("page-flame", 1280, 1000, section="flame"),
        Shot("page-roofline", 1280, 1000, section="roofline"),
    ]


def main() -> None:
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        raise SystemExit("no Chromium on this machine: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        report = Path(folder) / "report.html"
        profile = warplens.report(SAMPLE, report, cache=False)
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        for shot in shots(profile):
            keep(shot.name, take(browser, report, shot))
        warplens.report(SERVED, served := Path(folder) / "served.html", cache=False)
        keep("page-serving", take(browser, served, Shot("page-serving", 1900, 1000, section="serving")))
        for shot, content in kernel_shots():
            page = Path(folder) / f"{shot.name}.html"
            page.write_bytes(content)
            keep(shot.name, take_window(browser, page, shot))
        browser.close()


def kernel_shots() -> list[tuple[Shot, bytes]]:
    from warplens_lab.checking.checks import check_kernels
    from warplens_lab.code.view import kernel_code
    from warplens_lab.compiling.request import CompileRequest
    from warplens_lab.layouts.exploring import explore
    from warplens_lab.layouts.reading import read_tile
    from warplens_lab.layouts.scene import layout_scene
    from warplens_lab.pages.code_page import code_page_bytes
    from warplens_lab.pages.kernel_page import kernel_page_bytes
    from warplens_lab.pages.layout_page import layout_page_bytes
    from warplens_lab.tracing.scene import kernel_scene
    from warplens_lab.tracing.watching.recorder import RecordingOptions
    from warplens_lab.tracing.watching.script import traced_script

    transpose = layout_page_bytes(layout_scene(explore([read_tile("float[32][32]")])))
    traced = traced_script(KERNELS / "better_matmul.py", options=RecordingOptions(values=True)).trace
    checked = check_kernels(CompileRequest(str(KERNELS / "slow_matmul.py")))
    return [
        (Shot("kernel-trace", 1640, 1080, state="program=1&op=3"), kernel_page_bytes(kernel_scene(traced))),
        (Shot("kernel-code", 1640, 730), code_page_bytes(kernel_code(checked))),
        (Shot("layout", 1880, 960, state="show=conflicts&access=1"), transpose),
    ]


def keep(name: str, png: bytes) -> None:
    picture = smaller(png)
    if len(picture) > MOST_BYTES:
        raise SystemExit(f"{name}.png takes {len(picture):,} bytes, more than {MOST_BYTES:,}")
    Path(f"docs/{name}.png").write_bytes(picture)


def take_window(browser: Any, file: Path, shot: Shot) -> bytes:
    page = browser.new_page(viewport={"width": shot.width, "height": shot.height}, color_scheme="light")
    page.goto(f"file://{file}{'#' + shot.state if shot.state else ''}")
    page.wait_for_selector("html[data-ready]")
    page.wait_for_timeout(300)
    picture: bytes = page.screenshot(animations="disabled")
    page.close()
    return picture


def take(browser: Any, report: Path, shot: Shot) -> bytes:
    theme = "dark" if shot.dark else "light"
    page = browser.new_page(viewport={"width": shot.width, "height": shot.height}, color_scheme=theme)
    page.goto(f"file://{report}{'#' + shot.state if shot.state else ''}")
    page.wait_for_selector("html[data-ready]")
    page.locator("#flame").scroll_into_view_if_needed()  # charts are drawn when they come near
    page.wait_for_selector("#flame .is-made")
    if shot.section:
        # Alone: with a margin, and without the bar that stays at the window's upper edge.
        page.add_style_tag(content=f"#contents {{ display: none }} #{shot.section} {{ padding: {MARGIN_PX}px }}")
    page.evaluate(PLACE, [shot.section or shot.at, MARGIN_PX])
    page.wait_for_timeout(300)
    picture: bytes = (page.locator(f"#{shot.section}") if shot.section else page).screenshot(animations="disabled")
    page.close()
    return picture


def smaller(png: bytes) -> bytes:
    """The same in 256 colours, the most frequent ones exactly: the repository keeps every picture for ever."""
    import numpy as np
    from PIL import Image

    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(np.int32)
    packed, place, count = np.unique(pixels @ (1 << 16, 1 << 8, 1), return_inverse=True, return_counts=True)
    colours = packed[:, None] >> np.array([16, 8, 0]) & 255
    palette = colours[np.argsort(-count, kind="stable")[:256]]
    nearest = ((colours[:, None] - palette[None]) ** 2).sum(axis=2).argmin(axis=1).astype(np.uint8)
    few = Image.fromarray(nearest[place.reshape(pixels.shape[:2])])
    few.putpalette(palette.astype(np.uint8).tobytes())
    stream = io.BytesIO()
    few.save(stream, "PNG", optimize=True)
    return stream.getvalue()


if __name__ == "__main__":
    main()
