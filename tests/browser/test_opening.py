"""The page opens from disk, keeps to itself, and shows what the trace says as text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import warplens
from page_profiles import opened_once
from support import ROOT, SAMPLES, frame, kernel, launch, nightly_after, op, write_trace

Show = Callable[..., Any]
Written = Callable[[Path], Path]
EAGER = ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz"


@pytest.mark.parametrize("trace", nightly_after(2, SAMPLES), ids=lambda path: path.stem)
def test_it_opens_from_disk_without_a_request_or_a_complaint(trace: Path, written: Written, show: Show) -> None:
    page = show(written(trace))
    page.settled()
    page.assert_quiet()
    profile = opened_once(trace)
    assert page.page.locator("h1").inner_text() == trace.name
    assert page.page.locator(".verdict").inner_text() == profile.verdict()
    notes = profile.table("quality").to_dicts()
    badges = page.page.locator(".badge").all_inner_texts()
    assert len(badges) == max(1, len(notes))
    for note, badge in zip(notes, badges, strict=False):
        assert note["message"] in badge


def test_findings_are_those_of_the_report(written: Written, show: Show) -> None:
    page = show(written(EAGER))
    findings = opened_once(EAGER).findings()
    cards = page.page.locator(".card")
    assert cards.count() == len(findings) > 0
    for place, finding in enumerate(findings):
        text = cards.nth(place).inner_text()
        assert finding.code in text
        assert finding.title in text
        assert finding.advice in text


def test_a_click_on_a_finding_leads_to_what_it_is_about(written: Written, show: Show) -> None:
    page = show(written(EAGER))
    cards = page.page.locator(".card")
    for place in range(cards.count()):
        page.js(
            "() => warplens.store.setTexts({event: '', range: '', steps: '', table: '', row: '', filter: '', view: ''})"
        )
        cards.nth(place).locator(".title").click()
        gone_to = page.js("() => ['event', 'range', 'steps', 'table'].filter(key => warplens.store.get(key))")
        assert gone_to, cards.nth(place).inner_text()
    page.assert_quiet()


NASTY = ["<img src=x onerror=\"document.title='owned'\">", "</script><script>document.title='owned'</script>"]


def test_names_that_look_like_markup_stay_text(tmp_path: Path, show: Show) -> None:
    events: list[dict[str, Any]] = []
    for number, name in enumerate(NASTY):
        at = 1000.0 * number
        events += [
            frame(f"{name}.py(3): {name}", at, 900),
            frame(f"nn.Module: {name}_0", at + 1, 800),
            op(name, at + 10, 500, **{"Input Dims": [[name]], "Input type": [name]}),
            launch(at + 15, 5, number + 1),
            kernel(name, at + 30, 400, number + 1, grid=[1, 1, 1], block=[32, 1, 1]),
        ]
    trace = write_trace(tmp_path / "<b>evil.json", events, deviceProperties=[{"id": 0, "name": NASTY[0]}])
    path = tmp_path / "evil.html"
    warplens.report(trace, path, cache=False)
    page = show(path)
    row = page.js("() => warplens.scene.data.gpuRow[0]")
    states: list[dict[str, str]] = [{"event": f"0:{row}"}, {"q": "img"}, {"context": "python"}, {"context": "module"}]
    states += [{"table": table, "row": "0"} for table in ("kernels", "ops", "op_shapes", "modules", "python_lines")]
    for state in states:
        page.state(**state)
        page.settled()
    assert page.page.locator("img").count() == 0
    assert page.page.title().endswith("evil.json")
    assert NASTY[0] in page.page.locator("#timeline").inner_text()
    page.assert_quiet()


def test_a_damaged_page_says_so(written: Written, show: Show, tmp_path: Path) -> None:
    html = written(EAGER).read_text()
    place = html.index('id="data">') + 2000
    broken = tmp_path / "broken.html"
    broken.write_text(html[:place] + html[place + 400 :])
    page = show(broken, ready=".failed")
    assert "cannot be shown" in page.page.locator(".failed").inner_text()


def test_a_comparison_opens_with_both_traces(tmp_path: Path, show: Show) -> None:
    a, b = (ROOT / "samples" / "faults" / f"{name}.json.gz" for name in ("odd_vocab.before", "healthy_eager.after"))
    path = tmp_path / "d.html"
    comparison = warplens.diff(a, b, cache=False)
    from warplens.outputs import plan_outputs, write

    write(plan_outputs([str(path)], tables="csv", force=False)[0], comparison.document())
    page = show(path)
    assert page.page.locator(".verdict").inner_text() == comparison.verdict()
    text = page.page.locator("#timeline").inner_text()
    assert a.name in text
    assert b.name in text
    page.settled()
    page.assert_quiet()
