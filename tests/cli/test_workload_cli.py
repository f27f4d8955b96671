"""`warplens workload` as a user runs it: the row, the log, the messages, and two ranks that agree with one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import warm_python
import warplens
from warplens.cli import main

TINY = ("--tiny", "--device", "cpu", "--iterations", "2")
RANK_SCRIPT = """
import runpy, sys
import torch
from warplens.capture.workloads import run
from warplens.capture.workloads.inputs import make_feed

folder, make_iteration = sys.argv[1], run.make_iteration

def noting(plan, built, worker, phases):
    with torch.no_grad():
        logits = built.module(make_feed(plan, built, worker).data).logits
    torch.save(logits, f"{folder}/logits.{worker.rank}.pt")
    return make_iteration(plan, built, worker, phases)

run.make_iteration = noting
sys.argv = ["warplens", *sys.argv[2:]]
runpy.run_module("warplens", run_name="__main__", alter_sys=True)
"""
"""`python -m warplens …` on one rank, which also keeps what the model says to the workload's prompt."""


@pytest.fixture(scope="module")
def torch() -> Any:
    pytest.importorskip("transformers", reason="needs transformers")
    return pytest.importorskip("torch", reason="needs torch")


def test_the_row_says_what_ran_and_how_fast(torch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "bert", *TINY]) == 0
    printed = capsys.readouterr()
    heading, row = printed.out.splitlines()
    assert heading.split() == [
        "model",
        "parameters",
        "device",
        "dtype",
        "mode",
        "batch",
        "iterations",
        "ms/iteration",
        "tokens/s",
    ]
    assert row.split()[:8] == ["bert", "(tiny)", "24,608", "cpu", "float32", "infer", "2", "2"]
    assert len(heading) == len(row)
    assert printed.err.startswith("bert from transformers ")


def test_json_is_one_row_with_every_choice_that_was_made(torch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "resnet50", *TINY, "--mode", "infer", "--batch", "3", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["model"], row["tiny"], row["mode"], row["batch"]) == ("resnet50", True, "infer", 3)
    assert row["images_per_s"] == pytest.approx(3 / (row["mean_ms"] / 1e3))
    assert row["tokens_per_s"] is None


def test_the_shape_log_has_every_timed_iteration_and_is_not_overwritten(
    torch: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "shapes.jsonl"
    command = ["workload", "gpt2", *TINY, "--shape-log", str(log)]
    assert main(command) == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {line["iteration"] for line in lines} == {0, 1}
    assert {line["phase"] for line in lines} == {"forward"}
    fused = next(line for line in lines if line["module"] == "transformer.h.0.attn.c_attn")
    # GPT-2 keeps this weight as [in, out].
    assert (fused["input"], fused["weight"], fused["m"], fused["n"], fused["k"]) == ([2, 8, 32], [32, 96], 16, 96, 32)
    attention = next(line for line in lines if line["kind"] == "attention")
    sizes = {"heads": 4, "head_dim": 8, "query_tokens": 8, "kv_tokens": 8}
    assert {name: attention[name] for name in sizes} == sizes
    before = log.read_bytes()
    assert main(command) == 2
    assert "already exists" in capsys.readouterr().err
    assert log.read_bytes() == before
    assert main([*command, "--iterations", "1", "--force"]) == 0
    assert len(log.read_bytes()) < len(before)


@pytest.mark.parametrize(
    ("words", "code", "message", "hint"),
    [
        (("gpt2", "--new-tokens", "3"), 2, "generates no tokens", "the mode infer"),
        (("gpt2", "--tp", "2"), 2, "runs on one device", "vicuna-7b"),
        (("gpt2", *TINY, "--cuda-graph"), 2, "cuda_graph needs a GPU", "omit it on a CPU: --cuda-graph"),
        (("gpt2", *TINY, "--prompt-tokens", "65"), 2, "has 64 positions", "use fewer tokens: --prompt-tokens"),
        (("vicuna-7b", *TINY, "--tp", "2"), 2, "without torchrun", "torchrun --nproc-per-node 2 -m warplens workload"),
        (("gpt2", "--device", "cpu", "--weights", "./nowhere"), 1, "is not a folder", "config.json"),
        (("gpt2", *TINY, "--shape-log", "/nowhere/x.jsonl"), 2, "folder does not exist", ""),
    ],
)
def test_a_run_that_cannot_be_is_one_line_and_a_hint(
    torch: Any, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, message: str, hint: str
) -> None:
    assert main(["workload", *words]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert hint in printed.err
    assert "Traceback" not in printed.err


def test_a_full_model_without_a_gpu_says_what_to_do(torch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("a GPU is visible")
    assert main(["workload", "vicuna-7b"]) == 1
    assert main(["workload", "bert", "--tiny"]) == 0
    printed = capsys.readouterr()
    assert "hint: " in printed.err
    assert "the tiny model runs on the CPU" in printed.err


def test_without_torch_the_hint_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["workload", "gpt2", "--tiny"]) == 1
    printed = capsys.readouterr().err
    assert "a workload needs torch" in printed
    assert "pip install torch" in printed


def test_two_ranks_say_what_one_says(torch: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole way: gloo, a model cut in two, a log per rank, one row."""
    script, log = tmp_path / "rank.py", tmp_path / "shapes.jsonl"
    script.write_text(RANK_SCRIPT)
    words = ["workload", "vicuna-7b", *TINY, "--tp", "2", "--shape-log", str(log), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(Path(warplens.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    ranks = warm_python.run_ranks(
        [str(script), str(tmp_path), *words], tmp_path, environment, warm_python.TRANSFORMERS, 2
    )
    assert [done.returncode for done in ranks] == [0, 0], ranks[0].stderr + ranks[1].stderr
    assert ranks[1].stdout == ""
    (row,) = json.loads(ranks[0].stdout)
    assert (row["tp"], row["device"], row["parameters"]) == (2, "2 × cpu", 28832)

    from warplens.capture.workloads.build import build
    from warplens.capture.workloads.inputs import make_feed
    from warplens.capture.workloads.options import WorkloadOptions, resolve
    from warplens.capture.workloads.worker import Worker

    plan, here = resolve(WorkloadOptions("vicuna-7b", tiny=True), default_dtype="float32"), Worker(torch.device("cpu"))
    alone = build(plan, here)
    with torch.no_grad():
        expected = alone.module(make_feed(plan, alone, here).data).logits
    for rank in range(2):
        torch.testing.assert_close(torch.load(tmp_path / f"logits.{rank}.pt"), expected, rtol=1e-5, atol=1e-6)
        lines = [json.loads(line) for line in Path(f"{log}.rank{rank}").read_text().splitlines()]
        shares = {line["module"].rpartition(".")[2]: (line["n"], line["k"]) for line in lines if "n" in line}
        assert (shares["q_proj"], shares["o_proj"], shares["down_proj"]) == ((16, 32), (32, 16), (32, 32))
        assert {line["heads"] for line in lines if line["kind"] == "attention"} == {2}
