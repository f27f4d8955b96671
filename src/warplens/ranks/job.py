"""`Job`: the ranks of one run on one clock, with their collectives matched."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec
import numpy as np
import polars as pl

from warplens.model.kinds import NONE
from warplens.model.trace import Ints
from warplens.ranks.clocks import Clocks, align
from warplens.ranks.kinds import SYNCHRONISING
from warplens.ranks.matching import Matching, match
from warplens.ranks.merged_notes import merged, rank_text, remark_text, some
from warplens.ranks.records import RankDigest
from warplens_run.base.units import format_ns, listed, plural

MATCH: Final = "match"
MARGIN_NS: Final = 50_000
SPREADS: Final = 5
"""A rank that ends a collective so long, or so many spreads of its clock, before another begins it was not in it."""


class FailedRank(msgspec.Struct, frozen=True):
    """A file that could not be read."""

    source: str
    rank: int
    reason: str


class JobNote(msgspec.Struct, frozen=True):
    severity: str
    message: str


@dataclass(frozen=True)
class Job:
    """Digests in the order of their ranks; a *position* is a place in that order."""

    digests: tuple[RankDigest, ...]
    failed: tuple[FailedRank, ...] = ()
    left_out: tuple[JobNote, ...] = ()
    """Why files that could be read are not part of it."""

    @cached_property
    def ranks(self) -> list[int]:
        """The number of each rank: its own, or its position where the traces do not tell."""
        own = [digest.facts.rank for digest in self.digests]
        return own if all(rank >= 0 for rank in own) else list(range(len(own)))

    @cached_property
    def hosts(self) -> list[str]:
        return [digest.facts.host for digest in self.digests]

    @cached_property
    def _matching(self) -> Matching:
        return match(self.digests)

    @cached_property
    def clocks(self) -> Clocks:
        """One clock per machine where machines are named, else one per rank."""
        names = [host or f"rank {position}" for position, host in enumerate(self.hosts)]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        return align(self._matching.frame, [numbers[name] for name in names])

    @cached_property
    def calls(self) -> pl.DataFrame:
        """Every communication kernel on the job's clock, with its `match` and what it waited for.

        Of a matched one: wait (from its start to the last rank's), tail (from its end to the last rank's), transfer
        (from the last start to the last end) and least_ns, the shortest duration of the ranks.
        """
        frame = self._matching.frame
        rank: Ints = frame["rank"].to_numpy()
        corrected = [
            pl.Series(name, self.clocks.corrected(rank, frame[name].to_numpy()))
            for name in ("launch_ns", "start_ns", "end_ns")
        ]
        frame = frame.with_columns(corrected).with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"))
        frame = self._possible(frame)
        over = {
            "last_start_ns": pl.col("start_ns").max(), "first_start_ns": pl.col("start_ns").min(),
            "last_end_ns": pl.col("end_ns").max(), "first_end_ns": pl.col("end_ns").min(),
            "least_ns": pl.col("dur_ns").min(), "members": pl.len(),
        }  # fmt: skip
        is_matched = pl.col(MATCH) >= 0
        frame = frame.with_columns(
            [pl.when(is_matched).then(each.over(MATCH)).alias(name) for name, each in over.items()]
        )
        return frame.with_columns(
            (pl.col("last_start_ns") - pl.col("start_ns")).clip(0, pl.col("dur_ns")).alias("wait_ns"),
            (pl.col("last_end_ns") - pl.col("last_start_ns")).alias("transfer_ns"),
        )

    def _possible(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Without the matches that cannot be: a rank left before another came."""
        rank: Ints = frame["rank"].to_numpy()
        frame = frame.with_columns(pl.Series("spread", np.nan_to_num(self.clocks.spread_ns)[rank], dtype=pl.Float64))
        margin = pl.max_horizontal(pl.lit(MARGIN_NS), SPREADS * pl.col("spread").max().over(MATCH))
        left_early = pl.col("end_ns").min().over(MATCH) < pl.col("start_ns").max().over(MATCH) - margin
        cannot = (pl.col(MATCH) >= 0) & pl.col("kind").is_in(list(SYNCHRONISING)) & left_early
        return frame.with_columns(
            pl.when(cannot).then(NONE).otherwise(MATCH).alias(MATCH), cannot.alias("is_impossible")
        ).drop("spread")

    @cached_property
    def matched(self) -> pl.DataFrame:
        """The matched ones of `calls`."""
        return self.calls.filter(pl.col(MATCH) >= 0)

    @cached_property
    def steps(self) -> pl.DataFrame:
        """Every step of every rank (position `rank`) on the job's clock: when it began and ended, what the GPU did."""
        frames = [
            digest.steps.with_columns(pl.lit(position).cast(pl.Int32).alias("rank"))
            for position, digest in enumerate(self.digests)
        ]
        frame = pl.concat(frames)
        rank: Ints = frame["rank"].to_numpy()
        return frame.with_columns(
            [pl.Series(name, self.clocks.corrected(rank, frame[name].to_numpy())) for name in ("start_ns", "end_ns")]
        )

    @property
    def has_comparable_steps(self) -> bool:
        """Whether a number means the same step on all ranks: inferred steps have to be as many on each."""
        is_guessed = any(digest.facts.has_guessed_steps for digest in self.digests)
        return not is_guessed or len({digest.steps.height for digest in self.digests}) == 1

    @cached_property
    def origin_ns(self) -> int:
        """The job's first moment, which times in tables count from."""
        rank = np.arange(len(self.digests))
        first = np.array([digest.facts.first_ns for digest in self.digests], np.int64)
        return int(self.clocks.corrected(rank, first).min()) if len(rank) else 0

    def notes(self) -> list[JobNote]:
        """What this job's data can and cannot tell, the gravest first."""
        return [*self._missing(), *self.left_out, *self._differences(), *self._clock_notes(), *self._unmatched()]

    def _missing(self) -> list[JobNote]:
        named = merged((failed.rank, failed.reason) for failed in self.failed if failed.rank >= 0)
        notes = [JobNote("warning", remark_text(ranks, text, " could not be read")) for ranks, text in named]
        unnamed = [failed for failed in self.failed if failed.rank < 0]
        for places, text in merged(enumerate(failed.reason for failed in unnamed)):
            many = f" and {plural(len(places) - 1, 'other file')}" if len(places) > 1 else ""
            notes.append(JobNote("warning", f"{unnamed[places[0]].source}{many} could not be read: {text}"))
        world = max((digest.facts.world_size for digest in self.digests), default=0)
        absent = sorted(set(range(world)) - set(self.ranks) - {failed.rank for failed in self.failed})
        if absent:
            many = f"{plural(len(absent), 'rank')} of {world:,} missing"
            notes.append(JobNote("warning", f"{many}: {some(absent)}"))
        warnings = [
            (rank, warning)
            for rank, digest in zip(self.ranks, self.digests, strict=True)
            for warning in digest.facts.warnings[:3]
        ]
        return notes + [JobNote("warning", remark_text(*remark)) for remark in merged(warnings)]

    def _differences(self) -> list[JobNote]:
        notes = []
        if any(digest.facts.rank < 0 for digest in self.digests):
            notes.append(
                JobNote("info", "traces do not record their rank: files were numbered in the order of their names")
            )
        counts = Counter(digest.steps.height for digest in self.digests)
        if len(counts) > 1:
            usual = counts.most_common(1)[0][0]
            other = [
                rank for rank, digest in zip(self.ranks, self.digests, strict=True) if digest.steps.height != usual
            ]
            notes.append(JobNote("info", f"{rank_text(other)} recorded other numbers of steps than {usual}"))
        for what, values in (
            ("GPUs", [digest.facts.gpu for digest in self.digests]),
            ("versions", [str(sorted(digest.facts.versions.items())) for digest in self.digests]),
        ):
            if len(set(values)) > 1:
                shown = listed(sorted(set(values))) if what == "GPUs" else f"{len(set(values))} sets"
                notes.append(JobNote("info", f"ranks have different {what}: {shown}"))
        return notes

    def _clock_notes(self) -> list[JobNote]:
        if self.matched.is_empty():
            return [
                JobNote(
                    "warning", "no collective could be matched: clocks are as recorded, and nothing is said of waits"
                )
            ]
        clocks = self.clocks
        notes = []
        if not clocks.is_common:
            parts = len(np.unique(clocks.component))
            notes.append(
                JobNote("warning", f"{parts} sets of ranks share no collective: their clocks cannot be compared")
            )
        if clocks.offset_ns.any():
            spread = format_ns(round(float(np.nanmax(clocks.spread_ns, initial=0.0))))
            most = format_ns(round(float(np.abs(clocks.offset_ns).max())))
            notes.append(
                JobNote("info", f"clocks were aligned by the ends of collectives: up to {most} apart, {spread} left")
            )
        return notes

    def _unmatched(self) -> list[JobNote]:
        impossible = pl.col("is_impossible")
        reasons = {
            "without a counterpart on another rank": (pl.col(MATCH) == NONE) & ~impossible,
            "not matched: a rank ends the collective before another begins it": impossible,
        }
        total, notes = self.calls.height, []
        for reason, is_meant in reasons.items():
            count = self.calls.filter(is_meant).height
            share = 100 * count / max(1, total)
            kernels = f"{plural(count, 'communication call')} of {total:,} ({share:.1f} %)"
            if count:
                notes.append(JobNote("info" if share < 20 else "warning", f"{kernels} {reason}"))
        return notes
