"""The Python way to compare: `diff` two profiles, or two directories of report tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from warplens.advice.comparison import (
    NEEDED,
    caveat,
    comparison_verdict,
    noise_line,
    reports_verdict,
    unequal_work,
)
from warplens.analyses.diff import DIFF_TABLES, Pair, pair, shares_matched
from warplens.analyses.diff.tables import REPORT_TABLES, diff_of_tables, summary_of
from warplens.analyses.diff.tree import diff_of_trees, diff_tree
from warplens.analyses.roofline.costing import COSTED
from warplens.api import Profile, definitions, device_line, open
from warplens.errors import FormatError, UsageError
from warplens.model.table import Table
from warplens.outputs import Document, Extras
from warplens.paths_profile import PathsProfile
from warplens.readers.bundle import reader as bundle
from warplens.units import format_flop

TREE = "diff_tree"
OPENED = (Profile, PathsProfile)
PATH_TABLES_COMPARED = ("kernel_categories", "kernels", "launch_categories", "scopes", "python_lines", "stalls")
DIFF_TABLE_NAMES = (*DIFF_TABLES, TREE)
SUFFIXES = (".csv", ".parquet")
Source = str | os.PathLike[str] | Profile | PathsProfile


class Comparison:
    """Two profiles (or reports) side by side, and the tables made from them on demand."""

    def __init__(
        self,
        makers: Mapping[str, Callable[[], Table]],
        sources: tuple[str, str],
        facts: Callable[[Comparison], dict[str, str]],
        compared: Pair | None = None,
        profiles: Sequence[Profile] = (),
    ) -> None:
        self.sources = sources
        self._makers, self._facts, self._pair, self._profiles = makers, facts, compared, profiles
        self._tables: dict[str, Table] = {}

    @property
    def table_names(self) -> tuple[str, ...]:
        return tuple(self._makers)

    def table(self, name: str) -> Table:
        """One table by name."""
        if name not in self._makers:
            raise UsageError(f"no table {name!r}", hint=f"one of: {', '.join(self._makers)}")
        if name not in self._tables:
            self._tables[name] = self._makers[name]()
        return self._tables[name]

    def tables(self) -> list[Table]:
        """Every table, in the order of a report."""
        return [self.table(name) for name in self._makers]

    def verdict(self) -> str:
        """A few sentences: which is faster, by how much, and where that comes from."""
        return self.facts()["verdict"]

    def facts(self) -> dict[str, str]:
        """What belongs on top of a report: the verdict, what was compared, how much of it matched, the noise."""
        return self._facts(self)

    def tree(self, context: str | None = None) -> Table:
        """GPU time by call path in both; `context` is python, module, op, annotation or full."""
        if self._pair is not None:
            return diff_tree(self._pair, context)
        if TREE in self._makers:
            return self.table(TREE)
        raise UsageError("reports hold no call paths to compare", hint="give the two traces instead")

    def document(self, tables: Iterable[str] | None = None, *, command: str = "") -> Document:
        """The tables (all, or these) with the facts, as the outputs take them; `command` is what made it."""
        names = [Path(source).name for source in self.sources]
        return Document(
            title=f"Warplens comparison: {names[0]} and {names[1]}",
            source=" and ".join(self.sources),
            facts=self.facts(),
            tables=[self.table(name) for name in (self._makers if tables is None else tables)],
            extras=lambda: self._extras(command),
        )

    def _extras(self, command: str) -> Extras:
        scenes = [profile.scene(tables=False) for profile in self._profiles]
        return Extras("diff", scenes, command, definitions=definitions())


def diff(a: Source, b: Source, *, whole: bool = False, **options: Any) -> Comparison:
    """What changed from A to B: two profiles (paths, or opened), or two directories of report tables.

    Times are per step where both have steps with GPU work, unless `whole` asks for the whole traces; `options` are
    those of `warplens.open`.
    """
    folders = [_is_report(each) for each in (a, b)]
    if all(folders):
        return _of_reports(Path(_path(a)), Path(_path(b)))
    if any(folders):
        folder = _path(a if folders[0] else b)
        raise UsageError(f"{folder} is a directory and the other is none", hint="give two traces or two directories")
    first, second = (each if isinstance(each, OPENED) else open(each, **options) for each in (a, b))
    if isinstance(first, Profile) and isinstance(second, Profile):
        return compare_profiles(first, second, whole=whole)
    if isinstance(first, PathsProfile) and isinstance(second, PathsProfile):
        return compare_paths(first, second)
    raise UsageError("one has a timeline and the other only sums by call path", hint="compare two of a kind")


def _is_report(source: Source) -> bool:
    """Whether this is a directory of report tables: bundles are directories too."""
    return not isinstance(source, OPENED) and Path(source).is_dir() and bundle.find(Path(source)) is None


def _path(source: Source) -> str:
    return source.meta.source if isinstance(source, OPENED) else os.fspath(source)


def compare_paths(a: PathsProfile, b: PathsProfile) -> Comparison:
    """Two profiles without timelines: their tables number by number, and their trees path by path."""
    shared = [name for name in PATH_TABLES_COMPARED if name in a.table_names and name in b.table_names]
    makers: dict[str, Callable[[], Table]] = {
        name: partial(_profile_diff, name, a, b) for name in shared if len(a.table(name)) or len(b.table(name))
    }
    makers = {REPORT_TABLES: partial(_summary, dict(makers)), **makers, TREE: partial(_paths_tree, a, b)}
    return Comparison(makers, (a.meta.source, b.meta.source), partial(_paths_facts, a, b))


def _profile_diff(name: str, a: PathsProfile, b: PathsProfile) -> Table:
    return diff_of_tables(name, a.table(name).frame, b.table(name).frame)


def _paths_tree(a: PathsProfile, b: PathsProfile) -> Table:
    known = [each.table("kernels").frame.select("kernel_short", "kernel_category") for each in (a, b)]
    categories = dict(pl.concat(known).iter_rows())
    return diff_of_trees((a.tree(), 1), (b.tree(), 1), categories, "python")


def _paths_facts(a: PathsProfile, b: PathsProfile, comparison: Comparison) -> dict[str, str]:
    compared = [comparison.table(name) for name in comparison.table_names if name not in (REPORT_TABLES, TREE)]
    return {"verdict": reports_verdict(compared), "A": a.meta.source, "B": b.meta.source}


def compare_profiles(a: Profile, b: Profile, *, whole: bool = False) -> Comparison:
    compared = pair(a._work, b._work, whole=whole)
    makers: dict[str, Callable[[], Table]] = {name: partial(make, compared) for name, make in DIFF_TABLES.items()}
    makers[TREE] = partial(diff_tree, compared)
    sources = (a.trace.meta.source, b.trace.meta.source)
    return Comparison(makers, sources, partial(_trace_facts, (a, b), compared), compared, (a, b))


def _trace_facts(profiles: tuple[Profile, Profile], compared: Pair, comparison: Comparison) -> dict[str, str]:
    needed = {name: comparison.table(name) for name in NEEDED}
    matched = shares_matched(compared)
    a, b = (f"{Path(each.trace.meta.source).name} · {device_line(each.trace)}" for each in profiles)
    notes = comparison.table("diff_ops").notes
    facts = {
        "verdict": comparison_verdict(needed, matched, per_step=compared.per_step),
        "A": a,
        "B": b,
        "matched": notes[-1],
        "times": "; ".join(compared.notes).removeprefix("times are "),
        "noise": noise_line(needed, per_step=compared.per_step),
    }
    if note := caveat(needed):
        facts["mind"] = note
    flop = [_flop(profile, per_step=compared.per_step) for profile in profiles]
    if flop[0] and flop[1]:
        facts["work"] = f"{format_flop(flop[0])} (A) and {format_flop(flop[1])} (B){' a step' * compared.per_step}"
        facts["verdict"] += unequal_work(flop[0], flop[1])
    for label, profile in zip("AB", profiles, strict=True):
        warnings = profile.table("quality").frame.filter(pl.col("severity") == "warning")["message"].to_list()
        if warnings:
            facts[f"quality {label}"] = "; ".join(warnings)
    if not any(len(side.events) for side in compared.sides):
        del facts["matched"]
    return facts


KNOWN_PERCENT = 80.0
"""Only where costs are known for this much of the GPU time do FLOPs tell how much work there was."""


def _flop(profile: Profile, *, per_step: bool) -> float:
    """FLOPs of a step or of the whole trace; 0 where too little of them is known."""
    coverage = profile.table("cost_coverage").frame.filter(pl.col("reason") == COSTED)
    if float(coverage["percent"].sum()) < KNOWN_PERCENT:
        return 0.0
    frame = profile.table("roofline").frame
    share = pl.col("step_us") / pl.col("total_us") if per_step else pl.lit(1.0)
    whole = float(frame.filter(pl.col("total_us") > 0).select((pl.col("flop") * pl.col("count") * share).sum()).item())
    steps = int((profile.table("steps").frame["count"] > 0).sum()) if per_step else 1
    return whole / max(1, steps)


def _of_reports(a: Path, b: Path) -> Comparison:
    """Two directories that `warplens report T -o dir/` wrote, table by table."""
    files = [_report_files(folder) for folder in (a, b)]
    shared = [name for name in files[0] if name in files[1]]
    if not shared:
        raise UsageError(f"{a} and {b} have no table in common", hint="write both with: warplens report TRACE -o dir/")
    pairs = {name: partial(_table_diff, name, files[0][name], files[1][name]) for name in shared}
    summary = partial(_summary, pairs)
    makers: dict[str, Callable[[], Table]] = {REPORT_TABLES: summary, **pairs}
    only = tuple(tuple(sorted(set(files[side]) - set(shared))) for side in (0, 1))
    return Comparison(makers, (str(a), str(b)), partial(_report_facts, (a, b), only))


def _report_facts(
    folders: tuple[Path, Path], only: tuple[tuple[str, ...], ...], comparison: Comparison
) -> dict[str, str]:
    facts = {
        "verdict": reports_verdict(comparison.tables()[1:]),
        "A": str(folders[0]),
        "B": str(folders[1]),
    }
    for label, names in zip("AB", only, strict=True):
        if names:
            facts[f"only in {label}"] = ", ".join(names)
    return facts


def _summary(pairs: Mapping[str, Callable[[], Table]]) -> Table:
    return summary_of([make() for make in pairs.values()])


def _report_files(folder: Path) -> dict[str, Path]:
    found = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix in SUFFIXES}
    if not found:
        hint = "a report's directory is written with: warplens report TRACE -o dir/"
        raise UsageError(f"{folder} holds no report tables (.csv or .parquet)", hint=hint)
    return found


def _table_diff(name: str, a: Path, b: Path) -> Table:
    return diff_of_tables(name, _read_table(a), _read_table(b))


def _read_table(path: Path) -> pl.DataFrame:
    try:
        return pl.read_csv(path, infer_schema_length=None) if path.suffix == ".csv" else pl.read_parquet(path)
    except pl.exceptions.NoDataError:
        return pl.DataFrame()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FormatError(f"cannot be read as a table ({str(error).splitlines()[0]})", where=str(path)) from error
