"""How loops are scheduled: stages, partitions, buffers and barriers of kernels that Triton compiles for five targets."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("triton")

from warplens_lab.compiling.compiling import CompileJob, compile_many
from warplens_lab.compiling.loading import load_kernel
from warplens_lab.compiling.targets import TARGETS
from warplens_lab.facts import KernelFacts, extract, facts_tables, load_facts, save_facts
from warplens_lab.facts.ir import Module
from warplens_lab.facts.line_notes import details, marks
from warplens_lab.facts.records import LoopSchedule, ScheduleStep
from warplens_lab.facts.schedule import loop_schedules
from warplens_lab.suggesting.suggestions import suggest

FILE = Path(__file__).resolve().parents[1] / "kernels" / "scheduled.py"
PRODUCT = "*fp16:16, *fp16:16, *fp16:16, i32:16, i32:16, i32:16, {0}, {0}, 64"
TILES = ", ".join(["tensordesc<fp16[128,64]>"] * 4)
PERSISTENT = (
    "tensordesc<fp16[128,64]>, tensordesc<fp16[128,64]>, tensordesc<fp16[128,128]>, i32, i32, i32, 128, 128, 64, 148"
)
ATTENTION = f"{TILES}, fp32, i32, 64, 128, 128, {{0}}"
SPLIT = "*fp16:16, *fp16:16, *fp16:16, *fp16:16, i32:16, 64, 128, 64"
ASKED = {
    # name: kernel, signature, target, options
    "pipelined sm90": ("pipelined", PRODUCT.format(128), "sm90", {"num_stages": 3}),
    "one stage sm90": ("pipelined", PRODUCT.format(128), "sm90", {"num_stages": 1}),
    "pipelined sm100": ("pipelined", PRODUCT.format(128), "sm100", {"num_stages": 3}),
    "pipelined gfx942": ("pipelined", PRODUCT.format(256), "gfx942", {"num_warps": 8, "num_stages": 2}),
    "pipelined gfx950": ("pipelined", PRODUCT.format(128), "gfx950", {"num_warps": 4, "num_stages": 2}),
    "persistent sm90": ("persistent", PERSISTENT, "sm90", {"num_stages": 3}),
    "persistent sm100": ("persistent", PERSISTENT, "sm100", {"num_stages": 3}),
    "attention sm90": ("attention", ATTENTION.format(False), "sm90", {"num_stages": 3}),
    "attention sm100": ("attention", ATTENTION.format(True), "sm100", {"num_stages": 3}),
    "split attention sm90": ("split_attention", SPLIT, "sm90", {"num_stages": 3}),
    "8 warps sm90": ("split_attention", SPLIT, "sm90", {"num_warps": 8, "num_stages": 3}),
    "one stage sm100": ("split_attention", SPLIT, "sm100", {"num_stages": 1}),
    "no warp specialisation": ("split_attention", SPLIT, "sm80", {"num_stages": 3}),
}


class Compiled(dict[str, KernelFacts]):
    """Each is compiled when a test first asks for it."""

    def __missing__(self, name: str) -> KernelFacts:
        kernel, signature, target, options = ASKED[name]
        loaded = load_kernel(f"{FILE}::{kernel}_kernel")
        job = CompileJob(loaded.signature(signature), TARGETS[target], options)
        [self[name]] = [extract(artefacts) for artefacts in compile_many([(loaded, job)])]
        assert self[name].failure == ""
        return self[name]


@pytest.fixture(scope="module")
def compiled(warm_compiler: None) -> dict[str, KernelFacts]:
    return Compiled()


def line(words: str) -> int:
    return next(at for at, text in enumerate(FILE.read_text().splitlines(), 1) if words in text)


def loop(facts: KernelFacts) -> LoopSchedule:
    (only,) = facts.schedule
    return only


def steps(schedule: LoopSchedule, kind: str, partition: str = "") -> list[ScheduleStep]:
    return [step for step in schedule.steps if step.kind == kind and step.partition == partition]


def test_copies_of_a_pipelined_loop_are_issued_stages_ahead_of_the_product(compiled: dict[str, KernelFacts]) -> None:
    schedule = loop(compiled["pipelined sm90"])
    assert (schedule.pattern, schedule.stages, schedule.place.line) == ("pipelined", 3, line("for _ in range"))
    copies = steps(schedule, "async copy")
    assert [(step.place.line, step.ahead, step.stage, step.copies) for step in copies] == [
        (line("tl.load(a_block)"), 2, 0, 3),
        (line("tl.load(b_block)"), 2, 0, 3),
    ]
    (product,) = steps(schedule, "product")
    assert (product.ahead, product.stage, product.operation) == (0, 2, "ttng.warp_group_dot")
    assert [step.detail for step in steps(schedule, "wait for copies")] == ["2 may be in flight"]
    assert schedule.sentence == (
        "pipelined in 3 stages; 2 async copies 2 iterations ahead, 3 buffers of a tile; a product overlaps the next"
    )


def test_a_loop_of_one_stage_is_sequential(compiled: dict[str, KernelFacts]) -> None:
    schedule = loop(compiled["one stage sm90"])
    assert (schedule.pattern, schedule.stages) == ("sequential", 1)
    assert {step.ahead for step in schedule.steps} == {0}


def test_two_buffers_and_one_iteration_ahead_on_gfx950(compiled: dict[str, KernelFacts]) -> None:
    schedule = loop(compiled["pipelined gfx950"])
    assert schedule.pattern == "pipelined"
    assert {step.ahead for step in schedule.steps if step.kind in ("async copy", "load")} == {1}


def test_warps_that_take_turns_at_the_matrix_unit_are_ping_pong(compiled: dict[str, KernelFacts]) -> None:
    schedule = loop(compiled["pipelined gfx942"])
    assert schedule.pattern == "ping-pong"
    assert schedule.sentence.startswith("ping-pong: half of the warps multiply while the others load")
    assert [step.detail for step in steps(schedule, "priority")] == ["1", "0"] * len(steps(schedule, "product"))


def test_partitions_are_producers_and_consumers_tied_by_barriers(compiled: dict[str, KernelFacts]) -> None:
    schedule = loop(compiled["persistent sm100"])
    assert schedule.pattern == "producer/consumer"
    roles = {partition.role: partition for partition in schedule.partitions}
    assert set(roles) == {"multiplies", "loads", "computes and stores"}
    assert roles["computes and stores"].name == "default"
    assert (roles["multiplies"].warps, roles["loads"].registers) == (1, 24)
    loads = steps(schedule, "tma copy", roles["loads"].name)
    (product,) = steps(schedule, "product", roles["multiplies"].name)
    assert [(step.copies, step.ahead, step.stage) for step in loads] == [(3, 3, None)] * 2
    # What the loads signal, the product waits for, and the other way round.
    filled, emptied = {step.signals for step in loads}, product.signals.split(", ")
    assert filled <= {step.waits_for for step in steps(schedule, "wait", roles["multiplies"].name)}
    assert {step.waits_for for step in steps(schedule, "wait", roles["loads"].name)} <= set(emptied)
    assert "loads up to 3 tiles ahead" in schedule.sentence


@pytest.mark.nightly
def test_a_target_that_does_not_split_the_loop_pipelines_it(compiled: dict[str, KernelFacts]) -> None:
    schedule = loop(compiled["persistent sm90"])
    assert (schedule.pattern, schedule.partitions) == ("pipelined", ())
    assert [step.ahead for step in steps(schedule, "tma copy")] == [2, 2]


@pytest.mark.nightly
def test_attention_has_a_partition_for_loads_products_softmax_and_correction(compiled: dict[str, KernelFacts]) -> None:
    plain = loop(compiled["attention sm90"])
    assert (plain.pattern, plain.stages, len(steps(plain, "product"))) == ("pipelined", 3, 2)
    schedule = loop(compiled["attention sm100"])
    roles = sorted(partition.role for partition in schedule.partitions)
    assert roles == ["computes", "computes", "loads", "multiplies"]
    multiplies = next(partition.name for partition in schedule.partitions if partition.role == "multiplies")
    scores, total = line("scores = tl.dot"), line("total = tl.dot(weights")
    early = {step.place.line: step.ahead for step in steps(schedule, "product", multiplies)}
    # The next scores are multiplied while the softmax of these is computed.
    assert early[total] == 0 < early[scores]


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "tiles"), [("split attention sm90", 3), ("attention sm100", 3)])
def test_a_loop_split_among_warps_loads_ahead_by_the_schedule_and_by_its_loops(
    name: str, tiles: int, compiled: dict[str, KernelFacts]
) -> None:
    facts = compiled[name]
    assert f"loads up to {tiles} tiles ahead" in loop(facts).sentence
    assert [(own.loads, own.loads_ahead, own.buffers) for own in facts.loops] == [(2, 2, tiles)]
    assert "WK104" not in [suggestion.code for suggestion in suggest(facts)]


@pytest.mark.nightly
def test_a_producer_with_one_buffer_is_not_ahead(compiled: dict[str, KernelFacts]) -> None:
    facts = compiled["one stage sm100"]
    assert loop(facts).partitions and "ahead" not in loop(facts).sentence
    assert [own.loads_ahead for own in facts.loops] == [0]
    (unpipelined,) = (suggestion for suggestion in suggest(facts) if suggestion.code == "WK104")
    assert unpipelined.evidence.endswith("num_stages is 1")


@pytest.mark.nightly
def test_a_loop_that_the_compiler_does_not_split_is_said_to_be_whole(compiled: dict[str, KernelFacts]) -> None:
    eight, old = compiled["8 warps sm90"], compiled["no warp specialisation"]
    refused = "the compiler did not apply warp_specialize=True"
    assert (loop(eight).pattern, loop(eight).refusal) == ("pipelined", f"{refused} (on this GPU it takes num_warps=4)")
    assert loop(eight).sentence.endswith(loop(eight).refusal)
    assert "WK104" not in [suggestion.code for suggestion in suggest(eight)]
    assert loop(old).refusal == f"{refused} (this GPU has no warp specialisation), and with it does not pipeline"
    (sequential,) = (suggestion for suggestion in suggest(old) if suggestion.code == "WK104")
    assert sequential.evidence.endswith(loop(old).refusal)
    assert sequential.advice.startswith("omit warp_specialize=True")
    assert loop(compiled["attention sm90"]).refusal == ""


def test_the_table_and_the_page_show_stages_and_partitions(compiled: dict[str, KernelFacts], tmp_path: Path) -> None:
    facts = compiled["persistent sm100"]
    tables = {table.name: table for table in facts_tables([facts])}
    rows = tables["kernel_schedule"].to_dicts()
    assert {row["partition"] for row in rows} == {partition.name for partition in loop(facts).partitions}
    assert {row["role"] for row in rows if row["kind"] == "tma copy"} == {"loads"}
    pipelined = compiled["pipelined sm90"]
    file = str(FILE)
    assert "stage 0" in [mark.text for mark in marks(pipelined, file, line("tl.load(a_block)"))]
    assert "stage 2" in [mark.text for mark in marks(pipelined, file, line("tl.dot(a, b, total)"))]
    assert any("pipelined in 3 stages" in text for text in details(pipelined, file, line("for _ in range")))
    assert "producer/consumer" in [mark.text for mark in marks(facts, file, loop(facts).place.line)]
    saved = tmp_path / "facts.json"
    save_facts(saved, [facts, pipelined])
    assert [kernel.schedule for kernel in load_facts(saved)] == [facts.schedule, pipelined.schedule]


CUT = """\
module attributes {"ttg.num-warps" = 4 : i32} {
  tt.func public @k() {
    ttg.warp_specialize(%a) attributes {requestedRegisters = array<i32: 24>}
    default {
"""


@pytest.mark.parametrize("text", ["", CUT, CUT.replace("requestedRegisters = array<i32: 24>", ""), "default {\n}\n"])
def test_text_that_is_cut_off_has_no_schedule(text: str) -> None:
    assert loop_schedules(Module(text)) == ()
