"""`OpenedLayout`: tiles side by side, with tables of their elements, banks and conflicts."""

from __future__ import annotations

from collections.abc import Iterable

from warplens.model.clock import MEASURED
from warplens.outputs import Document, Extras
from warplens.profiles.on_demand import TablesOnDemand, bound
from warplens_lab.layouts.exploring import Exploration
from warplens_lab.layouts.scene import layout_scene
from warplens_lab.layouts.tables import LAYOUT_TABLES
from warplens_run.base.units import plural


class OpenedLayout(TablesOnDemand):
    """What `warplens kernel layout` shows."""

    contains = "layouts of tiles"
    kind = "kernel"

    def __init__(self, exploration: Exploration) -> None:
        super().__init__(bound(LAYOUT_TABLES, exploration))
        self.exploration = exploration

    def _contents(self) -> str:
        return plural(len(self.exploration.panels), "layout")

    @property
    def source(self) -> str:
        return self.exploration.title

    def _conclusion(self) -> tuple[str, str]:
        return "", MEASURED

    def document(self, tables: Iterable[str] | None = None, *, command: str = "") -> Document:
        return Document(
            title=f"Warplens kernel layout: {self.source}",
            source=self.source,
            facts={"layouts": str(len(self.exploration.panels)), "banks": str(self.exploration.banks)},
            tables=[self.table(name) for name in (self.report_names if tables is None else tables)],
            extras=lambda: Extras(command=command),
            answer=self.answer(),
            kind="layout",
            page=lambda: layout_scene(self.exploration),
        )
