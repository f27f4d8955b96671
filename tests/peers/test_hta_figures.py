"""Our tables beside the figures that the tests of HolisticTraceAnalysis (HTA, commit f4d0062) assert on its own traces.

`hta_figures.json` has every value that they assert on a file that is in HTA's repository (the larger traces are not), with
the query that gives it here; the traces stay there: `WARPLENS_PEERS` is a folder with a checkout of
`HolisticTraceAnalysis/`. Some are beside this checkout as well. A figure is equal within a thousandth, or differs for one
of the `REASONS`; one that becomes equal has to lose its reason.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

import warplens
from support import SHARED

TOLERANCE: Final = 1e-3
DATA: Final = "HolisticTraceAnalysis/tests/data"
REASONS: Final = {
    "another accelerator": "the trace is of an MTIA: it opens, and a note says that only GPUs are analysed",
    "another format": "PyTorch's own memory timeline (.raw.gz) is not read: memory events of traces and snapshots are",
    "another graph": "its graph has a node for the begin and the end of every event, and calls that wait weigh nothing",
    "whole microseconds": "HTA cuts the begin and the end of each event to whole µs; sums of short events lose up to 4 %",
    "framework ops only": "diff_host compares framework ops; HTA also annotations and calls of the runtime",
    "depth by thread": "HTA hangs the backward thread below an annotation of the main thread; here depth is that of a thread",
    "not read": "nothing is computed from it",
    "display": "how many rows and samples are shown, and how names and kinds are spelt",
    "no rank recorded": "HTA takes rank 0 where a file has none; here it has none",
    "groups by the header": "the header counts 10 process groups and lists 11, which are read",
}
EQUAL: Final = 113
DIFFERENT: Final = {
    "another accelerator": 36, "another format": 9, "another graph": 8, "whole microseconds": 8, "framework ops only": 6,
    "depth by thread": 3, "not read": 3, "display": 6, "no rank recorded": 2, "groups by the header": 1,
}  # fmt: skip
FACTS: Final[dict[str, Callable[[warplens.Profile], Any]]] = {
    "origin_ns": lambda profile: profile.meta.origin_ns,
    "len(devices)": lambda profile: len(profile.meta.devices),
    "len(distributed.groups)": lambda profile: len(_job(profile).groups),
    "distributed.rank": lambda profile: _job(profile).rank,
    "distributed.world_size": lambda profile: _job(profile).world_size,
    "distributed.backend": lambda profile: _job(profile).backend,
}


class Figure(NamedTuple):
    """`sql` are queries whose results are added up, to the fact of the file that `meta` names."""

    test: str
    file: str
    figure: str
    value: float | str
    against: str = ""
    """The other trace, of a comparison."""
    range: str = ""
    sql: tuple[str, ...] = ()
    meta: str = ""
    differs: str = ""

    @property
    def is_equal(self) -> bool:
        ours = self._ours()
        if isinstance(self.value, str) or not isinstance(ours, (int, float)):
            return bool(ours == self.value)
        return abs(ours - self.value) <= TOLERANCE * abs(self.value)

    def _ours(self) -> Any:
        profile: Any = opened(self.file, self.range)
        values = [FACTS[self.meta](profile)] if self.meta else []
        if self.against:
            profile = warplens.diff(profile, opened(self.against, self.range))
        rows = [profile.sql(query).to_polars().rows() for query in self.sql]
        values += [row[0][0] for row in rows if row and row[0][0] is not None]
        return sum(values) if len(values) > 1 else values[0] if values else None


def _job(profile: warplens.Profile) -> Any:
    assert profile.meta.distributed is not None
    return profile.meta.distributed


FIGURES: Final = [
    Figure(**{**figure, "sql": tuple(figure.get("sql", ()))})
    for figure in json.loads((Path(__file__).parent / "hta_figures.json").read_text(encoding="utf-8"))
]
FILES: Final = sorted({figure.file for figure in FIGURES})


def located(file: str) -> Path | None:
    """In HTA's checkout, or among the traces beside ours."""
    peers = os.environ.get("WARPLENS_PEERS", "")
    shared = SHARED / "traces" / "ranks" / "critical_path" / f"{Path(file).parent.name}.json.gz"
    own = Path(peers) / DATA / file if peers else shared
    return next((path for path in (own, shared) if path.exists()), None)


@lru_cache
def opened(file: str, chosen: str) -> warplens.Profile:
    path = located(file)
    if path is None:
        pytest.skip("no checkout of HolisticTraceAnalysis in WARPLENS_PEERS")
    profile = warplens.open(path, range=chosen)
    assert isinstance(profile, warplens.Profile)
    return profile


def test_every_figure_has_a_query_or_a_reason() -> None:
    assert Counter(figure.differs for figure in FIGURES) == {"": EQUAL, **DIFFERENT}
    assert set(DIFFERENT) == set(REASONS)
    assert all(figure.sql or figure.meta for figure in FIGURES if not figure.differs)


@pytest.mark.parametrize("file", FILES)
def test_figures_are_those_of_hta_or_differ_for_the_reason_that_is_given(file: str, one_cache: None) -> None:
    own = [figure for figure in FIGURES if figure.file == file and (figure.sql or figure.meta)]
    if not own:
        pytest.skip("no figure of this file is computed here")
    opened(file, "")
    wrong = [(figure.figure, figure.value) for figure in own if not figure.differs and not figure.is_equal]
    assert not wrong
    spare = [(figure.figure, figure.differs) for figure in own if figure.differs and _is_equal(figure)]
    assert not spare, "these are equal"


FORWARD: Final = "[param|pytorch.model.alex_net|0|0|0|measure|forward]#1"
PATHS: Final = {
    # trace: the weights on the critical path of the second call of FORWARD, in µs (HTA prints them)
    "critical_path/simple_add/benchmark_result_493459_1694039959_trace.json.gz": 241_724,
    "critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz": 35_834,
}


@pytest.mark.parametrize("file", PATHS)
def test_the_critical_path_of_one_call_takes_as_long_inside_ops_as_hta_s(file: str, one_cache: None) -> None:
    """HTA gives no weight to the host's time between two ops, nor to a call that waits."""
    path = opened(file, FORWARD).table("critical_path").frame
    inside = path.filter(path["op"] != "")["recorded_us"].sum()
    assert inside == pytest.approx(PATHS[file], rel=0.003)
    assert inside < path["recorded_us"].sum()


def _is_equal(figure: Figure) -> bool:
    """A figure that differs may be one of something that a file does not have."""
    try:
        return figure.is_equal
    except AssertionError:
        return False
