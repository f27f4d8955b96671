"""The text at the end of a run adds up, and says what was not replayed and why."""

from __future__ import annotations

from dataclasses import replace

from warplens_run.formats.replay_result import Energy, MeterFacts, ReplayResult, Time, Traced, UnitResult
from warplens_run.replay.text import short, summary


def a_time(median_ns: float) -> Time:
    return Time(median_ns, median_ns, median_ns, median_ns, median_ns, 50, 0.01)


def done(identity: str, count: int, traced_ns: float, replayed_ns: float, same: bool | None = True) -> UnitResult:
    traced = Traced(int(count * traced_ns), traced_ns, 0.95 * traced_ns, 1.02 * traced_ns)
    return UnitResult(
        identity, "aten::mm", count, traced, "done", kernel="void gemm<128>(int)", same=same, time=a_time(replayed_ns)
    )


def energy(active_j: float, doubtful: bool = False) -> Energy:
    return Energy(active_j, 2 * active_j, 500, 120, 2, 1000, 1000, 0.9, 5, 0.01, doubtful=doubtful)


RESULT = ReplayResult(
    plan="p",
    trace="t.json",
    gpu_ns=1_000_000,
    wall_ns=2_000_000,
    device="NVIDIA H200",
    runner="python",
    cache="hot",
    units=(
        replace(done("a", 10, 60_000, 63_000), energy=energy(0.002)),
        replace(done("b", 10, 20_000, 31_000, same=False), energy=energy(0.001, doubtful=True)),
        replace(done("c", 10, 10_000, 10_000), status="failed", reason="its process was ended by SIGSEGV", time=None, same=None),
        replace(done("d", 1, 50_000, 1), status="refused", reason="needs 12.0 GiB, 8.1 GiB are free", time=None, same=None),
    ),
    meter=MeterFacts("NVML total energy", 0.1, 120.5),
    notes=("the trace is of another GPU",),
)  # fmt: skip


def test_the_lines_add_up() -> None:
    text = summary(RESULT)
    for line in (
        "4 units: 2 done, 1 failed, 1 refused",
        "80.0% of the trace's GPU time replayed, on NVIDIA H200, cache hot",
        "same kernels and grids as the trace: 75.0% by time",
        "Σ count × replayed 0.940 ms, traced 0.800 ms (+17.5%)",
        "inside the trace's own p10–p90, or within 10% of its median: 75.0% by time",
        "energy of 2 units: Σ count × active 0.03 J, idle 120.5 W (NVML total energy); 1 doubtful (?)",
        "not replayed: 1 unit, 0.100 ms: its process was ended by SIGSEGV",
        "not replayed: 1 unit, 0.050 ms: needs 12.0 GiB, 8.1 GiB are free",
        "note: the trace is of another GPU",
    ):
        assert line in text.splitlines()


def test_the_table_has_a_row_per_unit_largest_first() -> None:
    header, *rows = summary(RESULT).split("\n\n")[0].splitlines()
    assert " ".join(header.split()) == "unit op longest kernel count traced µs replayed µs ratio same J active"
    assert rows[0].split() == ["a", "aten::mm", "gemm", "10", "60.00", "63.00", "1.05", "yes", "0.002"]
    assert rows[1].split() == ["b", "aten::mm", "gemm", "10", "20.00", "31.00", "1.55", "no", "0.001?"]
    assert rows[2].split()[-4:] == ["failed", "–", "–", "–"]
    assert len({len(row) for row in (header, rows[0])}) == 1


def test_many_units_are_cut_and_counted() -> None:
    many = replace(RESULT, units=tuple(done(f"u{place}", 1, 1000, 1000) for place in range(25)))
    assert "… and 5 more" in summary(many)


def test_a_narrow_screen_cuts_names_and_not_numbers() -> None:
    long = replace(done("u1", 1, 1000, 1000), op="aten::" + "x" * 60, kernel="k" * 60)
    header, row = summary(replace(RESULT, units=(long,)), width=90).splitlines()[:2]
    assert max(len(header), len(row)) <= 90
    assert "…" in row
    assert row.split()[3:] == ["1", "1.00", "1.00", "1.00", "yes", "–"]


def test_names_from_files_cannot_steer_a_terminal() -> None:
    hostile = replace(done("u1", 1, 1000, 1000), kernel="\x1b[2Jgemm", op="aten::\x9bmm")
    assert not {"\x1b", "\x9b"} & set(summary(replace(RESULT, units=(hostile,))))


def test_a_cpu_run_claims_nothing_of_a_gpu() -> None:
    units = [replace(unit, time=unit.time and replace(unit.time, timer="host")) for unit in RESULT.units]
    text = summary(replace(RESULT, device="cpu", units=tuple(units)))
    assert "1.05" not in text
    assert "80.0% of the trace's GPU time replayed, on cpu" in text
    assert "Σ count × replayed" not in text
    assert "p10–p90" not in text


def test_a_run_of_nothing_has_a_text() -> None:
    assert summary(replace(RESULT, units=(), gpu_ns=0, notes=())) == "0 units\n"


def test_short_names_of_kernels() -> None:
    assert short("void cutlass::Kernel2<cutlass_80_wmma>(Params)") == "Kernel2"
    assert short("triton_poi_fused_" + "x" * 60).endswith("…")
    assert short("<unnamed>") == "<unnamed>"
    assert short("") == ""
