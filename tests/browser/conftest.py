"""Pages in a real browser. Without one the tests are skipped with a word, and fail where CI runs them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from page_profiles import opened_once
from warplens.outputs.html import page_bytes
from warplens_run.base.files import write_whole

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-lcd-text",
]  # fmt: skip
READY = "html[data-ready]"
MOST_KEPT = 8
"""Pages that stay loaded at once: each is a process of its own, with its memory. With 6, nine more would be loaded."""
HANG_MS = 300_000
"""The only limit of these tests, for starting, loading, waiting and saving: a hundred times what each takes."""
FRESH = count()
"""What makes an address another one."""
SETTLED = Path(__file__).with_name("settled.js")
ASK_EVERY_MS = 50
"""Not in every frame, which would make the browser draw all of them."""
SLOW_MS = int(os.environ.get("WARPLENS_SLOW_PAGE", "0"))
"""By how much each timer and frame of the page is late: a test that counts on a quick page fails with 300."""


def missing(what: str) -> Any:
    text = f"{what}: the page is NOT tested (python -m pip install playwright; apt-get install chromium)"
    if os.environ.get("WARPLENS_CI"):
        pytest.fail(text)
    pytest.skip(text)


@dataclass
class Running:
    """A browser, and its pages that no test uses now: to load a file in one takes half as long as in a new page.

    They are tabs of one window: another window takes 1.5 s of CPU.
    """

    window: Any
    end: ExitStack
    idle_pages: list[Any] = field(default_factory=list)
    kept: dict[Path, Opened] = field(default_factory=dict)
    """The pages that stay loaded for those that only look at them, the last used last."""

    def page(self) -> Any:
        return self.idle_pages.pop() if self.idle_pages else new_page(self.window)

    def keep(self, opened: Opened) -> Opened:
        self.kept.pop(opened.path, None)
        if len(self.kept) == MOST_KEPT:
            self.give_back(self.kept.pop(next(iter(self.kept))))
        self.kept[opened.path] = opened
        return opened

    def give_back(self, opened: Opened) -> None:
        opened.leave()
        self.idle_pages.append(opened.page)


RUNNING = pytest.StashKey[Running]()


@pytest.fixture
def running(pytestconfig: pytest.Config) -> Running:
    """One browser for all the files in a row: starting one and its first page takes two seconds."""
    if RUNNING not in pytestconfig.stash:
        pytestconfig.stash[RUNNING] = started()
        pytestconfig.add_cleanup(pytestconfig.stash[RUNNING].end.close)
    return pytestconfig.stash[RUNNING]


def started() -> Running:
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        missing("Playwright is not installed")
    path = next(filter(None, map(shutil.which, BROWSERS)), None) or missing("no Chromium on this machine")
    with ExitStack() as stack:
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS, timeout=HANG_MS)
        stack.callback(browser.close)
        return Running(browser.new_context(), stack.pop_all())


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Playwright's event loop runs as long as the browser is open, and tests elsewhere start their own."""
    if RUNNING in item.config.stash and (nextitem is None or nextitem.path.parent != item.path.parent):
        item.config.stash[RUNNING].end.close()
        del item.config.stash[RUNNING]


class Opened:
    """A page in the browser, with everything it complained about or asked for."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page, self.path = page, path
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.listeners = {
            "console": lambda message: self.complaints.append(f"{message.type}: {message.text}"),
            "pageerror": lambda error: self.complaints.append(f"error: {error}"),
            "request": lambda request: self.requests.append(request.url),
        }
        for event, listener in self.listeners.items():
            page.on(event, listener)

    def leave(self) -> None:
        """Makes the page ready for the next test."""
        for event, listener in self.listeners.items():
            self.page.remove_listener(event, listener)
        self.page.context.clear_permissions()
        self.page.mouse.move(0, 0)

    def goto(self, state: str = "", ready: str = READY) -> Opened:
        # A fresh address each time: changing only what follows # would not load the page again.
        address = f"file://{self.path}"
        if self.page.url.partition("#")[0] == address:
            address += f"?{next(FRESH)}"  # an empty page in between would be a process more, 0.1 s
        self.requests.clear()
        self.page.goto(f"{address}{'#' + state if state else ''}")
        self.js(PRESENT, [ready, HANG_MS])
        return self

    def present(self, selector: str) -> Opened:
        """Once something is there and visible."""
        self.js(PRESENT, [selector, HANG_MS])
        self.page.wait_for_selector(selector)
        return self

    def again(self, state: str) -> Opened:
        """The same page, which stays loaded, at another address: as when a reader types it."""
        self.page.mouse.move(0, 0)
        self.js(TIDY)
        self.settled()  # what the last test chose is in the address by now
        self.js(ADDRESS, state)
        return self.settled()

    def looks(self, *, width: int, height: int, dark: bool) -> Opened:
        """In front, since a tab behind another draws once a second."""
        self.page.bring_to_front()
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(color_scheme="dark" if dark else "light")
        return self

    def settled(self) -> Opened:
        """Once the page has drawn what it was told and has nothing left to do: no frame, no timer."""
        self.js("() => settled()")
        return self

    def until(self, condition: str, argument: Any = None) -> None:
        """Once a script gives something true."""
        self.page.wait_for_function(condition, arg=argument, polling=ASK_EVERY_MS)

    def js(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)

    def state(self, **values: str) -> None:
        self.js("values => warplens.store.setTexts(values)", values)

    def table(self, name: str) -> list[dict[str, Any]]:
        """A table as the page has it for the present selection: exact values by column."""
        return self.js(TABLE, name)

    def changes(self, steps: int, act: str) -> list[int]:
        """How many nodes and attributes of the document each of some steps changes: the work of a page, not its time."""
        return self.js(CHANGES.replace("ACT", act), steps)

    def assert_quiet(self) -> None:
        """No word on the console, and no request but for the file itself and what it offers to save."""
        assert self.complaints == []
        assert [url for url in self.requests if not url.startswith(("file://", "blob:"))] == []
        assert sum(url.startswith("file://") for url in self.requests) == 1


# Told of changes: Playwright's own wait asks in every frame, and so makes the page draw all of them, a fifth of a load.
PRESENT = """([selector, most]) => new Promise((done, fail) => {
  const timer = setTimeout(() => fail(new Error(`no ${selector} after ${most} ms`)), most);
  const look = () => {
    if (!document.querySelector(selector)) return;
    watcher.disconnect();
    clearTimeout(timer);
    done();
  };
  const watcher = new MutationObserver(look);
  const WATCHED = ['class', 'data-ready', 'aria-busy'];
  watcher.observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: WATCHED });
  look();
})"""
# What the address does not hold: a flame graph shown as a list, where the keyboard is, how far each part is scrolled.
TIDY = """() => {
  document.querySelector('dialog[open]')?.close();
  document.querySelector('.flame-tools > button[aria-pressed="true"]')?.click();
  document.activeElement?.blur();
  for (const each of document.querySelectorAll('*')) if (each.scrollTop || each.scrollLeft) each.scrollTo(0, 0);
}"""
ADDRESS = """state => new Promise(done => {
  const before = location.href;
  addEventListener('hashchange', done, { once: true });
  if (location.hash.slice(1) !== state) location.hash = state;
  if (location.href === before) done();
})"""
CHANGES = """async steps => {
  const act = ACT;
  const counts = [];
  const count = records => {
    for (const each of records) counts[counts.length - 1] += Math.max(1, each.addedNodes.length + each.removedNodes.length);
  };
  const observer = new MutationObserver(count);
  observer.observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
  for (let step = 0; step < steps; step++) {
    counts.push(0);
    act(step);
    await settled();
    count(observer.takeRecords());
  }
  observer.disconnect();
  return counts;
}"""
TABLE = """name => {
  const table = warplens.table(name);
  return Array.from({ length: table.rows }, (_, row) => Object.fromEntries(table.columns.map(column => {
    const value = column.values[row];
    if (column.kind === "text") return [column.name, value < 0 ? null : table.texts[value]];
    if (Number.isNaN(value)) return [column.name, null];
    return [column.name, column.kind === "bool" ? Boolean(value) : value];
  })));
}"""


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """The page of a trace, written once for all the workers: it appears whole, so that none has to wait for another."""
    own_folder = tmp_path_factory.getbasetemp()
    folder = (own_folder.parent if "PYTEST_XDIST_WORKER" in os.environ else own_folder) / "pages"
    folder.mkdir(exist_ok=True)

    def write(trace: Path) -> Path:
        path = folder / f"{trace.name}.html"
        if not path.exists():
            write_whole(path, page_bytes(opened_once(trace).document()))
        return path

    return write


def new_page(window: Any) -> Any:
    page = window.new_page()
    page.set_default_timeout(HANG_MS)
    page.add_init_script(f"window.SLOW_MS = {SLOW_MS}; {SETTLED.read_text()}")
    return page


@pytest.fixture
def show(running: Running) -> Iterator[Callable[..., Opened]]:
    """Opens a page file: `show(path, "steps=3", width=1920, dark=True)`."""
    opened = []

    def open_page(
        path: Path, state: str = "", *, width: int = 1280, height: int = 900, dark: bool = False, ready: str = READY
    ) -> Opened:
        opened.append(Opened(running.page(), path).looks(width=width, height=height, dark=dark))
        return opened[-1].goto(state, ready)

    yield open_page
    for each in opened:
        running.give_back(each)


@pytest.fixture
def look(running: Running) -> Callable[..., Opened]:
    """As `show`, for tests of what is the same however the reader came there: the page stays loaded, a second saved each.

    All that the address holds is as in a new page; nothing has the focus, the pointer is in the corner, and all is
    scrolled to its start. What else a page holds (details that are open, branches of a list) is as it was left.
    """

    def look_at(path: Path, state: str = "", *, width: int = 1280, height: int = 900, dark: bool = False) -> Opened:
        kept = running.kept.get(path)
        if kept:
            return running.keep(kept).looks(width=width, height=height, dark=dark).again(state)
        opened = Opened(running.page(), path).looks(width=width, height=height, dark=dark)
        return running.keep(opened.goto(state))

    return look_at
