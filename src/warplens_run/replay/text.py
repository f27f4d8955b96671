"""The end of a run as plain text: the largest units, then what all of them add up to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from warplens_run.formats.replay_result import DONE, STATUSES, ReplayResult, UnitResult
from warplens_run.formats.result_sums import NEAR, active_joules, in_range, ratio, replayed_ns, traced_ns

TOP: Final = 20
WIDTH: Final = 120
NAME_CHARS: Final = 34
OP_CHARS: Final = 40
FEWEST_CHARS: Final = 8
HEADERS: Final = ("unit", "op", "longest kernel", "count", "traced µs", "replayed µs", "ratio", "same", "J active")
LEFT: Final = 3
"""Columns that are words, to the left."""
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def summary(result: ReplayResult, width: int = WIDTH) -> str:
    """`width`: of the screen; names are cut shorter until the table fits."""
    shown = sorted(result.units, key=lambda unit: -unit.traced.total_ns)[:TOP]
    parts = ["\n".join(_table([HEADERS, *map(_row, shown)], width))] if shown else []
    hidden = len(result.units) - len(shown)
    if hidden > 0:
        parts[0] += f"\n… and {hidden} more"
    return "\n\n".join([*parts, "\n".join(summary_lines(result))]) + "\n"


def _row(unit: UnitResult) -> tuple[str, ...]:
    time, energy, compared = unit.time, unit.energy, ratio(unit)
    return (
        unit.id,
        _clip(unit.op, OP_CHARS),
        short(unit.kernel),
        str(unit.count),
        f"{unit.traced.median_ns / 1e3:.2f}",
        f"{time.median_ns / 1e3:.2f}" if time else unit.status,
        "–" if compared is None else f"{compared:.2f}",
        "–" if unit.same is None else "yes" if unit.same else "no",
        "–" if energy is None else f"{energy.active_j:.3g}" + ("?" if energy.doubtful else ""),
    )


def _table(rows: list[tuple[str, ...]], most: int) -> Iterable[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADERS))]
    names = (HEADERS.index("op"), HEADERS.index("longest kernel"))
    while sum(widths) + 2 * (len(widths) - 1) > most:
        wider = max(names, key=widths.__getitem__)
        if widths[wider] <= FEWEST_CHARS:
            break
        widths[wider] -= 1
    for row in rows:
        cells = [_clip(cell, width).ljust(width) if column < LEFT else cell.rjust(width)
                 for column, (cell, width) in enumerate(zip(row, widths, strict=True))]  # fmt: skip
        yield "  ".join(cells).rstrip()


def summary_lines(result: ReplayResult) -> Iterable[str]:
    """What the units add up to; the C++ program prints the same."""
    yield _counts(result)
    done = [unit for unit in result.units if unit.status == DONE and unit.time is not None]
    covered = traced_ns(done)
    if result.gpu_ns:
        share = f"{covered / result.gpu_ns:.1%} of the trace's GPU time replayed"
        yield f"{share}, on {result.device}, cache {result.cache}"
    if covered and result.device != "cpu":  # a host's times have nothing to do with the trace's
        yield from _sums(done, covered)
    yield from _energy(result)
    yield from _reasons(result)
    for note in result.notes:
        yield f"note: {note}"


def _counts(result: ReplayResult) -> str:
    counts = {status: sum(unit.status == status for unit in result.units) for status in STATUSES}
    parts = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    return _units(len(result.units)) + (f": {parts}" if parts else "")


def _sums(done: list[UnitResult], covered: int) -> Iterable[str]:
    judged = traced_ns(unit for unit in done if unit.same is not None)
    if judged:
        same = traced_ns(unit for unit in done if unit.same)
        yield f"same kernels and grids as the trace: {same / judged:.1%} by time"
    replayed = replayed_ns(done)
    yield f"Σ count × replayed {replayed / 1e6:.3f} ms, traced {covered / 1e6:.3f} ms ({replayed / covered - 1:+.1%})"
    near = traced_ns(unit for unit in done if in_range(unit))
    yield f"inside the trace's own p10–p90, or within {NEAR:.0%} of its median: {near / covered:.1%} by time"


def _energy(result: ReplayResult) -> Iterable[str]:
    measured = [unit for unit in result.units if unit.energy is not None]
    if not measured:
        return
    joules = active_joules(measured)
    doubtful = sum(unit.energy.doubtful for unit in measured if unit.energy)
    idle = f", idle {result.meter.idle_watts:.1f} W ({result.meter.name})" if result.meter else ""
    yield f"energy of {_units(len(measured))}: Σ count × active {joules:.3g} J{idle}; {doubtful} doubtful (?)"


def _reasons(result: ReplayResult) -> Iterable[str]:
    """Why work was not run, the reason that costs most time first."""
    by_reason: dict[str, tuple[int, int]] = {}
    for unit in result.units:
        if unit.status != DONE:
            count, ns = by_reason.get(unit.reason, (0, 0))
            by_reason[unit.reason] = (count + 1, ns + unit.traced.total_ns)
    reasons = [(ns, _units(count), reason) for reason, (count, ns) in by_reason.items()]
    reasons += [(ns, "work outside units", reason) for reason, ns in result.rest.items() if ns]
    reasons.sort(key=lambda line: -line[0])
    for ns, work, reason in reasons[:TOP]:
        yield f"not replayed: {work}, {ns / 1e6:.3f} ms: {reason}"
    if len(reasons) > TOP:
        other_ns = sum(ns for ns, _, _ in reasons[TOP:])
        yield f"not replayed: {other_ns / 1e6:.3f} ms for {len(reasons) - TOP} other reasons"


def _units(count: int) -> str:
    return f"{count} unit" if count == 1 else f"{count} units"


def short(kernel: str) -> str:
    """The part of a kernel's name that people say.

    >>> short("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float)")
    'vectorized_layer_norm_kernel'
    >>> short("Memcpy HtoD (Pinned -> Device)"), short("nvjet_tst_64x8_64x16_4x1_v_bz_TNT")
    ('Memcpy HtoD', 'nvjet_tst_64x8_64x16_4x1_v_bz_TNT')
    """
    plain = kernel.replace("(anonymous namespace)::", "").removeprefix("void ")
    head = plain.partition("<")[0].partition("(")[0].strip()
    return _clip(head.rpartition("::")[2] or plain, NAME_CHARS)


def _clip(text: str, most: int) -> str:
    text = CONTROL.sub("?", text)  # names come from files
    return text if len(text) <= most else text[: most - 1] + "…"
