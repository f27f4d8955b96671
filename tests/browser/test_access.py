"""The page without a mouse and with any eyes: names, order of focus, visible focus, contrast, themes and narrow windows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import ROOT, nightly_after

Show = Callable[..., Any]
Written = Callable[[Path], Path]
EAGER = ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz"
TRAIN = ROOT / "samples" / "faults" / "straggler_step.before.json.gz"
SECTIONS = ["top", "contents", "scope", "timeline", "findings", "steps", "flame", "tables", "roofline", "provenance"]
BUSY = "steps=5&table=roofline&row=2&q=gemm"
"""A state in which every section shows what it can: a selection, a chosen row, a search."""


def busy(page: Any) -> Any:
    """With an event's details as well, and every chart drawn."""
    page.js("() => warplens.store.setTexts({event: `0:${warplens.scene.data.gpuRow[40]}`})")
    for section in ("flame", "roofline", "tables"):
        page.page.locator(f"#{section}").scroll_into_view_if_needed()
    page.present("#flame .is-made")
    page.js("() => document.querySelectorAll('details').forEach(each => each.open = true)")
    page.js("() => scrollTo(0, 0)")
    return page


def test_every_control_has_a_name(written: Written, look: Show) -> None:
    page = busy(look(written(TRAIN), BUSY))
    found = page.js(
        r"""() => {
          const name = element => {
            const by = (element.getAttribute('aria-labelledby') ?? '').split(' ').map(id => document.getElementById(id));
            return (by.map(each => each?.textContent ?? '').join(' ').trim() || element.ariaLabel
              || [...element.labels ?? []].map(each => each.textContent).join(' ').trim()
              || element.textContent.trim() || element.title || '').trim();
          };
          const controls = [...document.querySelectorAll(
            'button, input, select, summary, a[href], [role=button], [role=application], [role=grid], [role=treegrid],'
            + '[tabindex="0"]')];
          // A sign such as − or × is no name: where a text has no letters, something else must speak.
          const unnamed = controls.filter(each => !/[\p{L}\p{N}]/u.test(name(each)));
          return { controls: controls.length, unnamed: unnamed.map(each => each.outerHTML.slice(0, 200)) };
        }"""
    )
    assert found["controls"] > 150
    assert found["unnamed"] == []
    ids = page.js("() => [...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(ids) == len(set(ids))
    refs = page.js(
        "() => ['aria-labelledby', 'aria-describedby', 'aria-activedescendant'].flatMap(name => "
        "[...document.querySelectorAll(`[${name}]`)].flatMap(each => each.getAttribute(name).split(' ')))"
    )
    assert set(refs) <= set(ids)


def test_every_chart_has_a_label_keys_and_a_table(written: Written, look: Show) -> None:
    page = busy(look(written(TRAIN)))
    charts = page.js(
        """() => [...document.querySelectorAll('canvas, .rl-svg, .whole-bar')].map(chart => {
          const widget = chart.closest('[role=application], [role=group], [role=img]')
            ?? chart.closest('section').querySelector('[role=application]');
          return { section: chart.closest('section').id, label: widget?.ariaLabel ?? '',
            keys: widget?.getAttribute('role') === 'img' || widget?.matches('[tabindex="0"]')
              || Boolean(widget?.querySelector('[tabindex="0"]')) };
        })"""
    )
    assert {chart["section"] for chart in charts} == {"steps", "timeline", "flame", "roofline"}
    assert all(len(chart["label"]) > 20 and chart["keys"] for chart in charts), charts
    twins = {"steps": "as a table", "timeline": "As a table", "roofline": "As a table"}
    for section, name in twins.items():
        page.state(table="quality")
        button = page.page.locator(f"#{section}").get_by_role("button", name=name).first
        button.focus()
        page.page.keyboard.press("Enter")
        wanted = {"steps": "kernel_categories", "timeline": "gpu_events", "roofline": "roofline"}[section]
        assert page.js("() => warplens.store.text('table')") == wanted
    page.page.locator("#flame").get_by_role("button", name="As table").press("Enter")
    assert page.page.locator("#flame [role=treegrid]").is_visible()
    assert page.page.locator("h1").count() == 1
    titles = page.js(
        "() => [...document.querySelectorAll('main > section')].map(each => each.getAttribute('aria-labelledby'))"
    )
    assert all(page.page.locator(f"#{title}").inner_text() for title in titles)
    assert len(titles) == 7


def test_tab_goes_down_the_page_and_is_never_held(written: Written, show: Show) -> None:
    page = show(written(TRAIN), BUSY)
    page.js("() => { document.activeElement.blur(); scrollTo(0, 0); }")
    stops = []
    for _ in range(250):
        page.page.keyboard.press("Tab")
        stop = page.js(
            """() => {
              const at = document.activeElement;
              if (at === document.body) return null;
              const style = getComputedStyle(at), box = at.getBoundingClientRect();
              return { where: at.closest('section, header, #contents, #scope')?.id ?? '', what: at.outerHTML.slice(0, 120),
                ring: (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1
                  && style.outlineColor !== 'rgba(0, 0, 0, 0)')
                  || parseFloat(getComputedStyle(at, '::after').borderTopWidth) >= 2,
                seen: box.width > 0 && box.bottom > 0 && box.top < innerHeight };
            }"""
        )
        if stop is None or (stop["where"] == "top" and stops and stops[-1]["where"] == "provenance"):
            break
        stops.append(stop)
    places = [SECTIONS.index(stop["where"]) for stop in stops]
    assert places == sorted(places), [stop["where"] for stop in stops]
    assert set(places) == set(range(len(SECTIONS)))
    assert len(stops) < 200, "a chart or a table is one stop, not one per mark or row"
    assert [stop["what"] for stop in stops if not stop["ring"]] == []
    assert [stop["what"] for stop in stops if not stop["seen"]] == []
    grids = [stop for stop in stops if 'role="grid"' in stop["what"] or 'role="application"' in stop["what"]]
    assert len(grids) == 3, "timeline, flame graph and table"
    backwards = []
    for _ in range(5):
        page.page.keyboard.press("Shift+Tab")
        backwards.append(
            page.js("() => document.activeElement.closest('section, header, #contents, #scope')?.id ?? 'body'")
        )
    assert set(backwards) <= {"provenance", "roofline", "body"}
    page.assert_quiet()


CONTRAST = r"""() => {
  const parse = text => {
    const numbers = text.match(/-?[\d.]+(?:e-?\d+)?/g).map(Number);
    const scale = text.startsWith('color(') ? 255 : 1;
    return [...numbers.slice(0, 3).map(each => each * scale), numbers[3] ?? 1];
  };
  const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a)];
  const luminance = colour => {
    const [r, g, b] = colour.map(each => each / 255).map(each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = element => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.backgroundImage !== 'none') return null;
      const colour = parse(style.backgroundColor);
      layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = { texts: 0, low: [] };
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    if (element.closest('button:disabled, script, style, .offscreen')) continue;
    const ground = back(element);
    if (!ground) continue;
    const style = getComputedStyle(element);
    const isSvg = element instanceof SVGElement;
    const ink = over(parse(isSvg ? style.fill : style.color), ground);
    const [high, low] = [luminance(ink), luminance(ground)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    seen.texts++;
    if (ratio < (large ? 3 : 4.5)) seen.low.push([ratio.toFixed(2), element.outerHTML.slice(0, 120)]);
  }
  return seen;
}"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(written: Written, look: Show, dark: bool) -> None:
    page = busy(look(written(TRAIN), BUSY, dark=dark))
    for state in ({}, {"q": "", "table": "kernels", "filter": "total_us>many"}, {"steps": "", "range": "0-10"}):
        page.state(**state)
        page.settled()
        found = page.js(CONTRAST)
        assert found["texts"] > 200
        assert found["low"] == []
    page.page.keyboard.press("?")
    assert page.js(CONTRAST)["low"] == []


def test_keys_that_work_everywhere(written: Written, look: Show) -> None:
    page = look(written(EAGER), "q=gemm&steps=2")
    dialog = page.page.locator("#help")
    assert not dialog.is_visible()
    for _ in range(2):
        page.page.keyboard.press("?")
    assert dialog.is_visible()
    assert "search kernels" in dialog.inner_text()
    assert page.js("() => document.activeElement.closest('dialog')?.id") == "help"
    page.page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert page.js("() => warplens.store.text('q')") == "gemm", "Escape closed the help and did nothing else"
    page.page.get_by_role("button", name="Help").click()
    dialog.get_by_role("button", name="Close").click()
    assert not dialog.is_visible()
    page.page.keyboard.press("/")
    assert page.js("() => document.activeElement.id") == "search"
    page.page.keyboard.press("ControlOrMeta+a")
    page.page.keyboard.type("a/b?")
    assert page.js("() => warplens.store.text('q')") == "a/b?"
    assert not dialog.is_visible()
    page.page.keyboard.press("Escape")
    assert page.js("() => [warplens.store.text('q'), warplens.store.text('steps')]") == ["", "2"]
    page.page.keyboard.press("Escape")
    page.page.keyboard.press("Escape")
    assert page.js("() => warplens.store.text('steps')") == ""
    page.assert_quiet()


BACKGROUND = "() => getComputedStyle(document.body).backgroundColor"
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(20, 24, 31)"
CORNER = """() => {
  const canvas = document.querySelector('.tl-stage > canvas');
  return [...canvas.getContext('2d').getImageData(canvas.width - 3, canvas.height - 3, 1, 1).data.slice(0, 3)];
}"""


def test_the_theme_is_the_system_s_until_one_is_chosen(written: Written, show: Show) -> None:
    page = show(written(TRAIN), dark=True)
    assert page.js(BACKGROUND) == DARK
    button = page.page.locator("#theme")
    for label, background in (("light", LIGHT), ("dark", DARK), ("as the system", DARK)):
        button.click()
        assert button.get_attribute("aria-label") == f"Theme: {label}"
        assert page.js(BACKGROUND) == background
    page.settled()
    dark = page.js(CORNER)
    page.page.emulate_media(color_scheme="light")
    assert page.js(BACKGROUND) == LIGHT
    page.settled()
    assert page.js(CORNER) != dark, "the charts follow the system too"
    chosen = show(written(TRAIN), "theme=dark")
    assert chosen.js(BACKGROUND) == DARK
    chosen.assert_quiet()


@pytest.mark.parametrize("width", nightly_after(1, [640, 1280, 1920]))
def test_nothing_hangs_over_the_edge(written: Written, look: Show, width: int) -> None:
    """640 px is a window of 1280 at 200 %."""
    page = busy(look(written(EAGER), BUSY.replace("steps=5", "steps=2"), width=width))
    page.settled()
    assert page.js("() => document.documentElement.scrollWidth") <= width
    over = page.js(
        """() => [...document.querySelectorAll('button, input, select, summary')].filter(each => {
          if (!each.checkVisibility({ visibilityProperty: true }) || each.closest('.tv-grid')) return false;
          const { left, right, width } = each.getBoundingClientRect();
          return width > 0 && (left < -1 || right > innerWidth + 1);
        }).map(each => each.outerHTML.slice(0, 160))"""
    )
    assert over == []
