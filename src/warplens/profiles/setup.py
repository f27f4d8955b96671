"""What two runs do not have in common before their times are compared: GPUs, versions, element types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from warplens.advice.comparison import SetupDifference
from warplens.hardware import Gpu
from warplens.model.table import Table
from warplens.model.trace import Trace
from warplens.profiles.describing import device_names
from warplens.profiles.trace import Profile
from warplens_run.base import bounded
from warplens_run.base.units import listed

RECORDED: Final = ("torch", "triton", "jax", "transformers", "driver")
"""Facts of a capture bundle."""
RELEASES: Final = {
    # fact of the trace: what it is called, and how its number is made of major and minor
    "cuda_runtime_version": ("CUDA", 1000, 10),
    "cuda_driver_version": ("CUDA of the driver", 1000, 10),
    "hip_runtime_version": ("HIP", 10_000_000, 100_000),
    "hip_driver_version": ("HIP of the driver", 10_000_000, 100_000),
}
MAIN_SHARE: Final = 0.1
"""An element type counts from this share of the FLOPs on: every training step has a little of fp32."""


def setup_differences(a: Profile, b: Profile) -> list[SetupDifference]:
    """What both traces record and differs; what only one of them records is not known to differ."""
    pairs = [
        ("GPU", _gpus(a.trace), _gpus(b.trace)),
        *((name, *versions) for name, versions in _versions(a.trace.meta.facts, b.trace.meta.facts).items()),
        ("element type of the work", _element_types(a.table("roofline")), _element_types(b.table("roofline"))),
    ]
    return [SetupDifference(*texts) for texts in pairs if texts[1] and texts[2] and texts[1] != texts[2]]


def hardware_difference(a: Gpu | None, b: Gpu | None) -> list[SetupDifference]:
    """For profiles without a trace."""
    return [SetupDifference("GPU", a.name, b.name)] if a and b and a.name != b.name else []


def _gpus(trace: Trace) -> str:
    return ", ".join(device_names(trace))


def _versions(a: Mapping[str, str], b: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    versions = {name: (a.get(name, ""), b.get(name, "")) for name in RECORDED}
    for fact, (name, major, minor) in RELEASES.items():
        versions[name] = (_release(a.get(fact, ""), major, minor), _release(b.get(fact, ""), major, minor))
    return versions


def _release(number: str, major: int, minor: int) -> str:
    """
    >>> _release("12080", 1000, 10), _release("60342134", 10_000_000, 100_000), _release("13.0", 1000, 10)
    ('12.8', '6.3', '13.0')
    """
    if (version := bounded.whole(number)) < major:
        return number
    return f"{version // major}.{version % major // minor}"


def _element_types(roofline: Table) -> str:
    """The element types with most of the FLOPs, in the order of the alphabet."""
    flop = (pl.col("flop") * pl.col("count")).sum().alias("flop")
    sums = roofline.frame.filter(pl.col("dtype") != "").group_by("dtype").agg(flop)
    whole = float(sums["flop"].sum())
    main = sums.filter(pl.col("flop") >= MAIN_SHARE * whole)["dtype"].sort().to_list() if whole else []
    return listed(main)
