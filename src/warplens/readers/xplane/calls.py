"""Which host event GPU work in an `.xplane.pb` file belongs to: its launch, its HLO op, the call of its program."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping

from warplens.model.kinds import NONE
from warplens.readers.xplane.host import XLA_CALL
from warplens.readers.xplane.rows import Rows


class HostCalls:
    """The host events that GPU work can belong to, collected as they are added to the rows."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._launches: dict[int, int] = {}
        self._ops: dict[str, list[int]] = {}
        self._programs: dict[int, list[int]] = {}
        self._spans: dict[int, _Spans] = {}

    def add(self, kind: str, name: str, row: int, correlation: int) -> None:
        if kind == "runtime" and correlation > 0:
            self._launches[correlation] = row
        elif kind == "op":
            self._ops.setdefault(name, []).append(row)
            if XLA_CALL.fullmatch(name):
                self._programs.setdefault(self._rows.lane[row], []).append(row)

    def launch_of(self, row: int) -> int:
        """The call that launched a GPU event, -1 where it is not recorded."""
        return self._launches.get(self._rows.ints["correlation"].get(row, NONE), NONE)

    def tie_to_hlo_ops(self, hlo_of: Mapping[int, str]) -> None:
        """GPU work ↔ the host's event for its HLO op, where launches lie on a thread line of their own (ROCm).

        The op is the one of that name during which the launch began. Where several threads run it at that moment,
        it is that of the thread to which all clear cases of the launching line lead; else none is chosen.
        """
        rows = self._rows
        found = {name: _Spans(rows, members) for name, members in self._ops.items()}
        candidates: list[tuple[int, int, list[int]]] = []
        partners: dict[int, set[int]] = {}
        for row, name in hlo_of.items():
            call = self.launch_of(row)
            if call >= 0 and name in found:
                around = found[name].around(rows.ts_us[call])
                candidates.append((row, rows.lane[call], around))
                if len(around) == 1:
                    partners.setdefault(rows.lane[call], set()).add(rows.lane[around[0]])
        external = rows.ints["external_id"]
        for row, lane, around in candidates:
            if len(around) > 1 and len(partners.get(lane, ())) == 1:
                around = [op for op in around if rows.lane[op] in partners[lane]]
            if len(around) == 1:
                external[row] = external[around[0]] = around[0] + 1

    def program_call(self, row: int) -> int:
        """The innermost call of a jitted function or its program around the launch of a GPU event.

        Where there is none, the launch itself; -1 where that is not recorded either.
        """
        launch, op = self.launch_of(row), self._rows.ints["external_id"].get(row, 0) - 1
        for start in (launch, op):
            if start >= 0:
                around = self._programs_around(start)
                if around:
                    return around[-1]
        return launch

    def _programs_around(self, row: int) -> list[int]:
        lane = self._rows.lane[row]
        if lane not in self._spans:
            self._spans[lane] = _Spans(self._rows, self._programs.get(lane, []))
        return self._spans[lane].around(self._rows.ts_us[row])


class _Spans:
    """Intervals that can be asked which of them hold a moment."""

    def __init__(self, rows: Rows, members: list[int]) -> None:
        # Of two that start together the longer is the outer one.
        self.row = sorted(members, key=lambda row: (rows.ts_us[row], -rows.dur_us[row], row))
        self.start = [rows.ts_us[row] for row in self.row]
        self.end = [rows.ts_us[row] + rows.dur_us[row] for row in self.row]
        self.longest = max((rows.dur_us[row] for row in members), default=0.0)

    def around(self, moment: float) -> list[int]:
        """The rows of the intervals that hold `moment`, by start."""
        first, last = bisect_left(self.start, moment - self.longest), bisect_right(self.start, moment)
        return [self.row[place] for place in range(first, last) if self.end[place] > moment]
