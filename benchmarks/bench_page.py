"""The page's bars: size, cost of writing it, and how it behaves in a headless browser.

    python benchmarks/bench_page.py TRACE [--table-trace TRACE] [--runs 5] [--json OUT]

Needs Chromium and Playwright. CPU seconds are of whole `warplens` processes, with and without the page, in turns; times
in the browser are its own clock's. Prints one line per bar and fails where one does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import warplens
from warplens.outputs.html.page import packed_script

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
ASSETS = Path(warplens.__file__).parent / "outputs" / "assets"
FRAMES = """
window.frames_ms = []; window.first_frame_ms = 0;
document.addEventListener("warplens:frame", event => {
  if (!window.first_frame_ms) window.first_frame_ms = performance.now();
  window.frames_ms.push(event.detail);
});
"""
# From the click on a heading to the frame after the rows are in place.
SORT = """name => new Promise(resolve => {
  const heading = document.querySelector(`#tables [role="columnheader"][data-column="${name}"] button`);
  const start = performance.now();
  heading.click();
  requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - start)));
})"""


@dataclass(frozen=True)
class Bar:
    name: str
    value: float
    limit: float
    unit: str

    @property
    def holds(self) -> bool:
        return self.value <= self.limit


def main() -> int:
    args = parse_arguments()
    bars = [
        *written_bars(Path(args.trace), args.runs),
        *browser_bars(Path(args.trace), Path(args.table_trace or args.trace)),
    ]
    for bar in bars:
        print(
            f"{'ok  ' if bar.holds else 'OVER'}  {bar.name:<44} {bar.value:>12,.2f} {bar.unit:<9} bar {bar.limit:,.2f}"
        )
    if args.json:
        Path(args.json).write_text(json.dumps([asdict(bar) for bar in bars], indent=1))
    return 0 if all(bar.holds for bar in bars) else 1


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("trace")
    parser.add_argument("--table-trace", help="a trace with about 100,000 host events, for sorting (default: the same)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json")
    return parser.parse_args()


def written_bars(trace: Path, runs: int) -> list[Bar]:
    """How large the file is, and what writing it adds to a cold report."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        plain, whole = [], []
        for _ in range(runs):
            plain.append(cpu_seconds(trace))
            whole.append(cpu_seconds(trace, "-o", str(page), "--force"))
        events = len(warplens.open(trace, cache=False).trace)
        size = page.stat().st_size
    bundle = len(packed_script()) + (ASSETS / "page.css").stat().st_size
    added = statistics.median(whole) - statistics.median(plain)
    print(
        f"{trace.name}: {events:,} events; report {statistics.median(plain):.2f} s CPU, page {size:,} bytes",
        file=sys.stderr,
    )
    return [
        Bar("page, bytes per event beyond 300 kB", (size - 300_000) / events, 6, "B"),
        Bar("script and style in the page", bundle / 1000, 250, "kB"),
        Bar("writing the page, share of the report's CPU", 100 * added / statistics.median(plain), 50, "%"),
    ]


def cpu_seconds(trace: Path, *arguments: str) -> float:
    """User and system time of one cold report."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "warplens", "report", str(trace), "--no-cache", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def browser_bars(trace: Path, table_trace: Path) -> list[Bar]:
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        raise SystemExit("no Chromium on this machine")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        page = open_page(browser, written(trace, folder))
        bars = [first_frame(browser, written(trace, folder)), *pan_and_zoom(page)]
        bars += sorting(open_page(browser, written(table_trace, folder), "table=host_events"))
        browser.close()
    return bars


def written(trace: Path, folder: str) -> Path:
    page = Path(folder) / f"{trace.name}.html"
    if not page.exists():
        warplens.report(trace, page)
    return page


def open_page(browser: Any, path: Path, state: str = "") -> Any:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.add_init_script(FRAMES)
    page.goto(f"file://{path}#{state}")
    page.wait_for_selector("html[data-ready]")
    page.wait_for_function("() => window.first_frame_ms > 0")
    return page


def first_frame(browser: Any, path: Path) -> Bar:
    """From the start of loading to the first drawn timeline; the median of five fresh pages."""
    times = []
    for _ in range(5):
        page = open_page(browser, path)
        times.append(page.evaluate("window.first_frame_ms"))
        page.close()
    return Bar("first drawn frame after open", statistics.median(times) / 1000, 1.5, "s")


def pan_and_zoom(page: Any) -> list[Bar]:
    """Keys and wheel as a person uses them: zoom in, move about, zoom out."""
    page.locator("#timeline canvas").first.scroll_into_view_if_needed()
    page.locator("#timeline [tabindex='0']").first.focus()
    page.evaluate("window.frames_ms = []")
    for keys in (
        "wwwwwwww",
        "dddddddddddd",
        "aaaaaaaaaaaa",
        "wwwwwwww",
        "dddddddddddd",
        "ssssssssssssssss",
        "dddd",
        "aaaa",
    ) * 3:
        for key in keys:
            page.keyboard.press(key)
            page.evaluate("() => new Promise(requestAnimationFrame)")
    drawn = page.evaluate("window.frames_ms")
    print(f"{len(drawn)} frames drawn", file=sys.stderr)
    return [
        Bar("pan and zoom, median frame", statistics.median(drawn), 16, "ms"),
        Bar("pan and zoom, 95th percentile", statistics.quantiles(drawn, n=20)[-1], 50, "ms"),
    ]


def sorting(page: Any) -> list[Bar]:
    rows = page.evaluate(
        "() => Number(document.querySelector('#tables [role=grid]').getAttribute('aria-rowcount')) - 1"
    )
    bars = []
    for column in ("dur_us", "name"):
        times = [page.evaluate(SORT, column) for _ in range(5)]
        bars.append(Bar(f"sort of {rows:,} rows by {column}", max(times) / 1000, 0.3 * max(1, rows / 100_000), "s"))
    return bars


if __name__ == "__main__":
    sys.exit(main())
