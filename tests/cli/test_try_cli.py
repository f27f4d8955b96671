"""`warplens try`: programs in processes of their own, which take turns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import warm_python
from support import ROOT
from warplens.cli import main
from warplens_run.base.errors import UsageError
from warplens_run.trying import processes

PROGRAM = """
import atexit, os, sys, torch, warplens
words = dict(word.split("=") for word in sys.argv[1:])
model = torch.nn.Sequential(torch.nn.Linear(4, 4))
optimizer = torch.optim.Adam(model.parameters(), foreach=False)
group = optimizer.param_groups[0]
def state():
    ones = torch.ones(1, 1)
    return (group["fused"], group["foreach"], str(torch.mm(ones, ones).dtype)[6:], os.environ.get("SIDE", "plain"))
atexit.register(lambda: print("exit", *state(), file=sys.stderr))
for step in range(int(words.get("steps", 1000))):
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).float().square().mean()
    loss.backward()
    warplens.watch("loss", loss)
    print("step", *state(), file=sys.stderr)
    if group["fused"] and words.get("fused") == "fails":
        raise ValueError("boom")
    if group["fused"] and words.get("fused") == "dies":
        os.kill(os.getpid(), 9)
    if os.environ.get("SIDE") == words.get("side", "-"):
        raise ValueError("not on this side")
    if str(step) == words.get("fails"):
        raise ValueError("boom")
    optimizer.step()
print("the end")
"""
ALONE = "None False float32 plain"
FUSED = "True False float32 plain"
BF16 = "None False bfloat16 plain"
Try = Callable[..., Any]


class WarmPrograms:
    """In the place of `subprocess`: processes that have PyTorch loaded, and whose output goes to files."""

    DEVNULL, TimeoutExpired = subprocess.DEVNULL, subprocess.TimeoutExpired

    def __init__(self, folder: Path) -> None:
        self.output, self.errors = (folder / "output").open("w+"), (folder / "errors").open("w+")

    def Popen(  # noqa: N802 - the name that it stands for
        self, command: list[str], *, pass_fds: list[int], stdin: int | None, stdout: int | None, env: Mapping[str, str]
    ) -> Any:
        shown = {None: self.output.fileno(), 2: self.errors.fileno(), subprocess.DEVNULL: subprocess.DEVNULL}[stdout]
        streams = [subprocess.DEVNULL, shown, self.errors.fileno()]
        process = warm_python._Process(command[1:], Path.cwd(), env, warm_python.OPTIMIZER, streams, passed=pass_fds[0])
        return SimpleNamespace(
            wait=process.wait,
            terminate=lambda: os.kill(process.pid, signal.SIGTERM),
        )


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Try]:
    """`warplens try` of the program in its folder: its status, what it prints, and what its programs print."""
    programs = WarmPrograms(tmp_path)
    monkeypatch.setattr(processes, "subprocess", programs)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)

    def run(*words: str) -> Any:
        status = main(["try", "--steps", "2", "--rounds", "2", "--warm-up", "1", *words])
        printed = capsys.readouterr()
        for file in (programs.output, programs.errors):
            file.seek(0)
        text = programs.errors.read()
        steps = [line.removeprefix("step ") for line in text.splitlines() if line.startswith("step ")]
        return SimpleNamespace(
            status=status, out=printed.out, err=printed.err, steps=steps, program_err=text,
            program_out=programs.output.read(),
        )  # fmt: skip

    yield run
    programs.output.close()
    programs.errors.close()


def test_a_program_runs_until_its_turns_are_done(attempt: Try) -> None:
    done = attempt("--fix", "wl208", "--json", "train.py")
    assert done.status == 0, done.err + done.program_err
    (row,) = json.loads(done.out)
    assert (row["fix"], row["fixes"], row["rounds"], row["device"]) == ("wl208", ["fused optimizer"], 2, "cpu")
    assert set(row["watched"]) == {"loss"}
    # A step after each switch counts as the program's first on that side; the last is its own again.
    assert done.steps == [ALONE] * 5 + [FUSED] * 8 + [ALONE] * 5
    assert "the end" not in done.program_out + done.program_err


def test_variants_are_tried_apart_and_nothing_of_one_is_left_in_any_other_turn(attempt: Try) -> None:
    done = attempt("--fix", "WL208", "--fix", "WL202=bf16", "train.py")
    assert done.status == 0, done.err + done.program_err
    assert done.steps == [ALONE] * 5 + [FUSED] * 4 + [BF16] * 8 + [FUSED] * 4 + [ALONE] * 5
    assert [line.split(" on ")[0] for line in done.out.splitlines() if "a step" in line] == [
        "fused optimizer",
        "bf16 autocast",
    ]


def test_fixes_of_one_option_are_on_together(attempt: Try) -> None:
    done = attempt("--fix", "WL208,WL202=bf16", "train.py")
    assert set(done.steps) == {ALONE, "True False bfloat16 plain"}
    assert "fused optimizer and bf16 autocast on cpu" in done.out


def test_a_failing_variant_shows_its_traceback_and_the_others_go_on(attempt: Try) -> None:
    done = attempt("--fix", "WL208", "--fix", "WL202=bf16", "--json", "train.py", "fused=fails")
    assert done.status == 1
    assert done.program_err.count("ValueError: boom") == 1
    assert done.err == "error: the program failed with WL208: ValueError: boom\n"
    failed, other = json.loads(done.out)
    assert (failed["rounds"], failed["gain_ms"], failed["failure"]) == (0, None, "ValueError: boom")
    assert (other["rounds"], other["failure"]) == (2, "")
    # What the program registered for its end, which comes after the failure, finds everything as it was.
    assert f"exit {ALONE}" in done.program_err
    assert done.steps.count(FUSED) == 1


def test_a_variant_that_kills_its_process_is_reported_and_the_others_go_on(attempt: Try) -> None:
    done = attempt("--fix", "WL208", "--fix", "WL202=bf16", "train.py", "fused=dies")
    assert done.status == 1
    assert (
        "error: the program failed with WL208: its process was killed, as the system does where memory runs out"
        in done.err
    )
    assert "bf16 autocast on cpu" in done.out


def test_a_program_that_fails_by_itself_ends_the_trial_and_whole_rounds_count(attempt: Try) -> None:
    done = attempt("--fix", "WL208", "train.py", "fails=14")
    assert done.status == 1
    assert "ValueError: boom" in done.program_err
    assert "note: the program crashed after 1 round of 2" in done.err
    assert "in 1 round of 2 steps" in done.out


def test_a_program_with_too_few_steps_is_an_error(attempt: Try) -> None:
    done = attempt("--fix", "WL208", "train.py", "steps=4")
    assert done.status == 1
    assert "error: the program made 4 steps; 17 are needed" in done.err
    assert "the end" in done.program_out


def test_variables_are_tried_in_a_second_process_that_takes_turns(attempt: Try, tmp_path: Path) -> None:
    done = attempt("--fix", "env:SIDE=other", "--fix", "WL208,env:SIDE=fused", "--json", "train.py")
    assert done.status == 0, done.err + done.program_err
    one, two = json.loads(done.out)
    assert (one["fixes"], one["rounds"]) == (["SIDE=other"], 2)
    assert (two["fixes"], two["rounds"]) == (["SIDE=fused", "fused optimizer"], 2)
    sides = [step.split()[-1] for step in done.steps]
    turns = [side for number, side in enumerate(sides) if number == 0 or sides[number - 1] != side]
    # Each goes on where it had stopped; at the end each makes a step of its own.
    assert turns[:5] == ["plain", "other", "fused", "other", "plain"]
    fused = [step for step in done.steps if step.endswith("fused")]
    assert set(fused) == {"None False float32 fused", "True False float32 fused"}
    assert not any(step.endswith("other") and step.startswith("True") for step in done.steps)
    assert not list(tmp_path.glob("*.pyc"))


def test_a_fresh_process_that_fails_leaves_the_other_results(attempt: Try) -> None:
    done = attempt("--fix", "env:SIDE=bad", "--fix", "WL208", "train.py", "side=bad")
    assert done.status == 1
    assert "error: the program failed with env:SIDE=bad: ValueError: not on this side" in done.err
    assert "fused optimizer on cpu" in done.out


def test_a_refused_fix_leaves_the_others_and_alone_it_is_the_error(attempt: Try) -> None:
    done = attempt("--fix", "WL207", "--fix", "WL208", "train.py")
    assert done.status == 1
    assert "error: WL207 cannot be tried: no module of the program convolves images" in done.err
    assert "fused optimizer on cpu" in done.out


def test_what_no_program_could_have_is_refused_before_it_runs(attempt: Try) -> None:
    done = attempt("--fix", "WL302", "train.py")
    assert done.status == 1
    assert done.err == "error: pinned loaders: there is no GPU to copy to\n"
    assert done.program_err == ""


def test_both_sides_are_recorded_for_a_comparison(attempt: Try, tmp_path: Path) -> None:
    done = attempt("--fix", "WL208", "--profile", "sides", "train.py")
    assert done.status == 0, done.err + done.program_err
    assert "next: warplens diff sides/plain.warplens sides/WL208.warplens" in done.err
    assert main(["diff", "sides/plain.warplens", "sides/WL208.warplens"]) == 0
    assert main(["show", "sides/WL208.warplens", "ops", "--json"]) == 0
    assert attempt("--fix", "WL208", "--profile", "sides", "train.py").status == 2


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--fix", "", "train.py"], "no fix is named"),
        (["--fix", "WL201", "train.py"], "WL201 cannot be tried"),
        (["--fix", "WL202"], "no program to try the fixes in"),
        (["--fix", "WL202", "--", "-m"], "-m needs the name of a module"),
        (["--fix", "WL202", "absent.py"], "absent.py: No such file"),
    ],
)
def test_wrong_commands_run_nothing(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["try", *words]) == UsageError.exit_code
    assert problem in capsys.readouterr().err
