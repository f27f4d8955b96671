"""Experiments for what the kernel lab suggests for a program's Triton kernels."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from proof_runs import OPTIONS
from proof_runs import experiment as some_experiment
from replay_plans import plan as replay_plan
from replay_plans import storage, tensor, unit, value
from warplens.hardware import gpu_named
from warplens.proof.experiments.finding_units import UnitInStep
from warplens.proof.experiments.source_grids import Tile, grid_with
from warplens.proof.experiments.unit_edits import NoExperiment
from warplens_lab.comparing.verdicts import FactDifference
from warplens_lab.facts.records import KernelFacts
from warplens_lab.proof.kernel_checks import CheckedKernel, check_kernels, target_of
from warplens_lab.proof.kernel_suggestions import suggested_experiments
from warplens_lab.proof.launch_changes import KernelSources, change_text, changed_launch, with_first_lines
from warplens_lab.suggesting.counterfactual import Change, Counterfactual
from warplens_lab.suggesting.records import Suggestion
from warplens_run.formats import proof_plan as plan_file
from warplens_run.formats.proof_plan import ProofPlan
from warplens_run.formats.replay_plan import KernelSource, SourceKernel, TracedGpu, Unit
from warplens_run.proof.compared_outputs import compare_outputs

HEAD = "import triton\nimport triton.language as tl\n\n@triton.jit\n"
SOURCE = (
    HEAD
    + """def doubled(x, out, count, tile: tl.constexpr):
    at = tl.program_id(0) * tile + tl.arange(0, tile)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < count), mask=at < count)
"""
)
DOUBLED = replace(
    unit(
        "doubled",
        (tensor(0, 100), tensor(1, 100), value("int", 100), value("int", 32)),
        (storage(100), replace(storage(100), written=True)),
        id="u1",
    ),
    triton=SourceKernel("doubled.py", "doubled", {"num_warps": 4, "num_stages": 3}, (4, 1, 1)),
)


def sources(text: str = SOURCE) -> KernelSources:
    return KernelSources({"doubled.py": text})


def launched(own: Unit) -> SourceKernel:
    assert own.triton is not None
    return own.triton


def suggestion(code: str, change: Change | None, advice: str = "do it") -> Suggestion:
    made = None
    if change is not None:
        no_facts: KernelFacts = None  # type: ignore[assignment]
        differences: tuple[FactDifference, ...] = ()
        made = Counterfactual(change.text(), differences, no_facts, change)
    return Suggestion(
        code=code, title="slow", evidence="why", advice=advice, compiled_for="sm90", config="", counterfactual=made
    )


WARPS = Change(options=(("num_warps", 8),))


def test_options_change_and_nothing_else_does() -> None:
    own = changed_launch(DOUBLED, WARPS, sources())
    assert launched(own).config == {"num_warps": 8, "num_stages": 3}
    assert (launched(own).grid, own.arguments) == ((4, 1, 1), DOUBLED.arguments)
    assert change_text(DOUBLED, WARPS, sources()) == "num_warps 4 → 8"
    assert change_text(DOUBLED, Change(options=(("maxnreg", 64),)), sources()) == "maxnreg=64"


def test_a_smaller_tile_has_more_blocks() -> None:
    change = Change(constants=(("tile", 16),))
    own = changed_launch(DOUBLED, change, sources())
    assert (own.arguments[3].value, launched(own).grid) == (16, (8, 1, 1))
    assert change_text(DOUBLED, change, sources()) == "tile 32 → 16"


def test_an_option_that_is_also_a_parameter_changes_in_both_places() -> None:
    text = SOURCE.replace("count, tile:", "num_warps: tl.constexpr, tile:").replace("at < count", "at < 100")
    own = replace(DOUBLED, arguments=(*DOUBLED.arguments[:2], value("int", 4), value("int", 32)))
    both = changed_launch(own, WARPS, sources(text))
    assert (both.arguments[2].value, launched(both).config["num_warps"]) == (8, 8)
    other = replace(own, arguments=(*own.arguments[:2], value("int", 2), value("int", 32)))
    with pytest.raises(NoExperiment, match="num_warps is a parameter"):
        changed_launch(other, WARPS, sources(text))


def test_a_number_that_is_not_known_to_be_divisible_gets_a_line_of_source() -> None:
    texts, change = sources(), Change(divisible=("count",))
    own = changed_launch(DOUBLED, change, texts)
    assert change_text(DOUBLED, change, texts) == "count = count // 4 * 4"
    edited = texts.edited[launched(own).source]
    assert "tile: tl.constexpr):\n    count = count // 4 * 4\n    at = " in edited
    assert launched(own).source != "doubled.py" and launched(DOUBLED).source == "doubled.py"


def test_an_odd_number_is_refused() -> None:
    own = replace(DOUBLED, arguments=(*DOUBLED.arguments[:2], value("int", 99), value("int", 32)))
    with pytest.raises(NoExperiment, match="count is 99 in the recorded launch"):
        changed_launch(own, Change(divisible=("count",)), sources())


def test_a_view_is_moved_to_an_aligned_address() -> None:
    view = DOUBLED.arguments[0].tensor
    assert view is not None
    moved = replace(DOUBLED.arguments[0], tensor=replace(view, offset=7))
    own = replace(DOUBLED, arguments=(moved, *DOUBLED.arguments[1:]))
    change = Change(divisible=("x",))
    aligned = changed_launch(own, change, sources()).arguments[0].tensor
    assert aligned is not None and aligned.offset == 4  # of four bytes each
    assert change_text(own, change, sources()) == "x at a multiple of 16 bytes"
    with pytest.raises(NoExperiment, match="x is aligned"):
        changed_launch(DOUBLED, change, sources())
    shared = replace(own, arguments=(moved, moved, *own.arguments[2:]))
    with pytest.raises(NoExperiment, match="shares its memory"):
        changed_launch(shared, change, sources())


def test_kernels_of_inductor_compute_their_grid() -> None:
    own = replace(DOUBLED, triton=SourceKernel("doubled.py", "doubled", {"XBLOCK": 512, "num_warps": 4}))
    change = Change(constants=(("XBLOCK", 256),), options=(("num_warps", 8),))
    assert launched(changed_launch(own, change, sources())).config == {"XBLOCK": 256, "num_warps": 8}
    assert change_text(own, change, sources()) == "XBLOCK 512 → 256, num_warps 4 → 8"
    with pytest.raises(NoExperiment, match="Inductor"):
        changed_launch(own, Change(divisible=("xnumel",)), sources())


def body(*lines: str) -> str:
    head = "def f(x, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):"
    return HEAD + "\n    ".join([head, *lines]) + "\n"


SIZES = {"M": 100, "N": 256, "K": 64, "BM": 16, "BN": 64, "BK": 32}


@pytest.mark.parametrize(("lines", "grid", "tile", "after"), [
    # the block's number times the tile
    (["at = tl.program_id(0) * BM"], (7, 1, 1), Tile("BM", 16, 8), (14, 1, 1)),
    (["pid = tl.program_id(axis=0).to(tl.int64)", "at = BM * pid"], (8, 1, 1), Tile("BM", 16, 64), (2, 1, 1)),
    (["a = tl.program_id(0) * BM", "b = tl.program_id(1) * BM"], (2, 3, 1), Tile("BM", 16, 8), (4, 6, 1)),
    (["a = tl.program_id(0) * BM", "b = tl.program_id(1) * BN"], (7, 4, 1), Tile("BN", 64, 32), (7, 8, 1)),
    # counts of tiles that the kernel computes itself: 7 × 4 blocks
    (["m = tl.cdiv(M, BM)", "n = tl.cdiv(N, BN)", "a = tl.program_id(0) // m"], (28, 1, 1), Tile("BM", 16, 64), (8, 1, 1)),
    (["m = tl.cdiv(M, BM)", "n = tl.cdiv(N, BN)", "a = tl.program_id(0) // m"], (28, 1, 1), Tile("BN", 64, 32), (56, 1, 1)),
    # steps of loops
    (["a = tl.program_id(0)", "for k in range(0, K, BK):", "    pass"], (7, 1, 1), Tile("BK", 32, 16), (7, 1, 1)),
    (["a = tl.program_id(0)", "for k in tl.range(0, tl.cdiv(K, BK)):", "    pass"], (2, 1, 1), Tile("BK", 32, 16), (2, 1, 1)),
    # any grid will do
    (["for m in range(tl.program_id(0), M, tl.num_programs(0)):", "    pass"], (5, 1, 1), Tile("BM", 16, 8), (5, 1, 1)),
])  # fmt: skip
def test_the_grid_follows_the_tile(lines: list[str], grid: tuple[int, ...], tile: Tile, after: tuple[int, ...]) -> None:
    assert grid_with(body(*lines), "f", grid, SIZES, tile) == after


@pytest.mark.parametrize(("lines", "grid", "tile", "reason"), [
    # a row per block, which the tile must cover
    (["at = tl.program_id(0) * K + tl.arange(0, BM)"], (7, 1, 1), Tile("BM", 16, 8), "cannot be read"),
    # one sum per block: its output changes with the number of blocks
    (["pid = tl.program_id(0)", "tl.store(x + pid, pid * BM)"], (7, 1, 1), Tile("BM", 16, 8), "not numbered by BM alone"),
    # what was computed is not the grid that was launched
    (["m = tl.cdiv(M, BM)", "a = tl.program_id(0) // m"], (9, 1, 1), Tile("BM", 16, 8), "cannot be read"),
    (["pid = tl.program_id(0)", "pid = pid + 1", "a = pid * BM"], (9, 1, 1), Tile("BM", 16, 8), "cannot be read"),
    # the last block would reach further than any did
    (["a = tl.program_id(0) * BM"], (7, 1, 1), Tile("BM", 16, 64), "7 blocks of BM=16 are not a whole number"),
])  # fmt: skip
def test_a_grid_that_cannot_be_known_is_not_guessed(
    lines: list[str], grid: tuple[int, ...], tile: Tile, reason: str
) -> None:
    with pytest.raises(NoExperiment, match=reason):
        grid_with(body(*lines), "f", grid, SIZES, tile)


def test_lines_go_below_what_describes_the_kernel() -> None:
    text = 'def f(n):\n    """Two\n    lines."""\n    return n'
    assert with_first_lines(text, "f", ["n = 1"]).splitlines()[3:] == ["    n = 1", "    return n"]
    with pytest.raises(NoExperiment, match="no line of its own"):
        with_first_lines("def f(n): return n", "f", ["n = 1"])


def test_a_rule_and_a_kernel_are_an_experiment_and_a_change_is_a_variant() -> None:
    kernels = [
        CheckedKernel((UnitInStep(DOUBLED, 3.0),), (
            suggestion("WK101", WARPS),
            suggestion("WK106", None, "pad the rows"),
            suggestion("WK107", Change(divisible=("count",))),
            suggestion("WK107", Change(divisible=("count",))),  # of another line
            suggestion("WK108", WARPS),
            suggestion("WK110", Change(constants=(("tile", 24),))),
        )),
    ]  # fmt: skip
    experiments = [one for one, _ in suggested_experiments(kernels, sources())]
    assert [(one.finding, [variant.name for variant in one.variants], one.reason) for one in experiments] == [
        ("WK101", ["num_warps 4 → 8"], ""),
        ("WK106", [], "it names no single change: pad the rows"),
        ("WK107", ["count = count // 4 * 4"], ""),
        ("WK108", [], "the same change is run for WK101"),
        ("WK110", [], "4 blocks of tile=32 are not a whole number of blocks of 24"),
    ]
    first = experiments[0]
    assert (first.place, first.title, first.evidence, first.advice) == ("doubled", "doubled: slow", "why", "do it")
    assert first.traced_ns == 3 * DOUBLED.times.median_ns
    (swap,) = first.variants[0].swaps
    assert (swap.before[0].unit, swap.before[0].calls, swap.reference) == ("u1", 3.0, "u1")


def test_the_gpu_of_the_trace_is_what_is_compiled_for() -> None:
    assert target_of(gpu_named("H200"), ()).name == "sm90"
    assert target_of(None, (TracedGpu("some card", "8.0"),)).name == "sm80"
    with pytest.raises(NoExperiment, match="does not compile for sm75"):
        target_of(None, (TracedGpu("an old card", "7.5"),))
    with pytest.raises(NoExperiment, match="does not name its GPU"):
        target_of(None, ())


@pytest.mark.usefixtures("warm_runner")
@pytest.mark.parametrize("change", [WARPS, Change(constants=(("tile", 16),)), Change(divisible=("count",))])
def test_changed_launches_compute_the_same(change: Change, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    texts = sources()
    ((made, changed),) = suggested_experiments(
        [CheckedKernel((UnitInStep(DOUBLED, 1.0),), (suggestion("WK108", change),))], texts
    )
    all_texts = texts.texts | texts.edited
    held = {name: KernelSource(text, hashlib.sha256(text.encode()).hexdigest()) for name, text in all_texts.items()}
    replay = replace(replay_plan(DOUBLED, *changed.units.values()), sources=held)
    plan = ProofPlan(replay, (some_experiment("WK108", *made.variants),))
    path = tmp_path / "proof.plan.json"
    plan_file.save(path, plan)
    (answer,) = compare_outputs(path, plan.compared(), replace(OPTIONS, allow_source=True)).values()
    assert (answer.reason, answer.difference.is_equal if answer.difference else None) == ("", True)


@pytest.mark.usefixtures("warm_compiler")
def test_a_kernel_is_checked_as_it_was_launched() -> None:
    """The mask's bound is no multiple of 16 in one launch, and is in the other."""
    pytest.importorskip("triton")
    even = replace(DOUBLED, id="u2", arguments=(*DOUBLED.arguments[:2], value("int", 4096), value("int", 1024)))
    odd = replace(even, id="u3", arguments=(*even.arguments[:2], value("int", 1000), even.arguments[3]))
    target = target_of(gpu_named("H200"), ())
    found = check_kernels([UnitInStep(even, 1.0), UnitInStep(odd, 1.0)], {"doubled.py": SOURCE}, target)
    assert found.notes == ()
    codes = {kernel.members[0].unit.id: [one.code for one in kernel.suggestions] for kernel in found.kernels}
    assert "WK107" not in codes["u2"] and "WK107" in codes["u3"]
    made = [one.counterfactual.made for kernel in found.kernels for one in kernel.suggestions if one.counterfactual]
    assert Change(divisible=("count",)) in made


@pytest.mark.nightly
@pytest.mark.usefixtures("warm_compiler")
def test_constants_of_kernels_without_a_grid_are_those_of_their_configuration() -> None:
    """As Inductor's are recorded: the launch has the arguments, and the configuration has the sizes of blocks."""
    pytest.importorskip("triton")
    target = target_of(gpu_named("H200"), ())
    config: dict[str, int | bool | str] = {"tile": 64, "num_warps": 4}
    own = replace(DOUBLED, arguments=DOUBLED.arguments[:3], triton=SourceKernel("doubled.py", "doubled", config))
    (kernel,) = check_kernels([UnitInStep(own, 1.0)], {"doubled.py": SOURCE}, target).kernels
    made = {one.code: one.counterfactual.made for one in kernel.suggestions if one.counterfactual}
    assert made["WK110"] == Change(options=(("num_warps", 2),))
    unknown = replace(own, triton=SourceKernel("doubled.py", "doubled", {"num_warps": 4}))
    (note,) = check_kernels([UnitInStep(unknown, 1.0)], {"doubled.py": SOURCE}, target).notes
    assert note.endswith("the value of its tile is not recorded")


@pytest.mark.usefixtures("warm_compiler")
def test_a_kernel_that_cannot_be_checked_is_a_note() -> None:
    pytest.importorskip("triton")
    target = target_of(gpu_named("H200"), ())
    strange = replace(DOUBLED, arguments=(*DOUBLED.arguments[:3], value("function", "positive")))
    (note,) = check_kernels([UnitInStep(strange, 1.0)], {"doubled.py": SOURCE}, target).notes
    assert note == "doubled was not checked by the kernel lab: its tile is a function"
    broken = SOURCE.replace("2 * tl.load", "2 * tl.loads")
    (note,) = check_kernels([UnitInStep(DOUBLED, 1.0)], {"doubled.py": broken}, target).notes
    assert "does not compile for sm90" in note and "loads" in note
