"""`OpenedReplay`: the result of a replay, with the time and energy of each unit alone."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from warplens.analyses.units.replayed import REPLAY_TABLES, WholeRun, replay
from warplens.hardware import Gpu, gpu_of_device
from warplens.model.clock import MEASURED
from warplens.outputs import Document, Extras
from warplens.profiles.on_demand import TablesOnDemand, TableSource, bound
from warplens_run.base.units import format_percent, plural
from warplens_run.formats import replay_result as result_file
from warplens_run.formats.replay_result import ReplayResult


class OpenedReplay(TablesOnDemand):
    """The result of a replay.

    `whole` is the energy of the whole program over the traced period, measured apart: it adds the energy closure to
    the table `replay`.

    >>> import warplens
    >>> result = warplens.open("samples/replay/gpt2_compiled.result.json.gz")
    >>> result.table("replay_ops").to_dicts()[0]["op"]
    'aten::mm.out'
    """

    contains = "the result of a replay"
    kind = "replay"

    def __init__(self, result: ReplayResult, source: str, whole: WholeRun | None = None) -> None:
        sources = bound(REPLAY_TABLES, result) | {"replay": TableSource(partial(replay, result, whole))}
        super().__init__(sources)
        self.result = result
        self._source = source

    def _contents(self) -> str:
        return plural(len(self.result.units), "unit")

    @property
    def source(self) -> str:
        """The path that it was opened from."""
        return self._source

    @property
    def hardware(self) -> Gpu | None:
        """The GPU that the units ran on."""
        return gpu_of_device(self.result.device)

    def _conclusion(self) -> tuple[str, str]:
        """How much of the trace was replayed, and how its time compares."""
        measures = {row["measure"]: row["value"] for row in self.table("replay").to_dicts()}
        covered = f"{format_percent(measures['covered'])} of the traced GPU time was replayed on {self.result.device}"
        if "replayed / traced" not in measures:
            return f"{covered} ({MEASURED}).", MEASURED
        same = format_percent(measures["same kernels"])
        compared = f"{measures['replayed / traced']:.2f} × the traced time, {same} of it by the same kernels"
        return f"{covered}: {compared} ({MEASURED}).", MEASURED

    def _headline(self) -> tuple[str, ...]:
        return self.result.device, "replay result", plural(len(self.result.units), "unit")

    def document(self, tables: Iterable[str] | None = None, *, command: str = "") -> Document:
        """The tables with the facts about the run, as the outputs take them."""
        result = self.result
        facts = {"device": result.device, "trace": result.trace}
        facts |= {"runner": result.runner, "cache": result.cache}
        return Document(
            title=f"Warplens replay: {Path(self.source).name}",
            source=self.source,
            facts=facts | {name: text for name, text in result.versions.items() if text},
            tables=[self.table(name) for name in (self.report_names if tables is None else tables)],
            kind="paths",
            extras=lambda: Extras(command=command),
            answer=self.answer(),
        )


def open_replay(path: Path, whole: WholeRun | None = None) -> OpenedReplay:
    return OpenedReplay(result_file.load(path), str(path), whole)
