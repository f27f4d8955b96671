"""`PathsProfile`: an opened profile without a timeline, with the tables and the tree of its sums by call path."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePath
from shlex import quote
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from warplens.analyses import Options
from warplens.analyses.paths import FORMAT_TABLES, PATH_TABLES, PathWorkspace, shown_tree
from warplens.analyses.paths.gpu_lookup import gpu_of
from warplens.analyses.paths.stalls import PREFIX
from warplens.categories import OTHER, load_categorizer
from warplens.hardware import Gpu
from warplens.model.call_paths import CallPaths
from warplens.model.clock import MEASURED
from warplens.model.measured import STALL_MEANINGS
from warplens.model.trace import Device, Meta
from warplens.model.tree import EXCLUSIVE, Tree
from warplens.outputs import Document, Extras
from warplens.profiles.describing import NO_DEVICE, headline
from warplens.profiles.on_demand import TablesOnDemand, bound
from warplens.profiles.options import Rules, split_rules
from warplens_run.base.errors import UsageError
from warplens_run.base.units import plural

if TYPE_CHECKING:
    from warplens.model.measured import Measured

MOST_METRICS = 4
"""How many metrics the verdict names."""


class PathsProfile(TablesOnDemand):
    """An opened profile of call paths: Proton's trees, Nsight Compute's counters.

    >>> import warplens
    >>> profile = warplens.open("samples/proton/scopes.hatchet.gz")
    >>> profile.verdict()
    'foo_n takes 85 % of the GPU time (measured); the profile has no timeline.'
    """

    contains = "sums by call path"
    kind = "sums"
    worth_a_look = ("stalls", "regions", "counter_instructions", "scopes", "counters")

    def __init__(
        self,
        paths: CallPaths,
        rules: Rules = (),
        options: Options | None = None,
        gpu: Gpu | None = None,
    ) -> None:
        self.paths = paths
        categorizer = load_categorizer(*split_rules(rules))
        self.workspace = PathWorkspace(paths, categorizer, options or Options(), gpu or gpu_of(paths.meta))
        """What the analyses of these call paths share."""
        super().__init__(bound(PATH_TABLES | FORMAT_TABLES, self.workspace))

    def _contents(self) -> str:
        return plural(len(self.paths.tree), "call path")

    @property
    def source(self) -> str:
        """The path that it was opened from."""
        return self.meta.source

    @property
    def meta(self) -> Meta:
        """What the file says of itself: format, size, devices."""
        return self.paths.meta

    @property
    def hardware(self) -> Gpu | None:
        """The GPU whose limits apply: the one that was named, else the profile's own; None where it is unknown."""
        return self.workspace.hardware

    def tree(self, context: str = "python", *, weight: str = "gpu", short_names: bool = True) -> Tree:
        """The recorded paths; `context` (python, module, op, annotation or full) chooses which callers are shown."""
        if weight != "gpu":
            raise UsageError(f"this profile has no {weight} time by call path", hint="omit the weight")
        return shown_tree(self.workspace, context, short_names=short_names)

    def call_paths(self, context: str = "python") -> CallPaths:
        """The same with what the file says of it, full names of kernels."""
        tree = shown_tree(self.workspace, context, short_names=False)
        return replace(self.paths, tree=tree, device=self.paths.device if len(tree) == len(self.paths.tree) else ())

    def measured(self) -> Measured:
        """The measured time of each kernel, by name and launch geometry."""
        from warplens.analyses.inside_kernels.measured import measured  # only a check of kernels needs it

        return measured(self.workspace)

    def _conclusion(self) -> tuple[str, str]:
        """Where the time goes and, where samples have lines, what warps wait for most."""
        return " ".join(filter(None, [self._time(), self._most_stalled()])), MEASURED

    def _headline(self) -> tuple[str, ...]:
        return headline(self.meta, self._device_line())

    def _next(self) -> tuple[str, ...]:
        return (f"warplens tree {quote(self.source)}", *super()._next())

    def _device_line(self) -> str:
        return ", ".join(dict.fromkeys(self._device_name(device) for device in self.meta.devices)) or NO_DEVICE

    def _most_stalled(self) -> str:
        """The line of a kernel with most waits, and the first of their reasons."""
        lines = self.table("stalls").frame.filter(pl.col("line").is_not_null() & (pl.col("stalled_samples") > 0))
        if not len(lines):
            return ""
        worst = lines.sort("stalled_samples", descending=True, maintain_order=True).row(0, named=True)
        share = 100 * worst["stalled_samples"] / lines["stalled_samples"].sum()
        reason = f", mostly {worst['top_stall']}" if worst["top_stall"] else ""
        meaning = STALL_MEANINGS.get(worst["top_stall"], "")
        place = f"{PurePath(worst['file']).name}:{worst['line']}"
        return f"{share:.0f} % of the waits are on {place}{reason}{f' ({meaning})' if meaning else ''}."

    def _time(self) -> str:
        categories = self.table("kernel_categories").to_dicts()
        if not categories:
            return f"No GPU time in this profile; it has {self._counted()} by call path (measured)."
        what, percent = categories[0]["kernel_category"], categories[0]["percent"]
        if what == OTHER:  # the kernel's name says more
            kernels = self.table("kernels").frame.group_by("kernel_short").agg(pl.col("percent").sum())
            what, percent = kernels.sort("percent", "kernel_short", descending=[True, False]).row(0)
        return f"{what} takes {percent:.0f} % of the GPU time (measured); the profile has no timeline."

    def _counted(self) -> str:
        """What a profile without GPU times contains."""
        tree = self.paths.tree
        calls = [f"{int(tree.total_count[0]):,} calls"] if tree.total_count[0] else []
        named = (name.removesuffix(EXCLUSIVE) for name in tree.metrics if not name.startswith(PREFIX))
        metrics = list(dict.fromkeys(named))
        return ", ".join([*calls, *metrics[:MOST_METRICS]]) or "nothing"

    def _device_name(self, device: Device) -> str:
        """A GPU by its name; where the file has none, by what the table of hardware knows of it."""
        gpu = gpu_of(msgspec.structs.replace(self.meta, devices=(device,)))
        return device.name or (f"{gpu.vendor} {gpu.name}" if gpu else f"GPU with compute {device.compute}")

    def document(self, tables: Iterable[str] | None = None, *, command: str = "") -> Document:
        """The tables with the facts about the file, as the outputs take them."""
        meta = self.meta
        facts = {"device": self._device_line()}
        facts |= {"format": meta.format, "content hash": meta.content_hash, **meta.facts}
        return Document(
            title=f"Warplens report: {Path(meta.source).name}",
            source=meta.source,
            facts=facts,
            tables=[self.table(name) for name in (self.report_names if tables is None else tables)],
            kind="paths",
            extras=lambda: Extras(command=command),
            answer=self.answer(),
            paths=self.call_paths if tables is None else None,
        )
