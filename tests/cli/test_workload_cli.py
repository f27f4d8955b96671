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
from warplens_run.workloads import run
from warplens_run.workloads.inputs import make_feed

folder, make_iteration = sys.argv[1], run.make_iteration

def noting(plan, built, worker, phases):
    with torch.no_grad():
        logits = built.module(make_feed(plan, built, worker).data).logits
    torch.save(logits, f"{folder}/logits.{worker.rank}.pt")
    iterate = make_iteration(plan, built, worker, phases)

    def saving():
        made = iterate()
        torch.save(made, f"{folder}/made.{worker.rank}.pt")
        return made

    return saving

run.make_iteration = noting
sys.argv = ["warplens", *sys.argv[2:]]
runpy.run_module("warplens", run_name="__main__", alter_sys=True)
"""
"""`python -m warplens …` on one rank, which also keeps the model's logits for the workload's prompt, and what its last
iteration made: tokens or a loss."""


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
        (("gpt2", "--tp", "2"), 2, "runs on one device", "bloom-560m and vicuna-7b support tp"),
        (("gpt2", *TINY, "--cuda-graph"), 2, "cuda_graph needs a GPU", "omit it on a CPU: --cuda-graph"),
        (("gpt2", *TINY, "--prompt-tokens", "65"), 2, "has 64 positions", "use fewer tokens: --prompt-tokens"),
        (("vicuna-7b", *TINY, "--tp", "2"), 2, "without torchrun", "--nproc-per-node 2 -m warplens workload"),
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


def run_on_ranks(folder: Path, ranks: int, *words: str) -> dict[str, Any]:
    """Runs a workload on this many ranks, which leave their files in the folder; the row that the first prints."""
    script = folder / "rank.py"
    script.write_text(RANK_SCRIPT)
    command = [str(script), str(folder), "workload", *words, "--json", "--tp", str(ranks)]
    environment = {**os.environ, "PYTHONPATH": str(Path(warplens.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    if ranks == 1:
        done = [warm_python.run(command, folder, environment, warm_python.TRANSFORMERS)]
    else:
        done = warm_python.run_ranks(command, folder, environment, warm_python.TRANSFORMERS, ranks)
    assert [rank.returncode for rank in done] == [0] * ranks, "".join(rank.stderr for rank in done)
    assert [rank.stdout for rank in done[1:]] == [""] * (ranks - 1)
    (row,) = json.loads(done[0].stdout)
    return dict(row)


def test_two_ranks_say_what_one_says(torch: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole way: gloo, a model cut in two, a log per rank, one row."""
    log = tmp_path / "shapes.jsonl"
    row = run_on_ranks(tmp_path, 2, "vicuna-7b", *TINY, "--shape-log", str(log))
    assert (row["tp"], row["device"], row["parameters"]) == (2, "2 × cpu", 28832)

    from warplens_run.workloads.build import build
    from warplens_run.workloads.inputs import make_feed
    from warplens_run.workloads.options import WorkloadOptions, resolve
    from warplens_run.workloads.worker import Worker

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


@pytest.mark.parametrize(("mode", "ranks"), [pytest.param("infer", 4, marks=pytest.mark.nightly), ("train", 2)])
def test_a_bloom_cut_between_ranks_computes_what_a_whole_one_does(
    torch: Any, tmp_path: Path, mode: str, ranks: int
) -> None:
    """Heads and their biases of positions, a matrix that is used twice, and biases that are not zero."""
    import transformers

    torch.manual_seed(7)
    config = transformers.BloomConfig(vocab_size=96, hidden_size=48, n_layer=2, n_head=12)
    model = transformers.BloomForCausalLM(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(tmp_path / "model")
    lengths = ["--batch", "3", "--prompt-tokens", "7", *(["--max-new-tokens", "5"] if mode == "infer" else [])]
    words = ["bloom-560m", "--mode", mode, "--weights", str(tmp_path / "model"), "--device", "cpu", *lengths]
    (tmp_path / "whole").mkdir()
    whole = run_on_ranks(tmp_path / "whole", 1, *words)
    row = run_on_ranks(tmp_path, ranks, *words)
    assert (row["tp"], row["parameters"]) == (ranks, whole["parameters"])
    for name in ("logits", "made"):
        expected = torch.load(tmp_path / "whole" / f"{name}.0.pt")
        assert expected.abs().max() > 1
        for rank in range(ranks):
            made = torch.load(tmp_path / f"{name}.{rank}.pt")
            torch.testing.assert_close(made, expected, rtol=1e-4, atol=1e-5)


def test_heads_that_ranks_cannot_share_are_one_sentence(
    torch: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, number in {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 3, "LOCAL_WORLD_SIZE": 3}.items():
        monkeypatch.setenv(name, str(number))
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    assert main(["workload", "bloom-560m", "--tiny", "--device", "cpu", "--tp", "3"]) == 2
    error, hint = capsys.readouterr().err.strip().split("\n\n")
    assert error == "error: the 4 heads of bloom-560m cannot be shared evenly by 3 ranks"
    assert hint == "hint: use a tp of 2 or 4: --tp"


CHILD = """
import sys, warnings
import torch

started = []

def capability(*_):
    if not started:  # as CUDA starts
        warnings.warn("Found GPU0 NVIDIA GeForce GTX 1080 Ti which is of cuda capability 6.1.\\n" * 20)
    started.append(True)
    return ({capability})

torch.version.cuda = "13.0"
torch.cuda.is_available = lambda: True
torch.cuda.device_count = lambda: 1
torch.cuda.get_device_capability = capability
torch.cuda.get_arch_list = lambda: {built_for}
torch.cuda.get_device_name = lambda *_: "NVIDIA GeForce GTX 1080 Ti"
from warplens.cli import main
sys.exit(main({words}))
"""
"""The command in a process whose torch sees a GPU that is not there."""


def run_with_gpu(folder: Path, capability: str, built_for: list[str], *words: str) -> tuple[str, str]:
    """The error and the hint of a command that ends in one, with a torch of this build on a GPU of this capability."""
    script = folder / "with_gpu.py"
    script.write_text(CHILD.format(capability=capability, built_for=built_for, words=list(words)))
    environment = {**os.environ, "PYTHONPATH": str(Path(warplens.__file__).parents[1])}
    done = warm_python.run([str(script)], folder, environment, warm_python.TRANSFORMERS)
    assert (done.returncode, done.stdout) == (1, "")
    error, hint = done.stderr.strip().split("\n\n")
    return error, hint


@pytest.mark.parametrize("words", [("workload", "bert"), ("workload", "gpt2", "--tiny", "--device", "cuda")])
def test_a_workload_on_a_gpu_that_is_too_old_ends_at_its_start_without_a_traceback(
    torch: Any, tmp_path: Path, words: tuple[str, ...]
) -> None:
    error, hint = run_with_gpu(tmp_path, "6, 1", ["sm_75", "sm_90"], *words)
    assert error.endswith("has no kernels for NVIDIA GeForce GTX 1080 Ti (sm_61), only for sm_75 sm_90")
    assert hint.startswith("hint: ")
    assert "build PyTorch from source with TORCH_CUDA_ARCH_LIST=6.1" in hint


def test_options_that_need_a_newer_gpu_are_refused_by_name(torch: Any, tmp_path: Path) -> None:
    error, hint = run_with_gpu(tmp_path, "6, 1", ["sm_60"], "workload", "gpt2", "--compile")
    gpu = "NVIDIA GeForce GTX 1080 Ti (sm_61)"
    assert error == f"error: compile needs a GPU of compute capability 7.0 or later for Triton, not {gpu}"
    assert hint == "hint: omit it: --compile"
