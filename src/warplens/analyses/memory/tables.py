"""The tables on memory."""

from __future__ import annotations

from typing import Final

from warplens.analyses.memory.allocations import allocations
from warplens.analyses.memory.by_module import memory_modules
from warplens.analyses.memory.failures import memory_failures
from warplens.analyses.memory.fragmentation import fragmentation
from warplens.analyses.memory.memory_work import MemoryWork
from warplens.analyses.memory.peak import memory_peak
from warplens.analyses.memory.timeline import memory_timeline
from warplens.model.table_entry import TableEntry, entries

MEMORY_TABLES: Final[dict[str, TableEntry[MemoryWork]]] = entries(
    memory_peak, memory_modules, memory_timeline, allocations, fragmentation, memory_failures
)
