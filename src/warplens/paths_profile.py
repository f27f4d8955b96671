"""The Python view of a profile without a timeline: the tables and the tree that sums by call path can give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import polars as pl

from warplens.analyses import Options
from warplens.analyses.inside_kernels.counters import with_short_names
from warplens.analyses.paths import PATH_TABLES, PathWorkspace, shown_tree
from warplens.analyses.paths.gpu import gpu_of
from warplens.analyses.trees.rates import EXCLUSIVE
from warplens.categories import OTHER, Rule, load_categorizer
from warplens.errors import UsageError
from warplens.hardware import Gpu
from warplens.model.call_paths import CallPaths
from warplens.model.finding import Finding
from warplens.model.table import Table
from warplens.model.trace import Device, Meta
from warplens.model.tree import Tree
from warplens.outputs import Document, Extras

MOST_METRICS = 4
"""How many metrics the verdict names."""
NO_TIMELINE = "sums by call path, without a timeline"


def _readable(table: Table, work: PathWorkspace) -> Table:
    """Tables about kernels with their short names and categories, which readers do not know."""
    return with_short_names(table, work.categorizer) if "kernel" in table.frame.columns else table


class PathsProfile:
    """An opened profile of call paths: Proton's trees, an ExecutionTrace, Nsight Compute's counters."""

    def __init__(
        self,
        paths: CallPaths,
        rules: Sequence[Rule | str | Path] = (),
        options: Options | None = None,
        gpu: Gpu | None = None,
    ) -> None:
        files = [rule for rule in rules if not isinstance(rule, Rule)]
        extra = [rule for rule in rules if isinstance(rule, Rule)]
        self.paths = paths
        self.work = PathWorkspace(paths, load_categorizer(files, extra), options or Options(), gpu)
        self._extra = {table.name: _readable(table, self.work) for table in paths.extra}
        self._tables: dict[str, Table] = {}

    @property
    def meta(self) -> Meta:
        return self.paths.meta

    @property
    def table_names(self) -> tuple[str, ...]:
        """The tables that have something to say of this profile, and the format's own."""
        return (*PATH_TABLES, *self._extra)

    @property
    def all_table_names(self) -> tuple[str, ...]:
        return self.table_names

    def table(self, name: str) -> Table:
        """One table by name."""
        if name not in self.table_names:
            raise UsageError(
                f"no table {name!r} in this profile: it holds {NO_TIMELINE}",
                hint=f"one of: {', '.join(self.table_names)}",
            )
        if name not in self._tables:
            self._tables[name] = self._extra[name] if name in self._extra else PATH_TABLES[name](self.work)
        return self._tables[name]

    def tables(self) -> list[Table]:
        """Every table, in the order of a report."""
        return [self.table(name) for name in self.table_names]

    def findings(self) -> list[Finding]:
        """None: the rules need to know when things ran."""
        return []

    def tree(self, context: str = "python", *, weight: str = "gpu", short_names: bool = True) -> Tree:
        """The recorded paths; `context` (python, module, op, annotation or full) chooses which callers are shown."""
        if weight != "gpu":
            raise UsageError(f"this profile has no {weight} time by call path", hint="leave --weight away")
        return shown_tree(self.work, context, short_names=short_names)

    def verdict(self) -> str:
        """One sentence on where the time goes."""
        categories = self.table("kernel_categories").to_dicts()
        if not categories:
            return f"No GPU time in this profile; it has {self._counted()} by call path."
        what, percent = categories[0]["kernel_category"], categories[0]["percent"]
        if what == OTHER:  # no answer: the kernel says more
            kernels = self.table("kernels").frame.group_by("kernel_short").agg(pl.col("percent").sum())
            what, percent = kernels.sort("percent", "kernel_short", descending=[True, False]).row(0)
        return f"{what} takes {percent:.0f} % of the GPU time; when it ran is not recorded."

    def _counted(self) -> str:
        """What a profile without times holds."""
        tree = self.paths.tree
        calls = [f"{int(tree.total_count[0]):,} calls"] if tree.total_count[0] else []
        metrics = list(dict.fromkeys(name.removesuffix(EXCLUSIVE) for name in tree.metrics))
        return ", ".join([*calls, *metrics[:MOST_METRICS]]) or "nothing"

    def _device(self, device: Device) -> str:
        """A GPU by its name; where the file has none, as far as the table of hardware tells what it is."""
        found = gpu_of(msgspec.structs.replace(self.meta, devices=(device,)))
        known = f"{found.vendor} {found.name}" if found else f"GPU with compute {device.compute}"
        return device.name or known

    def document(self, tables: Iterable[str] | None = None, *, command: str = "") -> Document:
        """The tables with the facts about the file, as the outputs take them."""
        meta = self.meta
        names = dict.fromkeys(self._device(device) for device in meta.devices)
        facts = {"verdict": self.verdict(), "device": ", ".join(names) or "no GPU named in the file"}
        facts |= {"format": meta.format, "content hash": meta.content_hash, **meta.facts}
        return Document(
            title=f"Warplens report: {Path(meta.source).name}",
            source=meta.source,
            facts=facts,
            tables=[self.table(name) for name in (self.table_names if tables is None else tables)],
            extras=lambda: Extras("paths", command=command),
        )
