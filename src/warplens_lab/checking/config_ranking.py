"""A list of configs ranked by their facts alone: in seconds, without a GPU, and with what that cannot know said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import polars as pl

from warplens.model.table import Column, Table
from warplens_lab.comparing.compilations import narrowest_bits
from warplens_lab.compiling.compiling import CompileJob, compile_all
from warplens_lab.compiling.launched import launches_of
from warplens_lab.compiling.launching import Notify, ScriptLaunch, ignore
from warplens_lab.compiling.loading import LoadedKernel, load_kernel
from warplens_lab.compiling.records import Config, OptionValue
from warplens_lab.compiling.request import CompileRequest
from warplens_lab.compiling.signature import Signature
from warplens_lab.compiling.targets import TARGETS, CompileTarget
from warplens_lab.compiling.triton_options import is_option_name
from warplens_lab.facts import extract
from warplens_lab.facts.records import KernelFacts
from warplens_run.base.errors import UsageError

NO_CONFIG_HINT: Final = "give a config, or a kernel with triton.autotune"
UNKNOWN: Final = (
    "ranked by facts of the compiled code, not by time: a measured run decides between configs of one tier",
    "not known without running: the problem's size (waves, masked rests), cache hits, clocks, how well latency hides",
)

TIERS: Final = (
    # A config belongs to the first tier whose condition holds; earlier ones are worse.
    ("does not compile", lambda f: not f.is_compiled),
    ("does not fit", lambda f: f.occupancy is None or f.occupancy.blocks == 0),
    ("spills", lambda f: f.spill_bytes > 0),
    ("leaves the matrix unit idle", lambda f: any(not dot.uses_matrix_unit for dot in f.dots)),
    ("uses an older matrix instruction", lambda f: any(d.instruction != TARGETS[f.target].matrix_unit for d in f.dots)),
    ("does not load ahead", lambda f: any(loop.has_dot and not loop.is_pipelined for loop in f.loops)),
    ("narrow accesses", lambda f: any(_is_narrow_tile(f, at) for at in range(len(f.accesses)))),
    ("good", lambda f: True),
)

COLUMNS: Final = (
    Column("rank", "1 is best; equal facts share a rank", "", pl.Int64),
    Column("config", "constants and options", "", pl.String),
    Column("tier", "the worst thing that is known of it", "", pl.String),
    Column(
        "reuse", "multiplications of a product for each element of its operands; null without products", "", pl.Float64
    ),
    Column("registers", "registers per thread", "", pl.Int64),
    Column("spill_bytes", "bytes spilled per thread", "bytes", pl.Int64),
    Column("shared_bytes", "shared memory of a block", "bytes", pl.Int64),
    Column("occupancy_percent", "warps that an SM or CU holds, of its slots", "%", pl.Float64),
    Column("limiter", "what keeps it from holding more", "", pl.String),
    Column("matrix_instruction", "the matrix unit's instructions", "", pl.String),
    Column("narrowest_bits", "narrowest access of a tile", "bits", pl.Int64),
    Column("buffers", "copies of one tile in shared memory", "", pl.Int64),
    Column("instructions_in_loops", "machine instructions inside loops, each counted once", "", pl.Int64),
    Column("failure", "why it did not compile", "", pl.String),
)


@dataclass(frozen=True)
class RankedConfig:
    """One config with its facts and its place."""

    rank: int
    config: Config
    tier: str
    facts: KernelFacts


def rank_configs(
    kernel: LoadedKernel,
    signature: Signature,
    configs: Sequence[Config],
    target: CompileTarget,
    options: Mapping[str, OptionValue] | None = None,
    *,
    cache: bool = True,
) -> list[RankedConfig]:
    """The configs, best first. `options` hold where a config says nothing."""
    if not configs:
        raise UsageError("no config to rank", hint=NO_CONFIG_HINT)
    jobs = [
        CompileJob(signature.with_constants(kernel.constants_of(c)), target, {**(options or {}), **dict(c.options)})
        for c in configs
    ]
    facts = [extract(artefacts) for artefacts in compile_all(kernel, jobs, cache=cache)]
    ordered = sorted(range(len(configs)), key=lambda at: _key(facts[at]))
    ranked: list[RankedConfig] = []
    for at in ordered:
        same = bool(ranked) and _key(ranked[-1].facts) == _key(facts[at])
        rank = ranked[-1].rank if same else len(ranked) + 1
        ranked.append(RankedConfig(rank, configs[at], tier(facts[at]), facts[at]))
    return ranked


def tier(facts: KernelFacts) -> str:
    return next(name for name, holds in TIERS if holds(facts))


def reuse(facts: KernelFacts) -> float | None:
    """Of the product in the innermost loop with the least: each element that is loaded is multiplied this often."""
    sides = [dot.shape for dot in facts.dots if dot.in_loop] or [dot.shape for dot in facts.dots]
    return min((m * n / (m + n) for m, n, _ in sides if m + n), default=None)


def _key(facts: KernelFacts) -> tuple[float, ...]:
    """Tier first; then the more reuse, the fewer instructions per product, the more warps the better."""
    names = [name for name, _ in TIERS]
    occupancy = facts.occupancy.percent if facts.occupancy else 0.0
    # Beyond half of the slots more warps add little.
    return -names.index(tier(facts)), -(reuse(facts) or 0.0), facts.spill_bytes, -min(occupancy, 50.0), -facts.buffers


def _is_narrow_tile(facts: KernelFacts, at: int) -> bool:
    access = facts.accesses[at]
    plain = access.is_tile and not access.is_indirect and access.kind != "atomic"
    return plain and 0 < 2 * access.width_bits <= access.best_bits


def ranking_table(ranked: Sequence[RankedConfig]) -> Table:
    """The table `kernel_sweep`: one row per config, best first."""
    rows = [
        {
            "rank": entry.rank,
            "config": entry.facts.config,
            "tier": entry.tier,
            "reuse": reuse(entry.facts),
            "registers": entry.facts.registers,
            "spill_bytes": entry.facts.spill_bytes,
            "shared_bytes": entry.facts.shared_bytes,
            "occupancy_percent": entry.facts.occupancy.percent if entry.facts.occupancy else None,
            "limiter": entry.facts.occupancy.limiter if entry.facts.occupancy else None,
            "matrix_instruction": ", ".join(entry.facts.matrix_instructions) or "none",
            "narrowest_bits": narrowest_bits(entry.facts),
            "buffers": entry.facts.buffers,
            "instructions_in_loops": sum(line.in_loops for line in entry.facts.lines),
            "failure": entry.facts.failure or None,
        }
        for entry in ranked
    ]
    return Table.from_rows("kernel_sweep", "one row per config, best first", COLUMNS, rows, *UNKNOWN)


def ranking_tables(request: CompileRequest, notify: Notify = ignore, progress: Notify = ignore) -> list[Table]:
    """A ranking for each kernel and target: of the given configs, else of those of the kernel's autotuner."""
    if request.signature is not None:
        return _of_signature(request, request.signature)
    return _of_launches(request, notify, progress)


def _of_signature(request: CompileRequest, signature: str) -> list[Table]:
    kernel = load_kernel(request.source)
    configs: Sequence[Config] = request.parsed_configs()
    if not configs:
        kernel = kernel.with_configs()
        configs = kernel.configs or ()
    types = kernel.signature(signature)
    return [
        _table_of(kernel, types, configs, target, request.options, request.cache) for target in request.parsed_targets()
    ]


def _of_launches(request: CompileRequest, notify: Notify, progress: Notify) -> list[Table]:
    """The kernels that a script launches, as it does; those without configs are omitted."""
    configs = request.parsed_configs()
    chosen: dict[tuple[Path, str, str], tuple[LoadedKernel, ScriptLaunch]] = {}
    for launch in launches_of(request, notify, progress).launches:
        kernel = launch.kernel if configs or not launch.kernel.is_autotuned else launch.kernel.with_configs()
        types = ", ".join(argument.text() for argument in launch.signature.arguments if not argument.is_constant)
        if configs or kernel.configs:
            chosen.setdefault((kernel.file, kernel.name, types), (kernel, launch))
    if not chosen:
        raise UsageError("no config to rank", hint=NO_CONFIG_HINT)
    return [
        _table_of(
            kernel,
            launch.signature,
            configs or kernel.configs or (),
            target,
            {**dict(launch.options), **request.options},
            request.cache,
        )
        for kernel, launch in chosen.values()
        for target in request.parsed_targets()
    ]


def _table_of(
    kernel: LoadedKernel,
    types: Signature,
    configs: Sequence[Config],
    target: CompileTarget,
    options: Mapping[str, OptionValue],
    cache: bool,
) -> Table:
    """The table names its kernel, and options come before the constants, which may be many."""
    ranking = ranking_table(rank_configs(kernel, types, configs, target, options, cache=cache))
    of = (Column("kernel", "its name", "", pl.String), Column("target", "GPU that it was compiled for", "", pl.String))
    frame = ranking.frame.with_columns(
        pl.Series("config", [_options_first(text) for text in ranking.frame["config"]], dtype=pl.String),
        pl.lit(kernel.name).alias("kernel"),
        pl.lit(target.name).alias("target"),
    )
    columns = (*ranking.columns, *of)
    meaning = f"one row per config of {kernel.name} on {target.name}, best first"
    return replace(ranking, meaning=meaning, columns=columns, frame=frame.select([column.name for column in columns]))


def _options_first(config: str) -> str:
    """
    >>> _options_first("M=64, GROUP=8, num_warps=4, num_stages=3")
    'num_warps=4, num_stages=3, M=64, GROUP=8'
    """
    return ", ".join(sorted(config.split(", "), key=lambda part: not is_option_name(part.partition("=")[0])))
