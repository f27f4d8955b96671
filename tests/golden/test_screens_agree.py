"""No screen contradicts itself or another: what stands twice is compared on every sample, and on every shared trace.

The terminal, the page's head, x.json and x.md render one Answer; the tables hold its numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, cached_property
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import warplens
from support import ROOT, SHARED, distinct, shared_traces
from warplens.advice.limits import COMMUNICATION, GPU, HOST
from warplens.advice.top_kernels import ON_GPU
from warplens.analyses.graph.breakdown import (
    AFTER,
    BEFORE,
    COMPUTATION,
    EXPOSED_COMMUNICATION,
    EXPOSED_COPIES,
    IDLE,
    WITH_GPU,
)
from warplens.analyses.graph.host_work import NO_NAME
from warplens.cli.explaining.topics import TOPICS
from warplens.cli.traces.advise import advice_text
from warplens.model.answer import CANNOT_TELL, CERTAINTIES, NO_GAIN, Answer, AnsweredFinding, Part
from warplens.model.clock import ESTIMATED, SOURCES, Clock
from warplens.outputs.html import tiles
from warplens.outputs.json_text import json_bytes
from warplens.outputs.markdown import escape, markdown_bytes
from warplens.outputs.summary import render_summary
from warplens_run.base.errors import WarplensError
from warplens_run.base.units import LEAST_SHOWN_MS, format_ms, format_short_ms

WIDTH = 110
NUMBERS = ("step_time", "breakdown", "findings")
"""The tables that hold the Answer's numbers; a trace without GPU work has them without rows."""
LITTLE = 1 + 1e-6
HOST_SIDE = (BEFORE, IDLE, AFTER)


def openable() -> Iterator[Path]:
    """Every sample that is a profile, a folder of ranks or what was found of a kernel, and the shared traces and jobs."""
    samples = ROOT / "samples"
    jobs = [folder for folder in sorted((samples / "ranks").iterdir()) if folder.is_dir()]
    files = [path for path in sorted(samples.rglob("*")) if path.is_file() and path.suffix not in (".md", ".py", ".cu")]
    own = {job.name for job in jobs}
    shared_jobs = [folder for folder in sorted((SHARED / "traces" / "ranks").glob("*")) if folder.name not in own]
    yield from [*jobs, *shared_jobs, *distinct([*shared_traces(), *files])]


@dataclass
class Screen:
    """What is opened, and what its outputs say."""

    path: Path
    profile: Any

    @cached_property
    def answer(self) -> Answer:
        answer = self.profile.answer()
        assert isinstance(answer, Answer)
        return answer

    @cached_property
    def document(self) -> Any:
        names = [name for name in NUMBERS if name in self.profile.table_names]
        return self.profile.document(names)

    @cached_property
    def text(self) -> str:
        return " ".join(
            line for text, _ in render_summary(self.profile.document(), width=WIDTH).lines for line in [text]
        )

    @cached_property
    def json(self) -> dict[str, Any]:
        written = json.loads(json_bytes(self.document))
        assert isinstance(written, dict)
        return written

    def rows(self, name: str) -> list[dict[str, Any]]:
        return self.profile.table(name).to_dicts() if name in self.profile.table_names else []


@pytest.fixture(scope="module", params=openable(), ids=lambda path: f"{path.parent.name}/{path.name}")
def screen(request: pytest.FixtureRequest) -> Screen:
    try:
        return Screen(request.param, warplens.open(request.param, cache=False))
    except WarplensError:
        pytest.skip("not a profile")


def clock_of(screen: Screen) -> Clock:
    if screen.answer.clock is None:
        pytest.skip("no GPU worked, or nothing is timed")
    return screen.answer.clock


def test_the_parts_are_the_step_and_have_its_ends(screen: Screen) -> None:
    answer, clock = screen.answer, clock_of(screen)
    assert 0 < clock.low_ms <= clock.step_ms * LITTLE and clock.step_ms <= clock.high_ms * LITTLE
    assert clock.source in SOURCES
    assert sum(part.time_ms for part in answer.parts) == pytest.approx(clock.step_ms, rel=1e-6)
    assert sum(part.percent for part in answer.parts) == pytest.approx(100)
    busy_ms = sum(part.time_ms for part in answer.parts if part.part in WITH_GPU)
    for end_ms, name in ((clock.low_ms, "low_ms"), (clock.high_ms, "high_ms")):
        expected = max(end_ms, busy_ms) if busy_ms < clock.step_ms * (1 - 1e-9) else busy_ms
        assert sum(getattr(part, name) for part in answer.parts) == pytest.approx(expected)
    for part in answer.parts:
        assert 0 <= part.low_ms <= part.time_ms * LITTLE
        assert part.time_ms <= part.high_ms * LITTLE
        assert part.place_ms is None or part.place_ms <= part.time_ms * LITTLE


def test_the_tables_have_the_numbers_of_the_answer(screen: Screen) -> None:
    answer, rows = screen.answer, screen.rows("step_time")
    if answer.clock is None:
        assert not answer.parts and not answer.savings and not rows and not screen.rows("breakdown")
        return
    (row,) = rows
    for name in ("step_ms", "low_ms", "high_ms", "source", "recorded_ms", "whole", "steps"):
        value = getattr(answer.clock, name)
        assert row[name] == (pytest.approx(value, abs=1e-6) if isinstance(value, float) else value)
    rows = parts_in_the_table(screen)
    parts = {(row["part"], row["cause"]): row for row in rows}
    assert len(parts) == len(rows)
    own = {(part.part, part.cause): part for part in answer.parts}
    assert parts.keys() == own.keys()
    for key, part in own.items():
        for name in ("time_ms", "percent", "low_ms", "high_ms"):
            assert parts[key][name] == pytest.approx(getattr(part, name), abs=1e-5)


def parts_in_the_table(screen: Screen) -> list[dict[str, Any]]:
    """Of a job those of the rank whose step the Answer's parts are of."""
    rows, whose = screen.rows("breakdown"), screen.answer.parts_of
    assert bool(whose) == (screen.answer.kind == "job")
    return [row for row in rows if f"rank {row['rank']}" == whose] if whose else rows


def test_the_parts_of_each_rank_are_the_step_of_the_job(screen: Screen) -> None:
    clock = clock_of(screen)
    if screen.answer.kind != "job":
        pytest.skip("one trace: its parts are tested above")
    by_rank: dict[int, float] = {}
    for row in screen.rows("breakdown"):
        by_rank[row["rank"]] = by_rank.get(row["rank"], 0.0) + row["time_ms"]
    assert by_rank == {row["rank"]: pytest.approx(clock.step_ms) for row in screen.rows("ranks")}


def test_top_kernels_are_a_part_of_what_the_gpu_does(screen: Screen) -> None:
    answer, clock = screen.answer, clock_of(screen)
    on_gpu = sum(part.time_ms for part in answer.parts if part.part in ON_GPU)
    assert sum(kernel.time_ms for kernel in answer.kernels) <= on_gpu * LITTLE
    causes = parts_of_kernels(screen)
    time_of: dict[str, float] = {}
    for part in answer.parts:
        if part.part in ON_GPU:
            name = part.part if answer.kind == "job" else part.cause
            time_of[name] = time_of.get(name, 0.0) + part.time_ms
    for cause, ms in time_of.items():
        own = [kernel for kernel in answer.kernels if causes[kernel.kernel, kernel.op] & time_of.keys() == {cause}]
        assert sum(kernel.time_ms for kernel in own) <= ms * LITTLE, cause
    for kernel in answer.kernels:
        assert kernel.percent == pytest.approx(100 * kernel.time_ms / clock.step_ms)
    if clock.source == ESTIMATED:
        assert clock.step_ms <= clock.recorded_ms * LITTLE, "recording makes no step shorter"


def parts_of_kernels(screen: Screen) -> dict[tuple[str, str], set[str]]:
    """What each kernel and op may count as: its category or itself; of a job's rank the part of the step."""
    causes: dict[tuple[str, str], set[str]] = {}
    for row in screen.rows("kernels"):
        causes.setdefault((row["kernel_short"], row["op"]), set()).update((row["kernel_category"], row["kernel_short"]))
    if screen.answer.kind == "job":
        position = [f"rank {rank}" for rank in screen.profile.job.ranks].index(screen.answer.parts_of)
        for row in screen.profile.job.digests[position].frames["kernels"].to_dicts():
            causes.setdefault((row["kernel"], row["op"]), set()).add(row["part"])
    return causes


def test_a_job_shows_the_kernels_of_the_rank_whose_step_it_shows(screen: Screen) -> None:
    answer = screen.answer
    clock_of(screen)
    if answer.kind != "job":
        pytest.skip("one trace has one step")
    assert bool(answer.kernels) == any(part.part == COMPUTATION for part in answer.parts)
    assert f"where one step of {answer.parts_of} goes" in screen.text
    assert (f"top kernels of one step of {answer.parts_of}" in screen.text) == bool(answer.kernels)


def test_what_transfers_cost_a_job_stands_beside_those_of_the_rank_that_is_shown(screen: Screen) -> None:
    answer = screen.answer
    for finding in answer.findings:
        if finding.code == "WL409":
            clock = clock_of(screen)
            of_rank = sum(part.time_ms for part in answer.parts if part.cause == "transfers")
            shares = [f"{100 * ms / clock.step_ms:.0f} %" for ms in (finding.gain_ms, of_rank)]
            assert finding.title.endswith(
                f"up to {shares[0]} of the job's step, on the path over all ranks; they are {shares[1]} of "
                f"{answer.parts_of}'s"
            )


def test_no_rank_computes_longer_than_its_peers_by_more_than_it_computes(screen: Screen) -> None:
    if screen.answer.kind != "job":
        pytest.skip("one trace has no peers")
    computed = {row["rank"]: row["time_ms"] for row in screen.rows("breakdown") if row["part"] == COMPUTATION}
    for row in screen.rows("stragglers"):
        if row["cause"] in ("GPU", "imbalance"):
            assert row["excess_ms"] <= computed[row["rank"]] * LITTLE


def test_no_gain_exceeds_the_step_or_the_bound_beside_it(screen: Screen) -> None:
    answer, clock = screen.answer, clock_of(screen)
    for saving in answer.savings:
        assert 0 <= saving.at_most_ms <= clock.high_ms * LITTLE
        assert saving.of in ("GPU", "host", "communication", "streams")
    of_host = [saving.at_most_ms for saving in answer.savings if saving.of == HOST]
    for finding in answer.findings:
        if not finding.gain or finding.gain.startswith("no gain in step time") or finding.gain.endswith(" of memory"):
            continue
        assert 0 <= finding.gain_ms <= clock.high_ms * LITTLE, finding
        assert finding.high_ms is not None and finding.gain_ms <= finding.high_ms * LITTLE, finding
        assert finding.high_ms <= clock.high_ms * LITTLE, finding
        if of_host and finding.code in ("WL101", "WL104"):
            assert finding.high_ms <= of_host[0] * LITTLE, finding


def test_every_gain_is_an_interval_or_a_bound(screen: Screen) -> None:
    for finding in screen.answer.findings:
        of_gpu = r"no gain in step time \(GPU-side [\d.,]+ \S+\)"
        assert re.fullmatch(rf"|≤ .+|{of_gpu}|[\d.,]+ \S+ \([\d.,]+ to [\d.,]+\)", finding.gain), finding.gain
        assert (finding.is_upper_bound or not finding.gain) == (finding.low_ms is None), finding
        assert (finding.high_ms is None) == (not finding.gain), finding
        if finding.low_ms is not None and finding.gain_ms > 0 and finding.high_ms is not None:
            assert finding.low_ms <= finding.gain_ms <= finding.high_ms * LITTLE, finding
            assert finding.low_ms < finding.high_ms, "a point is no interval"


def test_the_findings_of_the_table_are_those_of_the_answer(screen: Screen) -> None:
    rows = screen.rows("findings")
    if "findings" not in screen.profile.table_names:
        assert all(not finding.gain for finding in screen.answer.findings), "suggestions for a kernel have no time"
        return
    assert [row["code"] for row in rows] == [finding.code for finding in screen.answer.findings]
    for row, finding in zip(rows, screen.answer.findings, strict=True):
        assert row["gain_ms"] == pytest.approx(finding.gain_ms, abs=1e-5)
        if row["gain_ms"] > 0:
            assert row["gain_low_ms"] <= row["gain_ms"] <= row["gain_high_ms"] * LITTLE or row["bound"]
            assert row["gain_high_ms"] > 0


def test_the_verdict_has_the_numbers_of_the_parts_the_bounds_and_the_step(screen: Screen) -> None:
    answer, clock = screen.answer, clock_of(screen)
    shown = {number_of(clock.of_step(ms)) for ms in known_ms(answer, clock)}
    told = answer.verdict.removeprefix(served_sentence(screen))
    for straggler in screen.rows("stragglers")[:1]:
        excess_ms = straggler["excess_ms"]
        without = [clock.step_ms - straggler[name] for name in ("gain_ms", "gain_low_ms", "gain_high_ms")]
        before = [median(earlier_steps(screen, straggler))] if earlier_steps(screen, straggler) else []
        shown |= {number_of(clock.of_step(max(0.0, ms))) for ms in [*without, *before]}
        shown |= {number_of(text) for text in (format_short_ms(excess_ms, excess_ms), format_ms(excess_ms))}
        told = told.replace(straggler["note"] or " ", " ")
    told = re.sub(r"\([^()]*\.\w+:\d+[^()]*\)", "", told)  # places
    for number in re.findall(r"(\d[\d.,]*)(?= (?:ms|µs|s)\b| to \d| of \d| of the )", told):
        assert number.rstrip(".,") in shown, (number, answer.verdict)


def number_of(text: str) -> str:
    return text.rpartition(" ")[0]


def earlier_steps(screen: Screen, straggler: dict[str, Any]) -> list[float]:
    """The job's steps before this rank delayed them."""
    steps = {row["step"]: row["step_ms"] for row in screen.rows("rank_steps")}
    return [ms for step, ms in steps.items() if step < straggler["since_step"]]


def served_sentence(screen: Screen) -> str:
    """What the verdict says of a served model; its numbers are those of a table of its own."""
    sources = "|".join(SOURCES)
    sentence = re.match(
        rf"(?:Decode|Mixed|Prefill)\b.*? \((?:measured, )?(?:as )?(?:{sources})\)\. ?", screen.answer.verdict
    )
    return sentence[0] if sentence and screen.rows("serving_phases") else ""


def test_the_verdict_on_a_served_model_has_the_numbers_of_its_phases(screen: Screen) -> None:
    phases = {row["phase"]: row for row in screen.rows("serving_phases")}
    if not phases:
        pytest.skip("no model is served")
    sentence = served_sentence(screen)
    assert sentence
    for clause in sentence.rpartition(" (")[0].split("; "):
        row = phases[clause.split()[0].lower().rstrip(":")]
        rates = ("requests", "tokens_per_s", "plain_tokens_per_s", "low_tokens_per_s", "high_tokens_per_s")
        values = [row[name] for name in rates if row[name] is not None]
        clock, plain_ms = clock_of(screen), row["plain_median_ms"] or 0.0
        ends_ms = (plain_ms * ms / clock.step_ms for ms in (clock.low_ms, clock.step_ms, clock.high_ms))
        shown = {f"{value:,.0f}" for value in values if value >= 100 or value == round(value)}
        shown |= {f"{value:.1f}" for value in values if value < 100}
        if "an iteration" in clause:
            shown = {number_of(format_short_ms(ms, plain_ms)) for ms in ends_ms} if plain_ms else set()
            shown |= set() if plain_ms else {number_of(format_ms(row["median_ms"]))}
        numbers = re.findall(r"\d[\d,]*(?:\.\d+)?", clause)
        assert numbers and set(numbers) <= shown, clause


def test_the_verdict_on_a_job_is_of_its_step_and_of_its_first_straggler(screen: Screen) -> None:
    answer, clock = screen.answer, clock_of(screen)
    if answer.kind != "job":
        pytest.skip("one trace has no stragglers")
    assert f"step takes {clock.amount}" in answer.verdict or f"{clock.amount} a step" in answer.verdict
    without = re.search(r" without \w+ (\S+) \((\S+) to (\S+), ", answer.verdict)
    before = re.search(r"; (\S+ \S+) before\.", answer.verdict)
    slower = re.search(r" (?:is|are) (\S+ \S+) slower per step since step (\d+)", answer.verdict)
    late = "; cause: host. It is not certain" in answer.verdict
    assert screen.rows("stragglers") or not (without or before or slower)
    for straggler in screen.rows("stragglers")[:1]:
        assert answer.verdict.casefold().startswith((straggler["group"], straggler["cause"]))
        assert without or slower or late
        promised = re.search(r" delays? (?:the others|\d+ ranks?)\b| all [\d,]+ ranks take ", answer.verdict)
        assert bool(promised) == bool(without) == (straggler["gain_low_ms"] > 0)
        if without:
            gains = [straggler[name] for name in ("gain_ms", "gain_high_ms", "gain_low_ms")]
            assert [*without.groups()] == [number_of(clock.of_step(max(0.0, clock.step_ms - ms))) for ms in gains]
        if before:
            assert before[1] == clock.of_step(median(earlier_steps(screen, straggler)))
        if slower:
            excess_ms = straggler["excess_ms"]
            assert slower.groups() == (format_short_ms(excess_ms, excess_ms), str(straggler["since_step"]))


def test_a_straggler_costs_as_much_among_the_findings_as_in_its_own_table(screen: Screen) -> None:
    of_group = {row["group"]: row for row in screen.rows("stragglers")}
    if not of_group:
        pytest.skip("no rank delays others")
    number_by_group = {
        row["what"]: row["finding"]
        for row in screen.rows("evidence")
        if row["detail"].startswith("longer than its peers")
    }
    assert number_by_group.keys() <= of_group.keys()
    for group, number in number_by_group.items():
        row, answered = screen.rows("findings")[number - 1], screen.answer.findings[number - 1]
        assert answered.is_upper_bound == (row["gain_low_ms"] <= 0)
        for name in ("gain_ms", "gain_low_ms", "gain_high_ms"):
            assert row[name] == pytest.approx(of_group[group][name], abs=1e-5)
        assert answered.gain_ms == pytest.approx(of_group[group]["gain_ms"], abs=1e-5)
        assert answered.low_ms is None or answered.low_ms == pytest.approx(of_group[group]["gain_low_ms"], abs=1e-5)
        assert answered.high_ms is None or answered.high_ms == pytest.approx(of_group[group]["gain_high_ms"], abs=1e-5)


def known_ms(answer: Answer, clock: Clock) -> list[float]:
    parts = answer.parts
    sums = [
        sum(part.time_ms for part in parts if part.part in HOST_SIDE),
        sum(part.time_ms for part in parts if part.part == EXPOSED_COMMUNICATION),
        sum(part.time_ms for part in parts if part.cause == "earlier work"),
        sum(part.time_ms for part in parts if part.cause == f"host: {NO_NAME}"),
    ]
    own = [ms for part in parts for ms in (part.time_ms, part.low_ms, part.high_ms)]
    return [clock.step_ms, clock.low_ms, clock.high_ms, *(saving.at_most_ms for saving in answer.savings), *sums, *own]


def test_the_part_that_the_verdict_names_is_the_first_of_its_kind_in_the_table(screen: Screen) -> None:
    answer, clock = screen.answer, clock_of(screen)
    sides = {"gpu": (COMPUTATION, EXPOSED_COPIES), "host": HOST_SIDE, "communication": (EXPOSED_COMMUNICATION,)}
    bound = re.search(r"\b(GPU|host|communication)-.*?bound[.:] (?!Removing)(.+?) takes? (.*)", answer.verdict, re.I)
    if bound is not None:
        side = sides[bound[1].lower()]
        first, own = answer.largest[0], [part for part in answer.largest if part.part in side]
        assert bound[2].casefold().startswith(called(first))
        if first.part not in side and own and own[0].percent >= 5:
            assert f" and {called(own[0])}" in bound[3].casefold()
    assert [part.time_ms for part in answer.largest] == sorted((part.time_ms for part in answer.parts), reverse=True)
    limits = {GPU: "GPU-bound", HOST: "Host-bound", COMMUNICATION: "Communication-bound"}
    if answer.bound in limits.values():
        assert f"{answer.bound}" in answer.verdict
        assert clock.source in answer.verdict or answer.certainty != CANNOT_TELL


def called(part: Part) -> str:
    """The word of the table that the verdict has for a part."""
    named = {EXPOSED_COMMUNICATION: EXPOSED_COMMUNICATION, EXPOSED_COPIES: f"exposed {part.cause}"}
    not_known = {
        (COMPUTATION, "Other"): "kernels of no known category",
        (part.part, f"host: {NO_NAME}"): "unrecorded work of the host",
        (part.part, NO_NAME): "idle time of unrecorded cause",
        (part.part, "earlier work"): "waiting for work from before the recording",
        (part.part, "synchronisation"): "waiting in synchronising calls",
        (part.part, "host: synchronisation"): "waiting in synchronising calls",
    }
    known = named.get(part.part, part.cause.removeprefix("host: "))
    return not_known.get((part.part, part.cause), known).casefold()


def test_a_finding_calls_the_step_host_bound_where_the_verdict_does(screen: Screen) -> None:
    if screen.answer.verdict.startswith("A capture of "):
        pytest.skip("the verdict is on no step")
    says_so = screen.answer.bound.startswith(("Host-bound", "Mixed, host-"))
    assert says_so or not any(finding.title.startswith("host-bound: ") for finding in screen.answer.findings)


def test_what_is_not_zero_is_not_shown_as_zero(screen: Screen) -> None:
    clock = clock_of(screen)
    for part in screen.answer.parts:
        assert clock.of_step(part.time_ms) != clock.of_step(0.0) or part.time_ms < LEAST_SHOWN_MS
    table = screen.text.partition("where one")[2].partition("\n\n")[0]
    assert not re.search(r" 0\.0%", table)


def test_advice_names_the_clock_of_the_answer_and_no_other(screen: Screen) -> None:
    if not isinstance(screen.profile, warplens.Profile) or not screen.answer.findings:
        pytest.skip("no timeline, or nothing found")
    advice = unwrapped("\n".join(text for text, _ in advice_text(screen.profile, WIDTH).lines))
    clock = clock_of(screen)
    assert unwrapped(f"Gains are of one {clock.whole}: {clock.text}.") in advice
    assert "Sharesare" not in advice


def test_the_terminal_shows_the_answer(screen: Screen) -> None:
    answer, text = screen.answer, unwrapped(screen.text)
    assert unwrapped(answer.verdict)[:60] in text
    if answer.clock is not None:
        assert unwrapped(answer.clock.text) in text
        first = answer.largest[0]
        assert unwrapped(answer.clock.between(first.low_ms, first.high_ms)) in text
    winning = [finding for finding in answer.findings if finding.wins]
    for finding in winning[:3]:
        assert unwrapped(finding.gain) in text
        assert finding.code in text
    if winning:
        assert NO_GAIN not in screen.text.partition("where one")[0]


def test_the_head_of_the_page_shows_the_answer(screen: Screen) -> None:
    answer, clock = screen.answer, clock_of(screen)
    overview = screen.profile.overview() if isinstance(screen.profile, warplens.Profile) else None
    shown = {tile.label: tile for tile in tiles.page_tiles(screen.document, overview)}
    if step := shown.get(clock.whole.capitalize()):
        assert step.value == clock.amount
        assert step.note.startswith(clock.known if clock.is_wide else clock.sure)
        recorded = clock.of_step(clock.recorded_ms)
        assert recorded in (step.note if recorded != clock.of_step(clock.step_ms) else clock.of_step(clock.step_ms))
        assert step.note.endswith(clock.counted if answer.kind == "job" else "")
    if bound := shown.get("Bound"):
        assert bound.value == answer.bound
        for part, text in (each.split(" ", 1) for each in bound.note.split(" · ")):
            (saving,) = [saving for saving in answer.savings if saving.of == part]
            assert text in (f"≤ {clock.of_step(saving.at_most_ms)}", "nothing")
    busy_ms = sum(part.time_ms for part in answer.parts if part.part in WITH_GPU)
    if all(part.part in ("host", EXPOSED_COMMUNICATION) for part in answer.parts):
        assert "GPU busy" not in shown, "a job without GPUs"
    else:
        assert shown["GPU busy"].value == clock.share(busy_ms)
    for name in ("host", EXPOSED_COMMUNICATION, IDLE) if answer.kind == "job" else ():
        own_ms = [part.time_ms for part in answer.parts if part.part == name]
        tile = shown.get(f"{name[0].upper()}{name[1:]}")
        assert (tile is None) == (not own_ms)
        if tile:
            assert tile.value == clock.share(sum(own_ms))
            assert tile.note == f"{clock.of_step(sum(own_ms))} of {answer.parts_of}'s step"
    for label, tile in shown.items():
        own = [part.time_ms for part in answer.parts if part.part.casefold() == label.casefold()]
        assert not own or tile.value == clock.share(sum(own)), "one name, one number"
    parts = tiles.step_parts(answer)
    assert [part.time for part in parts] == [clock.between(part.low_ms, part.high_ms) for part in answer.largest]
    assert clock.text in tiles.gains_base(clock)


def test_json_and_markdown_have_the_answer(screen: Screen) -> None:
    answer, written = screen.answer, screen.json["answer"]
    assert same(written, answer)
    markdown = markdown_bytes(screen.document).decode()
    assert escape(answer.verdict) in markdown
    if answer.clock is not None:
        assert f"- **{answer.clock.whole}**: {escape(answer.clock.text)}" in markdown
        for part in answer.parts:
            assert f" | {part.percent:.1f}% | {answer.clock.between(part.low_ms, part.high_ms)} | " in markdown


def same(written: Any, own: Any) -> bool:
    """Whether JSON has all fields of a record with its values, rounded."""
    if is_dataclass(own):
        return all(same(written[field.name], getattr(own, field.name)) for field in fields(own))
    if isinstance(own, tuple):
        return len(written) == len(own) and all(same(*pair) for pair in zip(written, own, strict=True))
    return bool(written == pytest.approx(own, abs=1e-5)) if isinstance(own, float) else written == own


def test_how_sure_it_is_has_one_of_four_words_and_the_verdict_says_what_it_cannot_tell(screen: Screen) -> None:
    answer = screen.answer
    assert set(CERTAINTIES) == {"measured", "simulated", "estimated", "cannot tell"}
    assert {answer.certainty, *(finding.certainty for finding in answer.findings)} <= set(CERTAINTIES)
    if answer.certainty == CANNOT_TELL:
        assert "annot tell" in answer.verdict or answer.clock is None
    if answer.clock is not None and answer.clock.source == "estimated":
        assert answer.certainty in ("estimated", CANNOT_TELL, "measured")
        assert answer.certainty != "measured" or "capture" in answer.verdict


def test_explain_knows_what_the_answer_prints(screen: Screen) -> None:
    answer = screen.answer
    words = {part.part for part in answer.parts} | {part.cause for part in answer.parts}
    words |= {answer.kind, answer.certainty, answer.bound} | {saving.of for saving in answer.savings}
    words |= {answer.clock.source, answer.clock.whole} if answer.clock else set()
    words |= {word for finding in answer.findings for word in (finding.code, finding.certainty)}
    words |= set(names_in(screen.json["answer"]))
    assert not {word for word in words - {""} if not is_explained(word)}


@cache
def is_explained(word: str) -> bool:
    return any(line for topic in TOPICS for line in topic(word))


def names_in(written: Any) -> Iterator[str]:
    """The names of all fields."""
    if isinstance(written, dict):
        yield from written
        for value in written.values():
            yield from names_in(value)
    if isinstance(written, list):
        for value in written:
            yield from names_in(value)


def test_the_fields_of_a_finding_are_explained_too() -> None:
    for name in (field.name for field in fields(AnsweredFinding)):
        assert is_explained(name), name


def unwrapped(text: str) -> str:
    """Without what folding and elision do to it."""
    return re.sub(r"\s+", "", text)
