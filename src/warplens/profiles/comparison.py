"""`Comparison`: two profiles side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path, PurePath
from shlex import quote

import numpy as np
import polars as pl

from warplens.advice.compared_steps import CORRECTED, Clocks
from warplens.advice.comparison import (
    NEEDED,
    caveat,
    comparison_verdict,
    gpu_time_sentence,
    noise_line,
    setup_sentence,
    tables_verdict,
    unequal_work,
)
from warplens.analyses.diff import DIFF_TABLES, Pair, Side, gpu_steps, pair, pair_of_steps, shares_matched, steps_text
from warplens.analyses.diff.report_tables import REPORT_TABLES, diff_of_tables, summary_of
from warplens.analyses.diff.tree import diff_of_trees, diff_tree
from warplens.analyses.roofline.costing import COSTED, costing
from warplens.analyses.roofline.tables import cost_coverage
from warplens.analyses.roofline.utilization import flop_of_calls
from warplens.hardware import Gpu
from warplens.model.answer import Answer
from warplens.model.clock import MEASURED, RECORDED, Clock
from warplens.model.table import Table
from warplens.model.tree import Tree, build_tree
from warplens.outputs import Document, Extras
from warplens.profiles.call_paths import PathsProfile
from warplens.profiles.describing import definitions, device_line
from warplens.profiles.on_demand import TablesOnDemand, TableSource, bound
from warplens.profiles.setup import hardware_difference, setup_differences
from warplens.profiles.trace import Profile
from warplens_run.base import bounded
from warplens_run.base.errors import UsageError
from warplens_run.base.units import format_flop

TREE = "diff_tree"
PATH_TABLES_COMPARED = ("kernel_categories", "kernels", "launch_categories", "scopes", "python_lines", "stalls")
DIFF_TABLE_NAMES = (*DIFF_TABLES, TREE)
USUAL_STEPS = "usual"
"""In the place of two steps: the median and the slowest."""
STEPS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
TableMaker = Callable[[], Table]


@dataclass(frozen=True)
class Sides:
    """What is compared: the paths of A and B, and of two traces the profiles with the pair made of them."""

    sources: tuple[str, str]
    hardware: Gpu | None = None
    """The GPU of both, where it is the same."""
    compared: Pair | None = None
    profiles: tuple[Profile, ...] = ()
    words: tuple[str, ...] = ()
    """What names both sides in a command, where that is not their paths."""


@dataclass(frozen=True)
class Facts:
    """What is said of a comparison: the verdict and how sure it is, and the lines below it by their labels."""

    verdict: str
    lines: dict[str, str]
    certainty: str = MEASURED
    clocks: tuple[Clock, ...] = ()
    """The steps of A and of B, where both are known."""


class Comparison(TablesOnDemand):
    """Two profiles side by side, and the tables made from them on demand.

    >>> import warplens
    >>> eager, compiled = (f"samples/kineto/gpt2_train_{how}.json.gz" for how in ("step", "compiled"))
    >>> comparison = warplens.diff(eager, compiled)
    >>> comparison.verdict().partition(":")[0]
    'B is 3.83× faster (3.55 to 4.16)'
    """

    contains = "a comparison"
    kind = "diff"

    def __init__(self, tables: Mapping[str, TableSource], sides: Sides, facts: Callable[[Comparison], Facts]) -> None:
        super().__init__(tables)
        self._sides, self._make_facts = sides, facts

    @cached_property
    def _facts(self) -> Facts:
        return self._make_facts(self)

    def _contents(self) -> str:
        return "two traces" if self._sides.compared else "two profiles"

    @property
    def _short_source(self) -> str:
        return " and ".join(PurePath(source).name for source in self.sources)

    @property
    def sources(self) -> tuple[str, str]:
        """The paths of A and B."""
        return self._sides.sources

    @property
    def source(self) -> str:
        """Both paths."""
        return " and ".join(self.sources)

    @property
    def base(self) -> str:
        """What the times of the tables are of, as the head of a table has it; empty where there is no timeline."""
        compared = self._sides.compared
        if compared is None:
            return ""
        return f"{'one ' * compared.per_step}{_made(compared)} {'step' if compared.per_step else 'trace'}"

    @property
    def hardware(self) -> Gpu | None:
        """The GPU of both; None where it is unknown or where they differ."""
        return self._sides.hardware

    def _conclusion(self) -> tuple[str, str]:
        """A few sentences: which is faster, by how much, and where that comes from."""
        return self._facts.verdict, self._facts.certainty

    @cached_property
    def _answer(self) -> Answer:
        return replace(super()._answer, compared=self._facts.clocks)

    def _next(self) -> tuple[str, ...]:
        options = [*["--tree"] * (TREE in self.table_names), f"--table {self.table_names[0]}"]
        if self._sides.compared is not None:
            both = all(len(side.events) for side in self._sides.compared.sides)
            options = ["--tree", "--table diff_ops"] if both else ["--table diff_host"]
        command = " ".join(["warplens diff", *map(quote, self._sides.words or self.sources)])
        return tuple(f"{command} {option}" for option in options)

    def facts(self) -> dict[str, str]:
        """What belongs on top of a report: the verdict, what was compared, how much of it matched, the noise."""
        return {"verdict": self._facts.verdict, **self._facts.lines}

    def diff_tree(self, context: str | None = None) -> Table:
        """GPU time by call path in both; `context` is python, module, op, annotation or full."""
        if self._sides.compared is not None:
            return diff_tree(self._sides.compared, context)
        if TREE in self.table_names:
            return self.table(TREE)
        raise UsageError("a comparison of jobs has no call paths", hint="compare one rank of each: --rank N")

    def tree(self, context: str = "python", *, weight: str = "gpu", short_names: bool = True) -> Tree:
        """GPU time of B by call path, with the metrics `a_us`, `b_us` and `change_us`; kernels have short names."""
        if weight != "gpu" or not short_names:
            raise UsageError("a comparison has GPU time by call path, with short kernel names only")
        return _tree_of(self.diff_tree(context))

    def document(self, tables: Iterable[str] | None = None, *, command: str = "") -> Document:
        """The tables (all, or these) with the facts, as the outputs take them; `command` is what made it."""
        names = [Path(source).name for source in self.sources]
        return Document(
            title=f"Warplens comparison: {names[0]} and {names[1]}",
            source=self.source,
            facts=dict(self._facts.lines),
            tables=[self.table(name) for name in (self.report_names if tables is None else tables)],
            kind="diff",
            extras=lambda: self._extras(command),
            answer=self.answer(),
        )

    def _extras(self, command: str) -> Extras:
        scenes = [profile.scene(tables=False) for profile in self._sides.profiles]
        return Extras(scenes=scenes, command=command, definitions=definitions())


def _tree_of(paths: Table) -> Tree:
    """A table of call paths as a tree: what each node has besides its children."""
    frame = paths.frame
    parent = frame["parent"].fill_null(-1).to_numpy().astype(np.int64)
    own = {}
    for name in ("a_us", "b_us", "b_count"):
        totals = frame[name].to_numpy().astype(np.float64)
        own[name] = totals - np.bincount(parent[1:], totals[1:], len(totals))[: len(totals)]
    self_ns, self_count = np.rint(own["b_us"] * 1e3).astype(np.int64), np.rint(own["b_count"]).astype(np.int64)
    tree = build_tree(parent, frame["name"].to_list(), frame["kind"].to_list(), self_ns, self_count, "GPU time of B")
    metrics = {"a_us": own["a_us"], "b_us": own["b_us"], "change_us": own["b_us"] - own["a_us"]}
    return tree.with_metrics(metrics)


def _made(compared: Pair) -> str:
    """How the times of both came about: recorded, or corrected by what recording cost."""
    return CORRECTED if any(side.work.options.is_corrected for side in compared.sides) else RECORDED


def _same_gpu(a: Gpu | None, b: Gpu | None) -> Gpu | None:
    return a if a == b else None


def compare_paths(a: PathsProfile, b: PathsProfile) -> Comparison:
    """Two profiles without timelines: their tables number by number, and their trees path by path."""
    shared = [name for name in PATH_TABLES_COMPARED if name in a.table_names and name in b.table_names]
    makers: dict[str, TableMaker] = {
        name: partial(_profile_diff, name, a, b) for name in shared if len(a.table(name)) or len(b.table(name))
    }
    makers = {REPORT_TABLES: partial(_summary, dict(makers)), **makers, TREE: partial(_paths_tree, a, b)}
    sides = Sides((a.source, b.source), _same_gpu(a.hardware, b.hardware))
    return Comparison({name: TableSource(make) for name, make in makers.items()}, sides, partial(_paths_facts, a, b))


def _summary(pairs: Mapping[str, TableMaker]) -> Table:
    return summary_of([make() for make in pairs.values()])


def _profile_diff(name: str, a: PathsProfile, b: PathsProfile) -> Table:
    return diff_of_tables(name, a.table(name).frame, b.table(name).frame)


def _paths_tree(a: PathsProfile, b: PathsProfile) -> Table:
    kernels = [profile.table("kernels").frame.select("kernel_short", "kernel_category") for profile in (a, b)]
    categories = dict(pl.concat(kernels).iter_rows())
    return diff_of_trees((a.tree(), 1), (b.tree(), 1), categories, "python")


def _paths_facts(a: PathsProfile, b: PathsProfile, comparison: Comparison) -> Facts:
    compared = [comparison.table(name) for name in comparison.table_names if name not in (REPORT_TABLES, TREE)]
    setup = setup_sentence(hardware_difference(a.hardware, b.hardware))
    totals = [float(profile.table("kernels").frame["total_us"].sum()) for profile in (a, b)]
    return Facts(setup + gpu_time_sentence(*totals) + tables_verdict(compared), {"A": a.source, "B": b.source})


def compare_profiles(a: Profile, b: Profile, *, whole: bool = False) -> Comparison:
    """Two traces; times are per step where both have steps with GPU work, unless `whole` asks for the whole traces."""
    compared = pair(a.workspace, b.workspace, whole=whole)
    tables = bound(DIFF_TABLES, compared) | {TREE: TableSource(partial(diff_tree, compared))}
    sides = Sides((a.source, b.source), _same_gpu(a.hardware, b.hardware), compared, (a, b))
    return Comparison(tables, sides, partial(_trace_facts, (a, b), compared))


def compare_steps(profile: Profile, steps: str) -> Comparison:
    """Steps of one trace: `3,7` compares step 3 (A) with step 7 (B), `1-3,7` the mean of three with one.

    `usual` compares the median step with the slowest one.
    """
    a, b = _picked_steps(steps, profile)
    compared = pair_of_steps(profile.workspace, a, b)
    tables = bound(DIFF_TABLES, compared) | {TREE: TableSource(partial(diff_tree, compared))}
    labels = (f"{profile.source}, {steps_text(a)}", f"{profile.source}, {steps_text(b)}")
    sides = Sides(labels, profile.hardware, compared, words=(profile.source, "--steps", steps))
    return Comparison(tables, sides, partial(_step_facts, profile, compared))


def _picked_steps(text: str, profile: Profile) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Steps that are named may be without GPU work; their host ops are compared."""
    is_usual = text == USUAL_STEPS
    known = gpu_steps(profile.workspace) if is_usual else tuple(profile.trace.steps["step"].to_list())
    if len(known) < 2:
        count = "one step" if known else "no steps"
        raise UsageError(
            f"{profile.source} has {count}{' with GPU work' * is_usual}",
            hint="two are needed; marks are made with prof.step()",
        )
    if is_usual:
        return _usual_steps(profile.table("steps").frame, known)
    parts = [STEPS.fullmatch(part.strip()) for part in text.split(",")]
    if len(parts) != 2 or None in parts:
        raise UsageError(f"not a pair of steps: {text!r}", hint="for example 3,7 or, for a mean of several, 1-3,7")
    sides = []
    for part in parts:
        assert part is not None
        first, last = bounded.whole(part[1]), bounded.whole(part[2] or part[1])
        sides.append(tuple(step for step in known if first <= step <= last))
        if not sides[-1]:
            raise UsageError(f"no step {part[0]}", hint=f"steps are numbered {known[0]} to {known[-1]}")
    return sides[0], sides[1]


def _usual_steps(steps: pl.DataFrame, known: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The median step and the slowest; the last one only where there are no two others, as no next step ends it."""
    column = "gpu_ms" if float(steps["gpu_ms"].sum()) > 0 else "host_ms"
    ended = known[:-1] if len(known) > 2 else known
    by_time = steps.filter(pl.col("step").is_in(ended)).sort(column)["step"].to_list()
    return (by_time[(len(by_time) - 1) // 2],), (by_time[-1],)


def _step_facts(profile: Profile, compared: Pair, comparison: Comparison) -> Facts:
    needed = {name: comparison.table(name) for name in NEEDED}
    said = comparison_verdict(
        needed, shares_matched(compared), per_step=True, runs=None, is_corrected=_made(compared) == CORRECTED
    )
    lines = {
        "A": f"{steps_text(compared.a.steps)} of {Path(profile.source).name} · {device_line(profile.workspace)}",
        "B": f"{steps_text(compared.b.steps)} of the same trace",
        "matched": comparison.table("diff_ops").notes[-1],
        "times": compared.basis.removeprefix("times are "),
        "noise": noise_line(needed, per_step=True),
    }
    if note := caveat(needed):
        lines["caution"] = note
    cut = compared.basis.partition("; ")[2]
    text = f"{said.text} {cut[0].upper()}{cut[1:]}." if cut else said.text
    return Facts(text + _add_work(lines, compared), lines, said.certainty)


def _add_work(lines: dict[str, str], compared: Pair) -> str:
    """How much arithmetic each side does, where that is known: a faster run may just do less, and the verdict says
    so."""
    a, b = (_flop(side) for side in compared.sides)
    if not a or not b:
        return ""
    lines["work"] = f"{format_flop(a)} (A) and {format_flop(b)} (B){' per step' * compared.per_step}"
    return unequal_work(a, b)


def _trace_facts(profiles: tuple[Profile, Profile], compared: Pair, comparison: Comparison) -> Facts:
    needed = {name: comparison.table(name) for name in NEEDED}
    a, b = (f"{Path(profile.source).name} · {device_line(profile.workspace)}" for profile in profiles)
    clocks, runs = _clocks(profiles, per_step=compared.per_step), (compared.a.runs, compared.b.runs)
    said = comparison_verdict(
        needed,
        shares_matched(compared),
        per_step=compared.per_step,
        runs=runs,
        clocks=clocks,
        is_corrected=_made(compared) == CORRECTED,
    )
    lines = {
        "A": a,
        "B": b,
        "matched": comparison.table("diff_ops").notes[-1],
        "times": "; ".join(compared.notes).removeprefix("times are "),
        "noise": noise_line(needed, per_step=compared.per_step),
    }
    if note := caveat(needed):
        lines["caution"] = note
    work = _add_work(lines, compared)
    if clocks:
        lines[clocks[0].whole] = _steps_line(clocks)
    for label, profile in zip("AB", profiles, strict=True):
        warnings = profile.table("quality").frame.filter(pl.col("severity") == "warning")["message"].to_list()
        if warnings:
            lines[f"quality {label}"] = "; ".join(warnings)
    if not any(len(side.events) for side in compared.sides):
        del lines["matched"]
    return Facts(setup_sentence(setup_differences(*profiles)) + said.text + work, lines, said.certainty, clocks or ())


def _clocks(profiles: tuple[Profile, Profile], *, per_step: bool) -> Clocks | None:
    """How long a step takes in both Answers, or the run where neither has steps; None where one is not known, or waits
    for what nothing recorded explains."""
    a, b = (profile.clock if profile.plain_step else None for profile in profiles)
    if a is None or b is None or min(a.step_ms, b.step_ms) <= 0:
        return None
    return (a, b) if {bool(a.steps), bool(b.steps)} == {per_step} else None


def _steps_line(clocks: Clocks) -> str:
    """Of all marked steps, as the report of each trace has it; the last one is no part of the tables."""
    sides = []
    for label, clock in zip("AB", clocks, strict=True):
        recorded = clock.of_step(clock.recorded_ms)
        more = f" · {recorded} recorded" if recorded != clock.of_step(clock.step_ms) else ""
        counted = f", {'all ' * (clock.steps > 1)}{clock.counted}" if clock.counted else ""
        why = f" ({clock.reason})" if clock.reason else ""
        sides.append(f"{label} {clock.text}{more}{counted}{why}")
    hint = f"; --step-time A,B, with measured {clocks[0].whole}s, narrows it"
    return "; ".join(sides) + (hint if any(clock.is_wide for clock in clocks) else "")


KNOWN_PERCENT = 80.0
"""Only where costs are known for this much of the GPU time do FLOPs show how much work there was."""


def _flop(side: Side) -> float:
    """FLOPs of the calls of a step, or of the whole trace; 0 where too little of them is known."""
    coverage = cost_coverage(side.work).frame.filter(pl.col("reason") == COSTED)
    if float(coverage["percent"].sum()) < KNOWN_PERCENT:
        return 0.0
    return flop_of_calls(costing(side.work), side.chosen) / side.runs
