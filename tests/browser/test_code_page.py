"""The page of compiled kernels: lines of Python lead to what became of them, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernel_codes import code_check, long_code, two_checks
from warplens_lab.pages.code_page import code_page_bytes
from warplens_lab.scenes.kernel_code import CodePlace, CodeSource, KernelCode

Show = Callable[..., Any]
LONG = 20_000
MOST_ROWS = 300
MOST_CHANGES = 200  # nodes and attributes of the document per step


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("code"), two_checks())


@pytest.fixture(scope="module")
def long_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("long"), long_code(LONG))


def written(folder: Path, code: KernelCode) -> Path:
    path = folder / "code.html"
    path.write_bytes(code_page_bytes(code))
    return path


def rows(page: Any, kind: str, which: str = "") -> list[str]:
    """Texts of the rows of a pane that are in the document, from top to bottom."""
    found: list[str] = page.js(
        """([kind, which]) => [...document.querySelectorAll(`.text[data-kind="${kind}"] .row${which}`)]
          .sort((a, b) => a.offsetTop - b.offsetTop).map(row => row.querySelector('.code').textContent.trim())""",
        [kind, which],
    )
    return found


def python(page: Any, line: int) -> Any:
    return page.page.locator(".python .row", has=page.page.get_by_role("rowheader", name=str(line), exact=True)).first


def test_it_opens_from_disk_without_a_request_or_a_complaint(page_file: Path, show: Show) -> None:
    page = show(page_file)
    for state in ({"stages": "ttir.ttgir.sass"}, {"raw": "1"}, {"line": "0.13"}, {"check": "1"}, {"facts": "0"}):
        page.state(**state)
        page.settled()
    page.assert_quiet()
    assert len(page.requests) == 1


def test_the_top_says_what_was_compiled(page_file: Path, look: Show) -> None:
    page = look(page_file)
    top = page.page.locator("#top").inner_text()
    for text in ("scale_kernel", "sm90", "registers 24", "BLOCK=1024, num_warps=4", "Triton 3.9.0, 1.3 s to compile"):
        assert text in top
    assert page.page.locator("#top .facts .warning").inner_text() == "narrowest access 32 bits"
    assert page.page.locator("#check option").all_inner_texts() == [
        "sm90 · num_warps=4 – 2 suggestions",
        "gfx942 · num_warps=8 – 2 suggestions",
    ]


def test_texts_are_shown_without_what_only_says_where_they_come_from(page_file: Path, look: Show) -> None:
    page = look(page_file)
    assert rows(page, "ttgir")[3] == "%x_1 = tt.load %x, %mask : tensor<1024x!tt.ptr<f32>>"
    assert rows(page, "sass")[:2] == [
        "/*0000*/       LDC R1, c[0x0][0x28] ;",
        "/*0010*/       IMAD.WIDE R6, R2, 0x4, R6 ;",
    ]
    assert rows(page, "sass", ".is-dim") == ["/*0000*/       LDC R1, c[0x0][0x28] ;", "/*0050*/       EXIT ;"]
    page.page.locator("#raw").check()
    assert rows(page, "ttgir")[0] == '#loc1 = loc("k.py":13:9)'
    assert '//## File "k.py", line 13' in rows(page, "sass")
    numbers = page.page.locator('.text[data-kind="sass"] .no').all_inner_texts()
    assert numbers == [str(at) for at in range(1, 8)]


def test_pointing_at_a_line_lights_its_counterparts_everywhere(page_file: Path, show: Show) -> None:
    page = show(page_file)
    python(page, 13).hover()
    assert [row.split()[2] for row in rows(page, "ttgir", ".is-active")] == ["tt.addptr", "tt.load"]
    assert len(rows(page, "sass", ".is-active")) == 2
    assert page.page.locator('[aria-label="SASS"] .status').inner_text() == "2 of 6"
    page.page.locator('.text[data-kind="sass"] .row', has_text="STG").hover()
    assert rows(page, "python", ".is-active") == ["tl.store(out_ptr + at, y, mask=at < n)"]
    assert rows(page, "ttgir", ".is-active") == ["tt.store %o, %y, %mask : tensor<1024x!tt.ptr<f32>>"]
    # A line that nothing comes from lights nothing, and neither does a place beside the texts.
    python(page, 15).hover()
    assert rows(page, "sass", ".is-active") == []
    page.page.mouse.move(5, 5)
    assert page.js("() => warplens.active") == -1


def test_a_call_lights_what_it_became_and_the_helper_its_own(page_file: Path, show: Show) -> None:
    page = show(page_file)
    python(page, 14).hover()
    assert rows(page, "sass", ".is-active.is-called") == ["/*0030*/       FMUL R8, R8, 2 ;"]
    page.page.locator(".python .row", has_text="return x * 2").hover()
    assert rows(page, "sass", ".is-active") == ["/*0030*/       FMUL R8, R8, 2 ;"]
    assert rows(page, "sass", ".is-called") == []
    # What comes from Triton's library belongs to the line that calls it.
    python(page, 12).hover()
    assert [row.split()[2] for row in rows(page, "ttgir", ".is-active")] == ["tt.make_range"]
    titles = page.js("() => document.querySelector('.python').innerText")
    assert "twice · helpers.py" in titles


def test_lines_from_one_line_share_a_colour(page_file: Path, look: Show) -> None:
    page = look(page_file)
    colours = page.js(
        """() => Object.fromEntries([...document.querySelectorAll('.row')].map(row =>
          [row.querySelector('.code').textContent.trim(), getComputedStyle(row).backgroundColor]))"""
    )
    load = colours["x = tl.load(x_ptr + at, mask=at < n)"]
    assert load == colours["/*0020*/  @!P1 LDG.E.128 R8, desc[UR6][R14.64] ;"]
    assert load == colours["%x_1 = tt.load %x, %mask : tensor<1024x!tt.ptr<f32>>"]
    assert load != colours["tl.store(out_ptr + at, y, mask=at < n)"]
    assert colours["/*0050*/       EXIT ;"] == "rgba(0, 0, 0, 0)"


def test_a_click_brings_the_work_of_the_line_into_sight_and_the_page_stays(long_file: Path, show: Show) -> None:
    page = show(long_file, height=700)
    sass = "() => document.querySelector('.text[data-kind=sass]').scrollTop"
    page.js("() => { document.querySelector('.text[data-kind=sass]').scrollTop = 90000; }")
    python(page, 13).click()
    assert page.js("() => [warplens.store.text('line'), scrollY]") == ["0.13", 0]
    assert page.js(sass) == 0
    assert rows(page, "sass", ".is-cursor") == ["/*ffff*/       LDG.E.128 R8, desc[UR6][R14.64] ;"]
    page.page.get_by_role("region", name="SASS").get_by_role("button", name="Next place").click()
    assert page.js(sass) > 18 * (LONG - 100)
    # A row that is clicked stays where it is; the other texts follow.
    before = page.js(sass)
    page.page.locator('.text[data-kind="sass"] .row', has_text="FFMA").last.click()
    assert page.js(sass) == before
    assert page.js("() => warplens.check.python[warplens.line].text.trim()") in (
        "return x * 2",
        "tl.store(out_ptr + at, y, mask=at < n)",
    )


def test_arrows_go_through_the_lines_that_became_something(page_file: Path, show: Show) -> None:
    page = show(page_file)
    lines = []
    for _ in range(6):
        page.page.keyboard.press("ArrowDown")
        lines.append(page.js("() => warplens.store.text('line')"))
    assert lines == ["0.12", "0.13", "0.14", "0.16", "1.3", "1.3"]
    page.page.keyboard.press("ArrowUp")
    assert page.js("() => warplens.store.text('line')") == "0.16"
    page.page.locator('.text[data-kind="ttgir"]').focus()
    page.page.keyboard.press("Home")
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("ArrowDown")
    assert page.js("() => warplens.store.text('line')") == "0.13"
    page.page.keyboard.press("Escape")
    assert page.js("() => warplens.line") == -1


def test_the_margin_and_the_line_say_what_is_known(page_file: Path, show: Show) -> None:
    page = show(page_file, "line=0.13")
    assert python(page, 13).locator(".count").inner_text() == "2"
    assert python(page, 13).locator(".mark").all_inner_texts() == ["ld 32/128", "remark"]
    assert python(page, 13).locator(".mark.is-bad").count() == 1
    assert python(page, 14).locator(".count").inner_text() == "+1"
    dock = page.page.locator("#dock").inner_text()
    for text in (
        "Line 13",
        "2 machine instructions, 1 in loops",
        "32 bits per thread, 128 would fit",
        "WK102",
        "(2 times)",
    ):
        assert text in dock
    assert "registers\t24\t→\t26\tworse" in dock
    hint = page.page.locator(".hint")
    assert hint.count() == 1
    hint.locator("summary").click()
    assert "pass x_ptr divisible by 16" in hint.inner_text()
    assert page.js("() => warplens.store.text('line')") == "0.13"
    page.page.get_by_role("button", name="Whole kernel").click()
    dock = page.page.locator("#dock").inner_text()
    assert "WK108" in dock and "bank conflicts are not modelled" in dock and "a note on all" in dock
    page.page.locator("#dock").get_by_role("button", name="k.py:13").click()
    assert page.js("() => warplens.store.text('line')") == "0.13"


def test_a_text_is_searched(long_file: Path, show: Show) -> None:
    page = show(long_file, "stages=sass")
    page.page.keyboard.press("/")
    page.page.keyboard.type("ldg.e")
    found = page.page.locator('[aria-label="SASS"] .find-status')
    assert found.inner_text() == "1 of 2"
    page.page.keyboard.press("Enter")
    assert found.inner_text() == "2 of 2"
    assert page.page.locator('.text[data-kind="sass"] mark').all_inner_texts() == ["LDG.E"]
    page.page.keyboard.type("xyz")
    assert found.inner_text() == "not found"
    page.page.keyboard.press("Escape")
    page.page.keyboard.press("Escape")
    # The browser's own search would see only the rows in the document.
    page.page.keyboard.press("Control+f")
    assert page.js("() => document.activeElement.className") == "find"


def test_one_to_three_texts_stand_beside_the_python(page_file: Path, show: Show) -> None:
    page = show(page_file)
    shown = "() => [...document.querySelectorAll('.panes > .pane')].map(pane => pane.ariaLabel)"
    assert page.js(shown) == ["Python", "TTGIR", "SASS"]
    page.page.keyboard.press("1")
    assert page.js(shown) == ["Python", "TTIR", "TTGIR", "SASS"]
    page.page.get_by_role("button", name="TTGIR").click()
    page.page.get_by_role("button", name="SASS").click()
    assert page.js(shown) == ["Python", "TTIR"]
    page.state(stages="ttgir.sass", check="1")
    # What NVIDIA's machine code was is AMD's now.
    assert page.js(shown) == ["Python", "TTGIR", "AMDGCN"]
    width = "() => document.querySelector('.panes > .pane').clientWidth"
    before = page.js(width)
    page.page.get_by_role("separator").first.focus()
    page.page.keyboard.press("ArrowRight")
    assert page.js(width) > before + 20


def test_another_compilation_is_chosen_and_compared(page_file: Path, show: Show) -> None:
    page = show(page_file, "line=0.16")
    page.page.locator("#check").select_option("1")
    assert "gfx942" in page.page.locator("#top .badge").inner_text()
    assert page.js("() => warplens.store.text('line')") == "0.16"
    assert rows(page, "amdgcn", ".is-cursor") == ["/*0040*/                   STG.E.128 desc[UR6][R2.64], R8 ;"]
    page.page.get_by_role("button", name="Compare all").click()
    assert "32 bits" in page.page.locator("#all").inner_text()
    page.page.get_by_role("button", name="scale_kernel on sm90").click()
    assert page.js("() => warplens.checkNumber") == 0


@pytest.mark.parametrize("dark", [False, True])
def test_a_narrow_window_shows_one_text_at_a_time(page_file: Path, show: Show, dark: bool) -> None:
    page = show(page_file, "line=0.13", width=420, dark=dark)
    assert page.js("() => document.documentElement.scrollWidth") <= 420
    assert page.page.locator(".panes > .pane").count() == 1
    page.page.get_by_role("tab", name="SASS").click()
    assert rows(page, "sass", ".is-cursor") == ["/*0020*/  @!P1 LDG.E.128 R8, desc[UR6][R14.64] ;"]
    page.page.keyboard.press("ArrowRight")
    assert page.page.get_by_role("tab", selected=True).inner_text() == "Python"
    background = page.js("() => getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(20, 24, 31)" if dark else "rgb(255, 255, 255)")


def test_names_that_look_like_markup_stay_text(tmp_path: Path, show: Show) -> None:
    nasty = "<img src=x onerror=\"document.title='owned'\">"
    check = code_check([(f"        /*0000*/                   MOV R1, {nasty}", None)])
    sources = (CodeSource(0, 10, nasty, (nasty, nasty)), CodeSource(1, 1, nasty, (nasty,)))
    check = replace(check, kernel=nasty, config=nasty, sources=sources, notes=(nasty,), failure=nasty)
    page = show(written(tmp_path, KernelCode(nasty, (check,), (nasty,))))
    assert page.page.locator("img").count() == 0
    assert page.page.locator("h1").inner_text() == nasty
    page.assert_quiet()


def test_what_did_not_compile_is_said_at_its_line(tmp_path: Path, show: Show) -> None:
    failed = replace(code_check(), texts=(), chains=(), lines=(), facts=(), suggestions=(), remarks=(), notes=(),
                     failure="arange's range must be a power of 2", failure_place=CodePlace(0, 12, 10))  # fmt: skip
    page = show(written(tmp_path, KernelCode("scale_kernel", (failed,))))
    assert "does not compile (k.py:12:10): arange's range" in page.page.locator("#top").inner_text()
    assert page.page.locator(".is-failure").inner_text() == "arange's range must be a power of 2"
    page.assert_quiet()


def test_every_control_has_a_name_and_references_hold(page_file: Path, show: Show) -> None:
    page = show(page_file, "line=0.13")
    page.js("() => document.querySelectorAll('details').forEach(each => each.open = true)")
    page.page.keyboard.press("?")
    assert "previous, next line of the source" in page.page.locator("#help").inner_text()
    unnamed = page.js(
        r"""() => [...document.querySelectorAll('button, input, select, summary, [role], [tabindex="0"]')]
          .filter(each => !['row', 'gridcell', 'status', 'alert', 'tabpanel'].includes(each.role))
          .filter(each => !/[\p{L}\p{N}]/u.test([each.ariaLabel, ...[...each.labels ?? []].map(l => l.textContent), each.textContent].join(' ')))
          .map(each => each.outerHTML.slice(0, 120))"""
    )
    assert unnamed == []
    ids = page.js("() => [...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(ids) == len(set(ids))
    active = page.js(
        "() => [...document.querySelectorAll('[aria-activedescendant]')].map(each => each.getAttribute('aria-activedescendant'))"
    )
    assert len(active) == 3 and set(active) <= set(ids)


def test_of_twenty_thousand_lines_only_those_in_sight_are_in_the_document(long_file: Path, show: Show) -> None:
    page = show(long_file, "line=0.13", width=1500)
    assert page.page.locator(".row").count() < MOST_ROWS
    # Half of a screen at a time.
    scrolled = page.changes(20, "() => { document.querySelector('.text[data-kind=sass]').scrollTop += 250; }")
    assert max(scrolled) < MOST_CHANGES
    assert page.page.locator(".row").count() < MOST_ROWS
    hovered = page.changes(20, "step => warplens.hover(step % 2 ? 3 : 6)")
    assert max(hovered) < MOST_CHANGES


def test_a_damaged_page_says_so(page_file: Path, show: Show, tmp_path: Path) -> None:
    html = page_file.read_text()
    place = html.index('id="data">') + 500
    broken = tmp_path / "broken.html"
    broken.write_text(html[:place] + html[place + 400 :])
    page = show(broken, ready=".failed")
    assert "cannot be shown" in page.page.locator(".failed").inner_text()
