"""The page of traced kernels: programs, operations, maps, products, banks and faults say what the trace says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernel_traces import BLOCK, copy_past_the_end, matmul, scaled, trace_of
from support import nightly_after
from warplens_lab.pages.kernel_page import kernel_page_bytes
from warplens_lab.scenes.kernel_scene import Mask, Pattern
from warplens_lab.tracing.records import Events, TensorInfo, TracedLaunch
from warplens_lab.tracing.scene import kernel_scene

Show = Callable[..., Any]
M, N, K = 40, 24, 36
MOST_CHANGES = 200  # nodes and attributes of the document per step


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product with masks at its edges, then a copy that reads past the end."""
    folder = tmp_path_factory.mktemp("kernel")
    path = folder / "kernel.html"
    path.write_bytes(kernel_page_bytes(kernel_scene(trace_of(matmul(folder), copy_past_the_end(folder)))))
    return path


def written(folder: Path, *launches: TracedLaunch, sample: float | None = None) -> Path:
    path = folder / "page.html"
    path.write_bytes(kernel_page_bytes(kernel_scene(trace_of(*launches, sample=sample))))
    return path


def said(page: Any, tensor: str) -> str:
    text: str = page.page.locator(f'[data-tensor="{tensor}"] .status').inner_text()
    return text


def test_it_opens_from_disk_without_a_request_or_a_complaint(page_file: Path, show: Show) -> None:
    page = show(page_file)
    for state in (
        {"show": "programs"},
        {"show": "after"},
        {"op": "2"},
        {"launch": "1"},
        {"banks": "64.64.2.matrix.0.1"},
    ):
        page.state(**state)
        page.settled()
    page.assert_quiet()
    assert len(page.requests) == 1


def test_the_top_says_what_was_launched(page_file: Path, look: Show) -> None:
    page = look(page_file)
    top = page.page.locator("#top").inner_text()
    assert page.page.locator("h1").inner_text() == "product"
    for text in (
        "grid 3 × 2 × 1",
        "loads 21.4 KiB",
        "stores 3.75 KiB",
        "computes 147 kFLOP",
        "5.73 FLOP/byte",
        "Triton 3.9.0",
    ):
        assert text in top
    assert "all 6 programs traced" in top


def test_launches_can_be_chosen(page_file: Path, show: Show) -> None:
    page = show(page_file, "program=5&op=3")
    options = page.page.locator("#launch option").all_inner_texts()
    assert [text.split(":")[0] for text in options] == ["0", "1"]
    assert "1 fault" in options[1]
    page.page.locator("#launch").select_option("1")
    assert page.page.locator("h1").inner_text() == "shifted"
    # Until a program is chosen, it is the first that did something wrong.
    [program, faulty, op] = page.js("() => [warplens.ids(), warplens.launch.faults[0].program, warplens.op]")
    assert program == faulty != [0, 0, 0]
    assert op == -1
    page.settled()
    assert page.js("() => location.hash") == "#launch=1"


def test_a_program_is_picked_by_number_scrubber_pointer_and_keys(page_file: Path, show: Show) -> None:
    page = show(page_file)
    program = "() => warplens.ids()"
    page.page.locator('[data-axis="x"]').fill("2")
    page.page.locator('[data-axis="x"]').press("Enter")
    assert page.js(program) == [2, 0, 0]
    page.page.locator("#scrubber").fill("3")
    assert page.js(program) == [1, 1, 0]
    page.page.locator("h1").click()
    page.page.keyboard.press("]")
    assert page.js(program) == [2, 0, 0]
    page.page.keyboard.press("[")
    assert page.js(program) == [1, 1, 0]
    box = page.page.locator("#programs canvas").bounding_box()
    page.page.mouse.click(box["x"] + box["width"] * 0.75, box["y"] + box["height"] * 0.1)
    assert page.js(program) == [0, 1, 0]
    page.page.locator("#programs .picture").focus()
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("Enter")
    assert page.js(program) == [1, 1, 0]
    assert "Program (1, 1, 0), 4 of 6 traced" in page.page.locator("#program-status").inner_text()


def test_operations_are_linked_to_their_lines(page_file: Path, show: Show) -> None:
    page = show(page_file)
    options = page.page.locator(".op")
    assert options.count() == 11
    options.nth(3).click()
    assert page.js("() => [warplens.op, warplens.opName(warplens.opRow)]") == [2, "dot"]
    current = page.page.locator(".is-current")
    assert current.count() == 1
    assert "total = tl.dot(a, b, total)" in current.inner_text()
    page.page.locator(".ops").focus()
    page.page.keyboard.press("End")
    assert "tl.store(c_ptr, total)" in page.page.locator(".is-current").inner_text()
    # A line's button goes round the operations of that line.
    line = page.page.get_by_role("button", name="Line 7:")
    places = []
    for _ in range(4):
        line.click()
        places.append(page.js("() => warplens.op"))
    assert places == [1, 4, 7, 1]


def test_elementwise_operations_are_operations_with_their_lines(tmp_path: Path, show: Show) -> None:
    page = show(written(tmp_path, scaled(tmp_path)))
    options = page.page.locator(".op")
    assert [words.split("\n") for words in options.all_inner_texts()[1:]] == [
        ["0", "line 2", "load", "x_ptr", "64", "64 of 64"],
        ["1", "line 2", "mul", "64"],
        ["2", "line 2", "where", "64"],
        ["3", "line 3", "store", "out_ptr", "64", "64 of 64"],
    ]
    options.nth(2).click()
    assert "tl.load(x_ptr + 64)" in page.page.locator(".is-current").inner_text()
    assert "256 FLOP" in page.page.locator("table.code tr.has-ops").first.inner_text()


def test_masked_lanes_of_loads_and_stores_are_apart(tmp_path: Path, show: Show) -> None:
    page = show(written(tmp_path, scaled(tmp_path)), "program=3")
    assert "masked 25 % of stores" in " ".join(page.page.locator(".facts").inner_text().split())
    rows = page.js(
        "() => [...document.querySelectorAll('#summary tr')].map(row => [...row.cells].map(c => c.innerText))"
    )
    assert ["Masked lanes of loads", "0 %", "0 %"] in rows
    assert ["Masked lanes of stores", "100 %", "25 %"] in rows


@pytest.mark.parametrize("program", nightly_after(2, range(6)))
def test_maps_say_what_each_program_touches(page_file: Path, look: Show, program: int) -> None:
    page = look(page_file, f"program={program}")
    top, left = program // 2 * BLOCK, program % 2 * BLOCK
    bottom, right = min(M, top + BLOCK), min(N, left + BLOCK)
    loads = (bottom - top) * K
    assert said(page, "a_ptr").startswith(f"The program loads {loads} elements within [{top}:{bottom}, 0:{K}]")
    masked = 3 * BLOCK * BLOCK - loads
    assert f"{masked} lanes masked" in said(page, "a_ptr")
    assert f"within [0:{K}, {left}:{right}]" in said(page, "b_ptr")
    assert f"stores {(bottom - top) * (right - left)} elements within [{top}:{bottom}, {left}:{right}]" in said(
        page, "c_ptr"
    )


def colours(page: Any, tensor: str, rows: int, columns: int) -> Any:
    """Red, green and blue at the middle of each element of a map."""
    shown = page.js(
        """([tensor, rows, columns]) => {
          const canvas = document.querySelector(`[data-tensor="${tensor}"] canvas`);
          const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
          const tall = Math.floor(canvas.height / rows), wide = Math.floor(canvas.width / columns);
          const colour = (y, x) => Array.from(data.slice(4 * (y * canvas.width + x), 4 * (y * canvas.width + x) + 3));
          return Array.from({ length: rows }, (_, row) => Array.from({ length: columns }, (_, column) =>
            colour(row * tall + (tall >> 1), column * wide + (wide >> 1))));
        }""",
        [tensor, rows, columns],
    )
    return np.array(shown, int)


def test_the_picture_itself_marks_the_elements_that_are_loaded(page_file: Path, look: Show) -> None:
    page = look(page_file, "program=5&op=0")
    # Room for the masked lanes beyond the edge: 48 rows, 48 columns.
    cells = colours(page, "a_ptr", 48, 48)
    blue = (np.abs(cells - [0x00, 0x72, 0xB2]).sum(axis=2)) < 10
    expected = np.zeros((48, 48), bool)
    expected[32:40, 0:16] = True
    assert np.array_equal(blue, expected)


def test_pointing_at_an_element_tells_its_value_and_who_touches_it(page_file: Path, show: Show) -> None:
    page = show(page_file, "program=5")
    picture = page.page.locator('[data-tensor="a_ptr"] .picture')
    picture.focus()
    for _ in range(4):
        page.page.keyboard.press("Shift+ArrowDown")
    page.page.keyboard.press("ArrowRight")
    tip = page.page.locator(".tip").inner_text()
    assert "a_ptr[32, 1]" in tip
    value = (32 * K + 1) % 7 - 3
    assert f"value before\t{value}" in tip
    assert "0 load, line 6" in tip
    assert "lane 1" in tip
    page.page.keyboard.press("Escape")
    assert page.page.locator(".tip").is_hidden()


def test_counts_of_all_programs_are_exact(page_file: Path, look: Show) -> None:
    page = look(page_file, "show=programs")
    page.page.wait_for_function("() => !document.querySelector('#tensors').innerText.includes('counting')")
    text = page.page.locator('[data-tensor="a_ptr"]').inner_text()
    assert f"touched by up to 2 programs; {M * K:,} elements touched, {M * K:,} of them by several programs" in text
    text = page.page.locator('[data-tensor="b_ptr"]').inner_text()
    assert "touched by up to 3 programs" in text
    text = page.page.locator('[data-tensor="c_ptr"]').inner_text()
    assert f"up to 1 program; {M * N:,} elements touched, 0 of them by several programs" in text


def test_a_product_shows_its_factors_and_the_result(page_file: Path, show: Show) -> None:
    page = show(page_file, "program=0&op=5")
    text = page.page.locator("#dot").inner_text()
    assert "A: a_ptr, loaded in operation 3, line 6" in text
    assert "B: b_ptr, loaded in operation 4, line 7" in text
    assert "8.19 kFLOP" in text
    picture = page.page.locator(".tile-c .picture")
    picture.focus()
    page.page.keyboard.press("ArrowRight")
    a = (np.arange(M * K, dtype=np.float64).reshape(M, K) % 7 - 3)[0, : 2 * BLOCK]
    b = (np.arange(K * N, dtype=np.float64).reshape(K, N) % 5 - 2)[: 2 * BLOCK, 1]
    tip = page.page.locator(".tip").inner_text()
    assert "C[0, 1]" in tip
    assert f"\n{a @ b:g}\n" in tip
    page.state(op="")
    assert "3 matrix products" in page.page.locator("#dot").inner_text()
    page.state(launch="1")
    assert page.page.locator("#dot").is_hidden()


def test_the_summary_is_the_program_and_the_launch(page_file: Path, look: Show) -> None:
    page = look(page_file, "program=5")
    rows = {
        row[0]: row[1:]
        for row in page.js(
            "() => [...document.querySelectorAll('#summary tr')].map(row => [...row.cells].map(c => c.innerText))"
        )
    }
    assert rows["Bytes loaded"] == ["2,304", "21,888"]
    assert rows["Bytes stored"] == ["256", "3,840"]
    assert rows["FLOPs of matrix products"] == ["24,576", "147,456"]
    assert rows["a_ptr"] == ["11,520", "5,760", "5,760", "2"]


def test_a_fault_leads_to_its_program_and_operation(page_file: Path, look: Show) -> None:
    page = look(page_file, "launch=1")
    text = page.page.locator("#faults").inner_text()
    assert "(3, 0, 0)" in text
    assert "256" in text
    page.page.locator(".fault").click()
    assert page.js("() => [warplens.program, warplens.op]") == [3, 0]
    assert "64 lanes masked or out of bounds" in said(page, "x_ptr")
    assert "x = tl.load(x_ptr + 64)" in page.page.locator(".is-current").inner_text()
    page.state(launch="0")
    assert page.page.locator("#faults").is_hidden()


@pytest.mark.parametrize(
    ("layout", "conflicts"),
    [
        # 32 lanes down a column of 32 floats: one bank, 31 extra turns for each of 32 columns.
        ("32.32.4.column.0.0", 992),
        ("32.32.4.column.1.0", 0),
        ("32.32.4.row.0.0", 0),
        # 8 rows of 128 bytes, 16 bytes each: the same 4 banks 8 times; 64 such matrices.
        ("64.64.2.matrix.0.0", 448),
        ("64.64.2.matrix.0.1", 0),
        ("64.64.2.matrix.8.0", 0),
        # Rows of 64 bytes: two fit a row of the banks, so 4 words meet in a bank.
        ("8.32.2.matrix.0.0", 12),
        ("8.32.2.matrix.0.1", 0),
        # Doubles along a row: a warp takes two passes and no word waits.
        ("4.32.8.row.0.0", 0),
    ],
)
def test_bank_conflicts_are_counted(page_file: Path, look: Show, layout: str, conflicts: int) -> None:
    page = look(page_file, f"banks={layout}")
    text = page.page.locator("#bank-status").inner_text()
    assert text.startswith(f"{conflicts:,} conflict")


def test_the_block_of_an_operation_can_be_taken_to_the_banks(page_file: Path, show: Show) -> None:
    page = show(page_file, "op=0")
    page.page.get_by_role("button", name="Take the chosen").click()
    assert page.page.locator("#bank-rows").input_value() == "16"
    page.page.locator("#bank-swizzle").check()
    assert "Swizzle: vectors of 4" in page.page.locator("#bank-status").inner_text()
    page.settled()
    assert "banks=16.16.4.column.0.1" in page.js("() => location.hash")


def four_dimensions(folder: Path) -> TracedLaunch:
    """Each of 6 programs loads one 8 × 4 matrix of a tensor of 2 × 3 × 8 × 4."""
    rows = np.array([(program, 0, 0, 0, 32 * program, 0, 0, -1) for program in range(6)], np.int64)
    tensor = TensorInfo("x_ptr", "float32", (2, 3, 8, 4), (96, 32, 4, 1), 0, 0, 768, 4)
    other = copy_past_the_end(folder)
    return replace(
        other,
        grid=(2, 3, 1),
        traced_programs=6,
        tensors=(tensor,),
        accesses=(),
        faults=(),
        patterns=(Pattern(4, (8, 4), (4, 1)),),
        masks=(Mask((8, 4), 32),),
        events=Events(("load",), (), *(np.ascontiguousarray(each) for each in rows.T)),
    )


def test_two_of_four_dimensions_are_shown_and_the_others_follow_the_program(tmp_path: Path, show: Show) -> None:
    page = show(written(tmp_path, four_dimensions(tmp_path)), "program=4")
    assert "within [1:2, 1:2, 0:8, 0:4]" in said(page, "x_ptr")
    sliders = page.page.locator("[data-tensor] input[data-dim]")
    assert [sliders.nth(at).input_value() for at in range(2)] == ["1", "1"]
    sliders.nth(0).fill("0")
    page.settled()
    assert "dims=2.3.0.f.0.0" in page.js("() => decodeURIComponent(location.hash)")
    page.page.get_by_label("rows of x_ptr").select_option("1")
    assert "rows: dimension 1, columns: dimension 3" in page.page.locator("[data-tensor]").inner_text()
    page.assert_quiet()


def test_tensors_that_share_memory_show_only_what_is_theirs(tmp_path: Path, show: Show) -> None:
    """Two halves of one storage, and a third argument that is the first half again and is stored to."""
    rows = np.array([(0, 0, 0, 0, 0, 0, 0, -1), (0, 0, 0, 1, 32, 0, 0, -1), (0, 1, 1, 2, 0, 0, 0, -1)], np.int64)
    half = TensorInfo("low", "float32", (8, 4), (4, 1), 0, 0, 256, 4)
    launch = replace(
        four_dimensions(tmp_path),
        grid=(1, 1, 1),
        traced_programs=1,
        tensors=(half, replace(half, name="high", offset=32), replace(half, name="again")),
        events=Events(("load", "store"), (), *(np.ascontiguousarray(each) for each in rows.T)),
    )
    page = show(written(tmp_path, launch))
    assert said(page, "low") == "The program loads 32 elements, stores 32 elements within [0:8, 0:4]."
    assert said(page, "high") == "The program loads 32 elements within [0:8, 0:4]."
    assert said(page, "again") == said(page, "low")


def test_a_large_tensor_says_that_it_is_drawn_smaller(tmp_path: Path, show: Show) -> None:
    page = show(written(tmp_path, matmul(tmp_path, 1100, 24, 36, values=False)), "program=9")
    text = page.page.locator('[data-tensor="a_ptr"]').inner_text()
    assert "drawn smaller: a cell is 3 × 1 elements" in text
    page.state(zoom="program")
    assert "drawn smaller" not in page.page.locator('[data-tensor="a_ptr"]').inner_text()


def test_a_sample_and_a_count_say_so(tmp_path: Path, show: Show) -> None:
    whole = matmul(tmp_path)
    assert whole.events is not None
    kept = np.flatnonzero(np.isin(whole.events.program, (1, 4)))
    columns = {
        name: getattr(whole.events, name)[kept]
        for name in ("program", "op", "site", "tensor", "base", "pattern", "mask", "shape")
    }
    sampled = replace(whole, events=replace(whole.events, **columns), traced_programs=2, values=None)
    page = show(written(tmp_path, sampled, sample=2))
    assert (
        "2 of 6 programs traced, a sample: 2 programs of each launch, chosen by seed 0"
        in page.page.locator("#top").inner_text()
    )
    page.page.locator('[data-axis="x"]').fill("1")
    page.page.locator('[data-axis="x"]').press("Enter")
    assert page.page.locator("#program-status").inner_text() == "Program (1, 1, 0) was not traced."
    assert page.js("() => warplens.program") == 1
    counted = replace(whole, events=None, values=None, patterns=(), masks=())
    page = show(written(tmp_path, counted))
    assert "only totals were recorded" in page.page.locator("#top").inner_text()
    assert "21,888" in page.page.locator("#summary").inner_text()
    page.assert_quiet()


def test_names_that_look_like_markup_stay_text(tmp_path: Path, show: Show) -> None:
    nasty = "<img src=x onerror=\"document.title='owned'\">"
    launch = matmul(tmp_path, name=nasty)
    launch = replace(launch, tensors=tuple(replace(info, name=nasty + info.name) for info in launch.tensors))
    page = show(written(tmp_path, launch), "op=2")
    assert page.page.locator("img").count() == 0
    assert page.page.locator("h1").inner_text() == nasty
    page.assert_quiet()


def test_every_control_and_picture_has_a_name_and_a_twin(page_file: Path, show: Show) -> None:
    page = show(page_file, "op=2")
    page.js("() => document.querySelectorAll('details').forEach(each => each.open = true)")
    unnamed = page.js(
        r"""() => [...document.querySelectorAll('button, input, select, summary, [role=application], [role=listbox], [tabindex="0"]')]
          .filter(each => !/[\p{L}\p{N}]/u.test([each.ariaLabel, ...[...each.labels ?? []].map(l => l.textContent), each.textContent].join(' ')))
          .map(each => each.outerHTML.slice(0, 120))"""
    )
    assert unnamed == []
    labels = page.js(
        "() => [...document.querySelectorAll('canvas')].map(c => c.closest('[role=application][tabindex=\"0\"]').ariaLabel)"
    )
    assert len(labels) == 8
    assert all(len(label) > 20 for label in labels)
    page.settled()
    for section, columns in {"programs": "Operations", "tensors": "Masked lanes", "banks": "Banks"}.items():
        assert columns in page.page.locator(f"#{section} table").last.inner_text()
    ids = page.js("() => [...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("width", nightly_after(1, [420, 900, 1600]))
def test_nothing_is_wider_than_the_window(page_file: Path, show: Show, width: int) -> None:
    page = show(page_file, "op=2&show=after", width=width)
    for dark in (False, True):
        page.looks(width=width, height=900, dark=dark).settled()
        assert page.js("() => document.documentElement.scrollWidth") <= width
        background = page.js("() => getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(20, 24, 31)" if dark else "rgb(255, 255, 255)")


def test_the_theme_can_be_chosen(page_file: Path, show: Show) -> None:
    page = show(page_file)
    before = colours(page, "a_ptr", 48, 48)
    page.page.locator("#theme").click()
    page.page.locator("#theme").click()
    assert page.js("() => document.documentElement.dataset.theme") == "dark"
    assert not np.array_equal(colours(page, "a_ptr", 48, 48), before)


def test_help_lists_the_keys(page_file: Path, show: Show) -> None:
    page = show(page_file)
    page.page.keyboard.press("?")
    assert "previous operation" in page.page.locator("#help").inner_text()
    page.page.keyboard.press("Escape")
    page.page.keyboard.press("j")
    assert page.js("() => warplens.op") == 0
    page.page.keyboard.press("v")
    assert page.js("() => warplens.store.text('show')") == "programs"


def test_a_damaged_page_says_so(page_file: Path, show: Show, tmp_path: Path) -> None:
    html = page_file.read_text()
    place = html.index('id="data">') + 2000
    broken = tmp_path / "broken.html"
    broken.write_text(html[:place] + html[place + 400 :])
    page = show(broken, ready=".failed")
    assert "cannot be shown" in page.page.locator(".failed").inner_text()


def test_a_grid_of_three_dimensions_is_shown_slice_by_slice(tmp_path: Path, show: Show) -> None:
    launch = four_dimensions(tmp_path)
    rows = np.array([(program, 0, 0, 0, 8 * program, 0, 0, -1) for program in range(24)], np.int64)
    events = Events(("load",), (), *(np.ascontiguousarray(each) for each in rows.T))
    cube = replace(
        launch,
        grid=(2, 3, 4),
        traced_programs=24,
        events=events,
        patterns=(Pattern(4, (8,), (1,)),),
        masks=(Mask((8,), 8),),
    )
    page = show(written(tmp_path, cube), "program=23")
    assert page.js("() => warplens.ids()") == [1, 2, 3]
    layer = page.page.get_by_label("Slice of the grid")
    assert layer.input_value() == "3"
    layer.fill("1")
    box = page.page.locator("#programs canvas").bounding_box()
    page.page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.25)
    assert page.js("() => warplens.ids()") == [0, 1, 1]
    page.page.locator('[data-axis="z"]').fill("2")
    page.page.locator('[data-axis="z"]').press("Enter")
    assert layer.input_value() == "2"
    page.assert_quiet()


def test_a_step_among_the_programs_of_a_product_of_512_changes_little(tmp_path: Path, show: Show) -> None:
    """64 programs of 25 operations on blocks of 64 × 64, with values."""
    page = show(written(tmp_path, matmul(tmp_path, 512, 512, 512, block=64)), width=1500)
    assert page.js("() => [warplens.traced.length, warplens.programRows.length]") == [64, 25]
    changes = page.changes(20, "() => warplens.step('program', 3)")
    assert page.js("() => warplens.program") == 60
    assert max(changes) < MOST_CHANGES
