"""Every backend and mode that `warplens profile` offers, on a GPU: the bundle opens and has the program's kernels.

Needs an NVIDIA GPU with PyTorch and Triton for it, for the JAX rows JAX, and for the last tests Nsight Compute with
counters permitted; elsewhere each test says so and is skipped. `-s` prints the table of docs/performance.md.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest

import warplens
from support import HANG_SECONDS, ROOT

PROGRAM = ROOT / "samples" / "proton" / "kernels.py"
ROUNDS = 10
KERNELS = ("attention_kernel", "matmul_kernel", "softmax_kernel")
REGIONS = {
    "attention_kernel": {"scores", "softmax", "values"},
    "matmul_kernel": {"product", "store"},
    "softmax_kernel": {"load", "reduce", "store"},
}


def has_gpu() -> bool:
    if shutil.which("nvidia-smi") is None or not all(map(importlib.util.find_spec, ("torch", "triton"))):
        return False
    import torch

    return bool(torch.cuda.is_available())


pytestmark = pytest.mark.skipif(not has_gpu(), reason="needs an NVIDIA GPU with PyTorch and Triton for it")


@dataclass
class Runs:
    """What was recorded, for the table that is printed at the end."""

    plain_s: float = 0.0
    rows: list[tuple[str, float, int, str]] = field(default_factory=list)


def run(folder: Path, *words: str) -> float:
    """Runs a program to its end; returns the seconds that it took."""
    began = time.monotonic()
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(warplens.__file__).parents[1]), *sys.path])}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, env=variables, timeout=HANG_SECONDS
    )
    assert done.returncode == 0, done.stderr
    return time.monotonic() - began


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    folder = tmp_path_factory.mktemp("plain")
    run(folder, str(PROGRAM), "1")  # Triton compiles
    runs = Runs(run(folder, str(PROGRAM), str(ROUNDS)))
    yield runs
    print(
        f"\nthe program alone: {runs.plain_s:.1f} s\n\n| `warplens profile …` | seconds | bundle | what it has |\n|---|---:|---:|---|"
    )
    for options, seconds, size, what in runs.rows:
        print(f"| `{options}` | {seconds:.1f} | {size / 1000:,.0f} kB | {what} |")


def recorded(folder: Path, runs: Runs, options: str, program: str = str(PROGRAM)) -> warplens.Opened:
    seconds = run(folder, "-m", "warplens", "profile", *options.split(), "-o", "run", program, str(ROUNDS))
    opened = warplens.open(folder / "run", cache=False)
    size = sum(path.stat().st_size for path in (folder / "run").rglob("*") if path.is_file())
    runs.rows.append((options, seconds, size, ""))
    return opened


def say(runs: Runs, what: str) -> None:
    runs.rows[-1] = (*runs.rows[-1][:3], what)


def launches(opened: warplens.Opened) -> dict[str, int]:
    kernels = opened.table("kernels").frame.group_by("kernel").agg(pl.col("count").sum())
    return {name: count for name, count in kernels.iter_rows() if name in KERNELS}


@pytest.mark.parametrize(
    "options",
    [
        "--backend torch",
        "--backend torch --stacks --steps all",
        "--backend torch --data tree",
        "--backend torch --data tree --stacks",
        "--backend proton",
        "--backend proton --stacks",
        "--backend proton --data tree",
        "--backend proton --data tree --stacks",
    ],
)
def test_kernels_are_recorded(options: str, runs: Runs, tmp_path: Path) -> None:
    opened = recorded(tmp_path, runs, options)
    counts = launches(opened)
    assert counts.keys() == set(KERNELS) and len(set(counts.values())) == 1 and 0 < counts[KERNELS[0]] <= ROUNDS
    if "--stacks" in options:
        files = opened.table("python_lines").frame["file"].drop_nulls()
        assert any(Path(file).name == PROGRAM.name for file in files)
    times = opened.table("kernels").frame.filter(pl.col("kernel").is_in(KERNELS))["total_us"].sum()
    say(runs, f"{counts[KERNELS[0]]} launches of each kernel, {times:.0f} µs of them")


@pytest.mark.parametrize("options", ["--mode pcsampling", "--mode pcsampling --stacks"])
def test_samples_have_lines_with_their_text(options: str, runs: Runs, tmp_path: Path) -> None:
    opened = recorded(tmp_path, runs, f"--backend proton {options}")
    stalls = opened.table("stalls").frame.filter(pl.col("kernel").is_in(KERNELS))
    assert stalls["line"].null_count() == 0 and stalls["samples"].sum() > 1000
    assert set(stalls["kernel"].to_list()) == set(KERNELS)
    text = PROGRAM.read_text().splitlines()
    own = stalls.filter(pl.col("file").str.ends_with("/" + PROGRAM.name))
    assert len(own) > 10
    assert own["source"].to_list() == [text[line - 1] for line in own["line"].to_list()]
    assert (stalls["stalled_samples"] <= stalls["samples"]).all() and stalls["top_stall"].drop_nulls().len()
    assert "of the waits are on" in opened.verdict()
    say(runs, f"{stalls['samples'].sum():,} samples on {len(stalls)} lines")


@pytest.mark.parametrize(
    ("mode", "data"),
    [
        ("instrumentation", "tree"),
        ("instrumentation", "trace"),
        ("instrumentation:sampling_strategy=selective:sampling_options=0", "trace"),
        ("mma", "tree"),
    ],
)
def test_regions_inside_kernels_are_recorded(mode: str, data: str, runs: Runs, tmp_path: Path) -> None:
    opened = recorded(tmp_path, runs, f"--backend proton --mode {mode} --data {data}")
    regions = opened.table("regions").frame
    by_kernel = {
        kernel: set(regions.filter(kernel=kernel)["region"].to_list())
        for kernel in regions["kernel"].unique().to_list()
    }
    assert by_kernel == REGIONS
    assert (regions["percent"] > 0).all() and (regions["percent"] <= 100.5).all()
    notes = opened.table("quality").frame["message"].str.contains("trace of regions").any()
    counted = f", {regions['count'].sum():,} passes" if data == "trace" else ""
    say(runs, f"{len(regions)} regions{counted}{', the first 64 MB' if notes else ''}")


def test_a_program_may_start_the_samples_itself(runs: Runs, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        f"import sys; sys.path.insert(0, {str(PROGRAM.parent)!r})\n"
        "import torch, warplens\n"
        "warplens.start('early', backend='proton', mode='pcsampling')\n"
        "import kernels\n"
        "tensors = kernels.inputs(1024)\n"
        "kernels.one_round(*tensors); torch.cuda.synchronize()\n"
        "warplens.finalize()\n"
        "warplens.start('late', backend='proton', mode='pcsampling')\n"
        "kernels.one_round(*tensors); torch.cuda.synchronize()\n"
        "warplens.finalize()\n"
    )
    run(tmp_path, str(own))
    early, late = (warplens.open(tmp_path / f"{name}.warplens", cache=False) for name in ("early", "late"))
    has_lines = [
        profile.table("stalls").frame.filter(pl.col("kernel").is_in(KERNELS))["line"].is_not_null().all()
        for profile in (early, late)
    ]
    messages = " ".join(late.table("quality").frame["message"])
    assert has_lines[0] and (has_lines[1] or "samples of attention_kernel" in messages)


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_jax_records_its_kernels(runs: Runs, tmp_path: Path) -> None:
    program = tmp_path / "product.py"
    program.write_text(
        "import jax\nx = jax.numpy.ones((1024, 1024))\nfor _ in range(3):\n    x = (x @ x).block_until_ready()\n"
    )
    opened = recorded(tmp_path, runs, "--backend jax", str(program))
    assert len(opened.table("kernels"))
    say(runs, f"{len(opened.table('kernels'))} kernels")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, runs: Runs) -> Path:
    """A report of Nsight Compute on one launch of each kernel."""
    ncu = shutil.which("ncu")
    if ncu is None:
        pytest.skip("Nsight Compute is not installed")
    folder = tmp_path_factory.mktemp("ncu")
    names = "regex:" + "|".join(KERNELS)
    command = [
        ncu,
        "--set",
        "full",
        "--import-source",
        "yes",
        "-k",
        names,
        "-c",
        "3",
        "-o",
        "x",
        sys.executable,
        str(PROGRAM),
        "1",
    ]
    variables = {**os.environ, "TRITON_DISABLE_LINE_INFO": "0"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=variables, timeout=HANG_SECONDS)
    if "ERR_NVGPUCTRPERM" in done.stdout + done.stderr:
        pytest.skip("counters are not permitted here")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "x.ncu-rep"


def test_a_report_of_nsight_compute_opens_with_counters_lines_and_instructions(report: Path) -> None:
    opened = warplens.open(report, cache=False)
    assert sorted(opened.table("counters").frame["kernel"].to_list()) == list(KERNELS)
    assert opened.table("counters").frame["dram_bytes"].null_count() == 0
    stalls = opened.table("stalls").frame
    assert stalls["line"].null_count() == 0 and any(Path(file).name == PROGRAM.name for file in stalls["file"])
    instructions = opened.table("counter_instructions").frame
    assert instructions.group_by("kernel").agg(pl.col("samples").sum()).sort("kernel").rows() == (
        stalls.group_by("kernel").agg(pl.col("samples").sum()).sort("kernel").rows()
    )
    assert len(opened.table("counter_rules"))


def test_nvidias_module_reads_the_same_as_ncu_prints(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module is in a folder of the installation that `ncu` is a script of."""
    modules = [*Path("/opt/nvidia/nsight-compute").glob("*/extras/python/ncu_report.py")]
    if not modules:
        pytest.skip("the module ncu_report is not there")
    printed = warplens.open(report, cache=False)
    monkeypatch.setenv("PATH", "/nothing")
    monkeypatch.syspath_prepend(str(modules[-1].parent))
    dumped = warplens.open(report, cache=False)
    for table, columns in (
        ("counters", ["kernel", "time_us", "dram_bytes", "registers", "grid", "block"]),
        ("counter_instructions", ["kernel", "address", "instruction", "line", "samples", "executed"]),
        ("counter_rules", ["kernel", "rule", "kind"]),
    ):
        frames = [opened.table(table).frame for opened in (printed, dumped)]
        if "executed" in columns:  # the page also has what fills the end of the code
            frames = [frame.filter(pl.col("executed") > 0) for frame in frames]
        one, other = (frame.select(columns).sort(columns, nulls_last=True) for frame in frames)
        assert one.to_dicts() == other.to_dicts(), table
