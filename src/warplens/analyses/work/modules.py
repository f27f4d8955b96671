"""`modules` and `python_lines`: GPU time by the user's own code, backward folded into forward."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
import numpy as np
import polars as pl

from warplens.analyses.missing_data import NO_STACKS, quality_note_or
from warplens.analyses.shared import shared
from warplens.analyses.work.kernels import EVENTS, PERCENT
from warplens.analyses.workspace import NO_LAUNCH, Workspace, percent_of
from warplens.model.arrays import numbered, sorted_unique
from warplens.model.kinds import CODE, MODULE_PREFIX, NONE
from warplens.model.table import Column, Table
from warplens.model.trace import Bools, Ints, Trace
from warplens.model.user_code import FRAME, is_own_frame
from warplens.passes.climb import CallerContext, climb, climb_context
from warplens_run.base import bounded

OUTSIDE = "(outside any module)"
DEEPER = "/…"
"""The end of a path of modules that are nested too deep: all of them are one row."""
MOST_LEVELS = 100
LONGEST_PATH = 4000
"""Characters. Models have some ten levels; paths of as many levels as calls would be the square of them."""
OPTIMIZER = "(optimizer)"
NO_FRAME = "(no Python frame)"
OPTIMIZER_CALLS: Final = ("Optimizer.step#",)
"""Annotations that PyTorch puts around an optimizer's step."""
AUTOGRAD_CALLS: Final = ("autograd::engine::evaluate_function", "CompiledFunctionBackward")
"""Ops around what the autograd engine runs."""
FORWARD = Column("forward_us", "GPU time launched by the forward pass", "us", pl.Float64)
BACKWARD = Column("backward_us", "GPU time of backward ops that this forward code created", "us", pl.Float64)
LINE_FORWARD = Column("forward_us", "GPU time launched from it directly, outside backward", "us", pl.Float64)
FORWARD_PASS, BACKWARD_PASS, NEITHER_PASS = range(3)
"""What a GPU event counts for in a row of `modules` or `python_lines`."""
SUMS: Final = ("forward_us", "backward_us", "kernel_us")


class ModuleContext(NamedTuple):
    """For each GPU event the nearest nn.Module call, -1 for none, and the pass it counts for."""

    row: Ints
    passes: Ints
    optimizer: Bools
    """Launched by an optimizer's step, which belongs to no module, whichever module's call is around it."""


def modules(work: Workspace) -> Table:
    is_module = work.trace.ints("kind") == CODE["module"]
    codes, texts = module_codes(work)
    frame = _by_code(work, module_context(work).passes, codes, texts, "module")
    frame = _with_outer_modules(frame)
    frame = frame.with_columns(
        percent_of("kernel_us", work.gpu_total_ns).alias("percent"),
        percent_of("subtree_kernel_us", work.gpu_total_ns).alias("subtree_percent"),
        pl.col("module").str.count_matches("/", literal=True).cast(pl.Int64).alias("depth"),
    ).sort("subtree_kernel_us", "module", descending=[True, False])
    columns = (
        Column("module", "path of nn.Module instances, outermost first", "", pl.String),
        Column("depth", "modules around it", "", pl.Int64),
        Column("count", "GPU events whose innermost module this is", "", pl.Int64),
        FORWARD,
        BACKWARD,
        Column("kernel_us", "GPU time of exactly this module", "us", pl.Float64),
        Column("subtree_kernel_us", "GPU time of this module and those inside it", "us", pl.Float64),
        PERCENT,
        Column("subtree_percent", "share of all GPU time, inner modules included", "%", pl.Float64),
        Column("subtree_forward_us", "forward_us of this module and those inside it", "us", pl.Float64),
        Column("subtree_backward_us", "backward_us of this module and those inside it", "us", pl.Float64),
    )
    notes = () if is_module.any() else (quality_note_or(work, NO_STACKS, "no nn.Module calls in this trace"),)
    return Table.from_frame("modules", "one row per nn.Module path", columns, frame, *notes)


def python_lines(work: Workspace) -> Table:
    codes, texts = line_codes(work)
    frame = _by_code(work, line_context(work).backward.astype(np.int64), codes, texts, "frame")
    parts = [frame_parts(text) for text in frame["frame"].to_list()]
    frame = frame.with_columns(
        pl.Series("file", [part[0] for part in parts], dtype=pl.String),
        pl.Series("line", [part[1] for part in parts], dtype=pl.Int64),
        pl.Series("function", [part[2] for part in parts], dtype=pl.String),
        percent_of("kernel_us", work.gpu_total_ns).alias("percent"),
    ).sort("kernel_us", "file", "line", descending=[True, False, False])
    columns = (
        Column("file", "source file of the innermost frame outside the framework", "", pl.String),
        Column("line", "line where that function starts", "", pl.Int64),
        Column("function", "its name", "", pl.String),
        Column("count", "GPU events launched from it", "", pl.Int64),
        LINE_FORWARD,
        BACKWARD,
        Column("kernel_us", "GPU time, forward and backward", "us", pl.Float64),
        PERCENT,
    )
    notes = () if user_frames(work).any() else (quality_note_or(work, NO_STACKS, "no Python frames in this trace"),)
    return Table.from_frame("python_lines", "one row per Python function (file:line)", columns, frame, *notes)


def module_codes(work: Workspace) -> tuple[Ints, list[str]]:
    """For each GPU event the number of its module, and the modules' paths; the last three are for work in no module."""
    (row, _, optimizer), paths = module_context(work), module_paths(work)
    texts = {path: number for number, path in enumerate(dict.fromkeys(paths.values()))}
    calls, call_of_event = np.unique(row, return_inverse=True)
    of_call = np.array([texts[paths[call]] if call >= 0 else len(texts) for call in calls.tolist()], np.int64)
    codes = of_call[call_of_event] + ((row < 0) & (work.gpu["owner"].to_numpy() < 0)) + 2 * optimizer
    return codes, [*texts, OUTSIDE, NO_LAUNCH, OPTIMIZER]


def line_codes(work: Workspace) -> tuple[Ints, list[str]]:
    """For each GPU event the number of its Python frame, and the frames' texts; the last is for no frame."""
    trace, row = work.trace, line_context(work).row
    return np.where(row >= 0, trace.ints("name")[np.maximum(row, 0)], len(trace.names)), [*trace.names, NO_FRAME]


@shared
def user_frames(work: Workspace) -> Bools:
    """Which events are Python frames of the user's own code."""
    trace = work.trace
    own = np.zeros(len(trace.names), bool)
    for code in trace.host_names.tolist():
        name = trace.names[code]
        own[code] = is_own_frame(name)
    is_user_frame: Bools = trace.ints("kind") == CODE["python"]
    is_user_frame[is_user_frame] = own[trace.ints("name")[is_user_frame]]
    return is_user_frame


@shared
def line_context(work: Workspace) -> CallerContext:
    """For each GPU event the nearest Python frame of the user's own."""
    return _context(work, user_frames(work))


@shared
def module_context(work: Workspace) -> ModuleContext:
    """The nearest module of each GPU event; the walk up ends at an optimizer's step."""
    trace, owner = work.trace, work.gpu["owner"].to_numpy()
    is_optimizer = _calls_of(work, OPTIMIZER_CALLS)
    row, backward = _context(work, (trace.ints("kind") == CODE["module"]) | is_optimizer)
    optimizer = (row >= 0) & is_optimizer[np.maximum(row, 0)]
    row = np.where(optimizer, NONE, row)
    # Gradients that no module's op created, such as those that DDP reduces: only the engine's call tells.
    outside = np.flatnonzero((row < 0) & (owner >= 0) & ~optimizer & ~backward)
    if len(outside):
        backward[outside] = climb(owner[outside], trace.ints("parent"), _calls_of(work, AUTOGRAD_CALLS)) >= 0
    passes = np.where(optimizer, NEITHER_PASS, np.where(backward, BACKWARD_PASS, FORWARD_PASS))
    return ModuleContext(row, passes, optimizer)


def _calls_of(work: Workspace, beginnings: tuple[str, ...]) -> Bools:
    """Which host events of the trace have a name that begins so."""
    trace = work.trace
    begins = np.zeros(len(trace.names), bool)
    begins[trace.host_names] = [trace.names[code].startswith(beginnings) for code in trace.host_names.tolist()]
    chosen: Bools = begins[work.trace.ints("name")]
    return chosen


def _context(work: Workspace, stop: Bools) -> CallerContext:
    trace, owner = work.trace, work.gpu["owner"].to_numpy()
    return climb_context(owner, trace.ints("parent"), trace.ints("forward"), stop)


def _by_code(work: Workspace, passes: Ints, codes: Ints, texts: list[str], name: str) -> pl.DataFrame:
    """GPU time by code, with the code's text as the column `name`."""
    us = pl.col("dur_ns") / 1000
    frame = pl.DataFrame({"code": codes, "dur_ns": work.gpu["dur_ns"], "pass": passes})
    summed = frame.group_by("code").agg(
        EVENTS,
        us.filter(pl.col("pass") == FORWARD_PASS).sum().alias("forward_us"),
        us.filter(pl.col("pass") == BACKWARD_PASS).sum().alias("backward_us"),
        (pl.col("dur_ns").sum() / 1000).alias("kernel_us"),
    )
    return summed.with_columns(pl.Series(name, [texts[code] for code in summed["code"].to_list()], dtype=pl.String))


@shared
def module_paths(work: Workspace) -> dict[int, str]:
    """Path of every module call that launched GPU work."""
    rows, paths = module_context(work).row, _paths(work)
    return {row: paths[row] for row in sorted_unique(rows[rows >= 0]).tolist()}


def modules_around(work: Workspace, rows: Ints) -> pl.Series:
    """The path of the nearest module around each host event, through backward ops too; "" outside of any."""
    trace, is_optimizer = work.trace, _calls_of(work, OPTIMIZER_CALLS)
    is_module = trace.is_kind("module")
    around = climb_context(rows, trace.ints("parent"), trace.ints("forward"), is_module | is_optimizer).row
    calls, call_of_row = numbered(around)
    paths = _paths(work)
    texts = ["" if call < 0 else paths[call] if is_module[call] else OPTIMIZER for call in calls.tolist()]
    return pl.Series("module", texts, dtype=pl.String).gather(call_of_row)


class Lines(msgspec.Struct, frozen=True):
    """Python lines of many rows: a number of each row, and the text of each number."""

    codes: Ints
    texts: list[str]

    def text(self, codes: Ints | pl.Series) -> pl.Series:
        return pl.Series("line", self.texts, dtype=pl.String).gather(codes)


def lines_around(work: Workspace, rows: Ints) -> Lines:
    """The nearest Python function of the user's own around each host event, as "file:line function"; "" without."""
    trace, is_user_frame = work.trace, user_frames(work)
    if not is_user_frame.any():
        return Lines(np.zeros(len(rows), np.int64), [""])
    around = climb_context(rows, trace.ints("parent"), trace.ints("forward"), is_user_frame).row
    codes, code_of_row = np.unique(
        np.where(around >= 0, trace.ints("name")[np.maximum(around, 0)].astype(np.int64), NONE), return_inverse=True
    )
    parts = [frame_parts(trace.names[code]) if code >= 0 else None for code in codes.tolist()]
    return Lines(code_of_row, [f"{part[0]}:{part[1]} {part[2]}" if part else "" for part in parts])


class _ModulePaths(dict[int, str]):
    """Path of each module call: made when it is asked for by subscript, with those of the calls around it."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        is_module, parent = trace.is_kind("module"), trace.ints("parent")
        calls = np.flatnonzero(is_module)
        self._outer = dict(zip(calls.tolist(), climb(parent[calls], parent, is_module).tolist(), strict=True))
        self._texts, self._names = trace.names, trace.ints("name")

    def __missing__(self, row: int) -> str:
        chain = []
        at = row
        while at >= 0 and at not in self:
            chain.append(at)
            at = self._outer[at]
        for call in reversed(chain):
            own = self._texts[self._names[call]].removeprefix(MODULE_PREFIX).replace("/", "∕")
            outer = self._outer[call]
            self[call] = _path_inside(self[outer], own) if outer >= 0 else own
        return self[row]


@shared
def _paths(work: Workspace) -> _ModulePaths:
    return _ModulePaths(work.trace)


def _path_inside(outer: str, own: str) -> str:
    """
    >>> _path_inside("GPT_0/Block_0", "MLP_0"), _path_inside("GPT_0/…", "MLP_0")
    ('GPT_0/Block_0/MLP_0', 'GPT_0/…')
    """
    if outer.endswith(DEEPER):
        return outer
    return outer + DEEPER if len(outer) > LONGEST_PATH or outer.count("/") >= MOST_LEVELS else f"{outer}/{own}"


def _with_outer_modules(frame: pl.DataFrame) -> pl.DataFrame:
    """Adds the sums with inner modules (`subtree_…`), and rows for modules that launch nothing themselves."""
    subtree: dict[str, list[int]] = {}
    for module, *times_us in frame.select("module", *SUMS).iter_rows():
        times_ns = [round(1000 * us) for us in times_us]
        parts = module.split("/")
        for depth in range(1, len(parts) + 1):
            sums = subtree.setdefault("/".join(parts[:depth]), [0] * len(SUMS))
            for place, ns in enumerate(times_ns):
                sums[place] += ns
    rows = [(module, *(ns / 1000 for ns in sums)) for module, sums in subtree.items()]
    schema = {"module": pl.String} | {f"subtree_{name}": pl.Float64 for name in SUMS}
    totals = pl.DataFrame(rows, schema=schema, orient="row")
    return totals.join(frame, on="module", how="left").with_columns(
        pl.col("count").fill_null(0), pl.col(SUMS).fill_null(0.0)
    )


def frame_parts(text: str) -> tuple[str, int | None, str]:
    match = FRAME.fullmatch(text)
    if match is None:
        return text, None, ""
    return match["file"], bounded.whole(match["line"]), match["function"]
