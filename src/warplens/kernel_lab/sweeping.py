"""`kernel check --sweep`: configs that were given, or those of the autotuner, ranked for each kernel and target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from warplens.errors import UsageError
from warplens.kernel_lab.compiling.launching import Launch, launches
from warplens.kernel_lab.compiling.loading import OPTION_NAMES, Config, Kernel, load_kernel, parse_config
from warplens.kernel_lab.compiling.signature import Signature
from warplens.kernel_lab.compiling.targets import Target, parse_targets
from warplens.kernel_lab.sweep import sweep, sweep_table
from warplens.model.table import Column, Table


def sweep_signature(
    kernel: str,
    signature: str,
    *,
    targets: str = "sm90",
    options: Mapping[str, int] | None = None,
    configs: Sequence[str] = (),
    cache: bool = True,
) -> list[Table]:
    """The given configs ranked for each target; without any, those of the kernel's autotuner."""
    found = load_kernel(kernel)
    chosen: Sequence[Config] = [parse_config(text) for text in configs]
    if not chosen:
        found = found.with_configs()
        chosen = found.configs or ()
    types: Signature = found.signature(signature)
    return [_swept(found, types, chosen, target, options or {}, cache) for target in parse_targets(targets)]


def sweep_launches(
    script: str,
    arguments: Sequence[str] = (),
    *,
    targets: str = "sm90",
    options: Mapping[str, int] | None = None,
    configs: Sequence[str] = (),
    cache: bool = True,
) -> list[Table]:
    """The same for the kernels that a script launches, as it does; those without configs are left out."""
    given = [parse_config(text) for text in configs]
    wanted: dict[tuple[Path, str, str], tuple[Kernel, Launch]] = {}
    for each in launches(script, arguments).launches:
        kernel = each.kernel if given or not each.kernel.is_autotuned else each.kernel.with_configs()
        types = ", ".join(argument.text() for argument in each.signature.arguments if not argument.is_constant)
        if given or kernel.configs:
            wanted.setdefault((kernel.file, kernel.name, types), (kernel, each))
    if not wanted:
        raise UsageError("there is no config to rank", hint="give --config, or a kernel with triton.autotune")
    return [
        _swept(
            kernel,
            each.signature,
            given or kernel.configs or (),
            target,
            {**dict(each.options), **(options or {})},
            cache,
        )
        for kernel, each in wanted.values()
        for target in parse_targets(targets)
    ]


def _swept(
    kernel: Kernel,
    types: Signature,
    configs: Sequence[Config],
    target: Target,
    options: Mapping[str, int],
    cache: bool,
) -> Table:
    """The table says what it is of, and options stand before the constants, which may be many."""
    found = sweep_table(sweep(kernel, types, configs, target, options, cache=cache))
    of = (Column("kernel", "its name", "", pl.String), Column("target", "GPU that it was compiled for", "", pl.String))
    frame = found.frame.with_columns(
        pl.Series("config", [_options_first(text) for text in found.frame["config"]], dtype=pl.String),
        pl.lit(kernel.name).alias("kernel"),
        pl.lit(target.name).alias("target"),
    )
    columns = (*found.columns, *of)
    meaning = f"one row per config of {kernel.name} on {target.name}, best first"
    return replace(found, meaning=meaning, columns=columns, frame=frame.select([column.name for column in columns]))


def _options_first(config: str) -> str:
    """
    >>> _options_first("M=64, GROUP=8, num_warps=4, num_stages=3")
    'num_warps=4, num_stages=3, M=64, GROUP=8'
    """
    return ", ".join(sorted(config.split(", "), key=lambda part: part.partition("=")[0] not in OPTION_NAMES))
