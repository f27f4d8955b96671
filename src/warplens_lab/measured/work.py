"""Bytes and FLOPs of a measured launch, exact or as its program says, and how near it comes to the card's limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from warplens.hardware import Gpu
from warplens.model.measured import MeasuredKernel
from warplens_lab.facts.records import KernelFacts
from warplens_lab.measured.match import whole_grid

if TYPE_CHECKING:
    from warplens_lab.tracing.records import KernelTrace, TracedLaunch

_ELEMENTS: Final = {
    # element of a matrix product, as the compiler names it: the type that the card's rates are listed by
    "f16": "fp16", "bf16": "bf16", "f64": "fp64", "i8": "int8", "f32": "fp32",
}  # fmt: skip
_WIDTHS: Final = {"8": "fp8", "16": "fp16", "32": "fp32", "64": "fp64"}
_TENSOR_FLOAT: Final = ("tf32", "tf32x3", "bf16x3", "bf16x6")
LATENCY_US: Final = 2.0
"""Work below this is over before a kernel has started up: its share of the roofline says nothing."""


@dataclass(frozen=True)
class LaunchWork:
    """What one launch does, and who says so. `flop` is by unit and type of the card's rates."""

    flop: tuple[tuple[tuple[str, str], float], ...]
    bytes: float
    source: str

    @property
    def total_flop(self) -> float:
        return sum(value for _, value in self.flop)


@dataclass(frozen=True)
class Reached:
    """A launch compared with the least time that the card needs for its work."""

    card: str
    bound: str
    roofline_us: float
    percent: float
    tflops: float
    tbps: float
    ceiling: str
    """measured or data sheet: where the rate of what bounds it comes from."""
    flag: str = ""


def reported_work(facts: KernelFacts, kernels: Sequence[MeasuredKernel]) -> LaunchWork | None:
    """The program's own metrics (Proton's flops and bytes), as a mean over the launches."""
    count = sum(kernel.count for kernel in kernels)
    if not count or any(not kernel.flop and not kernel.bytes for kernel in kernels):
        return None
    sums: dict[tuple[str, str], float] = {}
    for width, value in (metric for kernel in kernels for metric in kernel.flop):
        unit = _unit(facts, _WIDTHS.get(width, ""))
        sums[unit] = sums.get(unit, 0.0) + value
    flop = tuple((unit, value / count) for unit, value in sorted(sums.items()))
    moved = sum(kernel.bytes for kernel in kernels) / count if all(kernel.bytes for kernel in kernels) else 0.0
    return LaunchWork(flop, moved, "the program's own metrics, mean of its launches")


def traced_work(
    facts: KernelFacts, trace: KernelTrace, grids: Iterable[tuple[int, ...] | None]
) -> tuple[LaunchWork | None, tuple[str, ...]]:
    """Exact work of the traced launches that are those measured, and what keeps others from being them.

    `grids` are those that were measured; None where a profile does not say.
    """
    own = [launch for launch in trace.launches if launch.kernel == facts.kernel]
    if not own:
        names = ", ".join(dict.fromkeys(launch.kernel for launch in trace.launches))
        return None, (f"the trace has no launch of {facts.kernel}; it has: {names}",)
    own = [launch for launch in own if _same_constants(facts, launch)]
    if not own:
        return None, (f"{facts.kernel} was traced with other constants: its bytes and FLOPs are of another launch",)
    whole = [launch for launch in own if launch.traced_programs == launch.programs]
    if not whole:
        return None, (f"only a sample of the programs of {facts.kernel} was traced: its work is not known",)
    measured_grids = {grid for grid in grids if grid is not None}
    same = [launch for launch in whole if whole_grid(launch.grid) in measured_grids] if measured_grids else whole
    if not same:
        ran = " or ".join(_grid(grid) for grid in sorted(measured_grids))
        traced = " or ".join(dict.fromkeys(_grid(launch.grid) for launch in whole))
        return None, (f"traced with a grid of {traced}, measured with {ran}: the work is of another launch",)
    unsaid = (
        () if measured_grids else (f"the profile does not say its grid: the work is that of {_grid(same[0].grid)}",)
    )
    return _mean(facts, same), unsaid


def _mean(facts: KernelFacts, launches: Sequence[TracedLaunch]) -> LaunchWork:
    count = len(launches)
    dots = sum(launch.dot_flop for launch in launches) / count
    others = sum(launch.flop - launch.dot_flop for launch in launches) / count
    flop = [(_unit(facts, ""), dots)] * bool(dots) + [(("vector", "fp32"), others)] * bool(others)
    if all(launch.reuse for launch in launches):
        moved = sum(tensor.read_bytes + tensor.written_bytes for launch in launches for tensor in launch.reuse) / count
        source = "traced: each byte read once, each written once"
    else:
        moved = sum(launch.true_bytes for launch in launches) / count
        source = "traced without checks: every access as if no cache held it"
    return LaunchWork(tuple(flop), moved, source)


def _same_constants(facts: KernelFacts, launch: TracedLaunch) -> bool:
    traced = dict(launch.constants)
    return all(traced.get(name, str(value)) == str(value) for name, value in facts.constants)


def _unit(facts: KernelFacts, dtype: str) -> tuple[str, str]:
    """Which of the card's rates bounds FLOPs of this type; "" for what the kernel's matrix products are in."""
    elements = {_dtype(dot.element): dot.precision for dot in facts.dots}
    if not elements:
        return "vector", dtype if dtype in ("fp32", "fp64") else "fp32"
    if not dtype or (dtype == "fp16" and "bf16" in elements) or (dtype == "fp8" and "int8" in elements):
        dtype = next(iter(elements))
    if dtype == "fp32":
        return ("matrix", "tf32") if elements.get("fp32") in _TENSOR_FLOAT else ("vector", "fp32")
    return "matrix", dtype


def _dtype(element: str) -> str:
    return "fp8" if element.startswith("f8") else "fp4" if element.startswith("f4") else _ELEMENTS.get(element, "fp32")


def reached(work: LaunchWork, gpu: Gpu, mean_us: float) -> Reached | None:
    """The roofline of a launch: what needs most time, of its units and its bytes, all of them at once."""
    if mean_us <= 0:
        return None
    bandwidth = gpu.bandwidth_tbps()
    needs: list[tuple[float, str, bool]] = []
    for (unit, dtype), flop in work.flop:
        peak = gpu.peak_tflops(unit, dtype) or gpu.peak_tflops("vector", "fp32")
        if peak is not None and peak.value:
            needs.append((flop / peak.value / 1e6, f"{unit} {dtype}", peak.measured))
    if work.bytes and bandwidth.value:
        needs.append((work.bytes / bandwidth.value / 1e6, "memory", bandwidth.measured))
    if not needs:
        return None
    least, bound, measured = max(needs)
    return Reached(
        card=gpu.name,
        bound=bound,
        roofline_us=least,
        percent=100 * least / mean_us,
        tflops=work.total_flop / mean_us / 1e6,
        tbps=work.bytes / mean_us / 1e6,
        ceiling="measured" if measured else "data sheet",
        flag=_flag(work, gpu, bound, least, mean_us),
    )


def _flag(work: LaunchWork, gpu: Gpu, bound: str, least_us: float, mean_us: float) -> str:
    """Why the share is not to be taken at face value."""
    if mean_us < least_us:
        cache = max(gpu.l2_mb, gpu.infinity_cache_mb)
        if bound == "memory" and work.bytes < cache * 1e6:
            return f"over 100 %: the data fits in {cache:.0f} MB of cache"
        return "over 100 %: the count, the ceiling or the card is another one than that of the run"
    return "too small: the work is shorter than a kernel's start-up" if least_us < LATENCY_US else ""


def _grid(grid: Sequence[int]) -> str:
    return "×".join(map(str, grid))
