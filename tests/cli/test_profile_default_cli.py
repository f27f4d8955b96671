"""`warplens profile` without a number of steps: which ones it finds, what it keeps of them, and what it says."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import warm_python
import warplens
from profiled import environment, events, manifest, names, notes, run
from warplens.cli import main

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")

TRAIN = """
    import sys, torch
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(int(sys.argv[1])):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
"""
ACCUMULATE = """
    import sys, torch
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(int(sys.argv[1])):
        for _ in range(4):
            model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
"""
INFER = """
    import sys, torch
    embed, model = torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    x = embed(torch.ones(2, 4))
    for _ in range(int(sys.argv[1])):
        model(x)
"""
MARKED = """
    import sys, torch, warplens
    optimizer = torch.optim.SGD([torch.zeros(2, requires_grad=True)], lr=0.1)
    for _ in range(int(sys.argv[1])):
        for _ in range(2):
            torch.ones(2).add(1)
        warplens.step()
"""


def recorded_steps(bundle: Path) -> list[int]:
    return [int(name.partition("#")[2]) for name in names(bundle) if name.startswith("ProfilerStep#")]


NIGHTLY = partial(pytest.param, marks=pytest.mark.nightly)


@pytest.mark.parametrize(("program", "turns", "steps", "note"), [
    NIGHTLY(TRAIN, 1, [0], "recorded 1 of 1 steps, found by the optimizer's step; 3 were wanted"),
    (TRAIN, 2, [0, 1], "recorded 2 of 2 steps, found by the optimizer's step; 3 were wanted"),
    NIGHTLY(TRAIN, 3, [2], "recorded 1 of 3 steps, found by the optimizer's step; 3 were wanted"),
    (TRAIN, 9, [2, 3, 4], "recorded 3 of 9 steps, found by the optimizer's step"),
    NIGHTLY(ACCUMULATE, 7, [2, 3, 4], "recorded 3 of 7 steps, found by the optimizer's step"),
    (INFER, 7, [2, 3, 4], "recorded 3 of 7 steps, found by the outermost module's forward"),
    (MARKED, 7, [2, 3, 4], "recorded 3 of 7 steps, found by warplens.step()"),
])  # fmt: skip
def test_three_steps_are_recorded_from_the_third_on_and_fewer_where_the_program_has_fewer(
    tmp_path: Path, program: str, turns: int, steps: list[int], note: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(tmp_path, program, args=(str(turns),), libraries=warm_python.OPTIMIZER)
    assert done.returncode == 0, done.stderr
    assert f"note: {note}\n" in done.stderr
    assert recorded_steps(tmp_path / "out") == steps
    facts = manifest(tmp_path / "out")
    assert (facts["steps_recorded"], facts["steps_marked"]) == (len(steps), turns)
    goes_on = turns > 5
    assert ("execution_trace.json.gz" in facts["files"]) == goes_on, "only of a program that goes on"
    assert main(["report", str(tmp_path / "out"), "--no-cache"]) == 0
    assert note in " ".join(capsys.readouterr().out.split())
    opened = warplens.open(tmp_path / "out", cache=False)
    assert isinstance(opened, warplens.Profile)
    assert opened.table("steps").frame["step"].to_list() == steps


def test_the_options_say_how_many_steps_and_after_how_many(tmp_path: Path) -> None:
    for options, steps in [
        (["--steps", "1"], [2]),
        (["--steps", "2", "--wait", "5"], [5, 6]),
        (["--wait", "4"], [4, 5, 6]),
        (["--steps", "all"], list(range(9))),
    ]:
        done = run(tmp_path, TRAIN, "--force", *options, args=("9",), libraries=warm_python.OPTIMIZER)
        assert done.returncode == 0, done.stderr
        # Of a whole run the first step begins with the recording, unmarked.
        assert recorded_steps(tmp_path / "out") == [step for step in steps if step or options[-1] != "all"]


def test_frames_are_those_of_steps_and_not_of_imports(tmp_path: Path) -> None:
    program = "    import xml.dom.minidom, email.mime.text, wsgiref.simple_server" + TRAIN
    done = run(tmp_path, program, "--stacks", args=("8",), libraries=warm_python.OPTIMIZER)
    assert done.returncode == 0, done.stderr
    frames = [event["name"] for event in events(tmp_path / "out") if event.get("cat") == "python_function"]
    assert any("torch/_tensor.py" in name for name in frames)
    assert not any("importlib" in name for name in frames)
    size = sum(file.stat().st_size for file in (tmp_path / "out").iterdir())
    assert size < 100_000, "a toy stays small"


def test_of_a_program_without_steps_a_part_is_recorded_and_said(tmp_path: Path) -> None:
    done = run(tmp_path, """
        import time, torch
        from warplens_run.capture import step_search
        step_search.SEARCH_SECONDS = 0.2
        begin = time.monotonic()
        while time.monotonic() < begin + 2:
            torch.ones(2).mul(2)
            time.sleep(0.001)
        torch.ones(2).erf()
    """)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "note: no steps were found (no warplens.step(), no optimizer's step, no module that is called again)" in (
        done.stderr
    )
    ops = {event.get("name") for event in events(tmp_path / "out")}
    assert "aten::mul.Tensor" in ops and "aten::erf" not in ops
    assert 0.2 <= manifest(tmp_path / "out")["seconds_recorded"] < 1.5


def test_what_a_program_recorded_before_it_failed_is_kept(tmp_path: Path) -> None:
    done = run(tmp_path, TRAIN + "    raise SystemExit(3)\n", args=("4",), libraries=warm_python.OPTIMIZER)
    assert done.returncode == 3
    assert recorded_steps(tmp_path / "out") == [2, 3]
    assert "recorded 2 of 4 steps" in notes(tmp_path / "out")


def test_a_recording_that_the_program_starts_itself_takes_the_place_of_a_search(tmp_path: Path) -> None:
    done = run(tmp_path, """
        import torch, warplens
        model = torch.nn.Linear(2, 2)
        for turn in range(9):
            if turn == 5:
                warplens.start("mine")
            with warplens.scope(f"turn {turn}"):
                model(torch.ones(1, 2))
        warplens.finalize()
        with warplens.scope("afterwards"):
            model(torch.ones(1, 2))
    """)  # fmt: skip
    assert done.returncode == 0, done.stderr
    scopes = [name for name in names(tmp_path / "out") if name.startswith(("turn", "after"))]
    assert scopes == ["turn 5", "turn 6", "turn 7", "turn 8"]
    assert "the program's own warplens.start began the recording" in notes(tmp_path / "out")


def test_a_tree_has_none_of_our_own_functions_and_all_of_the_programs_time(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("""
import time, torch, warplens

def work():
    with warplens.scope("inside"):
        torch.ones(2).add(1)
        time.sleep(0.05)

warplens.start("tree", data="tree", context="python")
begin = time.perf_counter_ns()
work()
print(time.perf_counter_ns() - begin)
warplens.finalize()
""")
    done = warm_python.run(["program.py"], tmp_path, environment(), warm_python.TORCH)
    assert done.returncode == 0, done.stderr
    root = json.loads(gzip.decompress((tmp_path / "tree.warplens" / "tree.hatchet.gz").read_bytes()))[0]
    nodes = [root]
    for node in nodes:
        nodes.extend(node["children"])
    own = [node["frame"]["name"] for node in nodes if re.search(r"warplens(_run)?/", node["frame"]["name"])]
    assert own == []
    host_ns = sum(node["metrics"].get("cpu_time_ns", 0) for node in nodes)
    assert 50e6 < host_ns < 1.2 * int(done.stdout)


@pytest.mark.nightly
def test_quotes_in_names_are_corrected_in_traces_and_in_trees(tmp_path: Path) -> None:
    program = """
        import torch
        namespace = {}
        exec(compile("def double(x): return x + x", 'made by "exec".py', "exec"), namespace)
        for _ in range(3):
            with torch.profiler.record_function('say "hi"'):
                namespace["double"](torch.ones(2))
    """
    for data in ("trace", "tree"):
        options = ("--data", data, "--stacks", "--force", "--steps", "all", "--backend", "torch")
        done = run(tmp_path, program, *options)
        assert done.returncode == 0, done.stderr
        assert "note: PyTorch's profiler did not escape the quotes in " in done.stderr
        paths: Any = warplens.open(tmp_path / "out", cache=False).table(
            "call_tree" if data == "trace" else "call_paths"
        )
        text = json.dumps(paths.to_dicts())
        assert 'say \\"hi\\"' in text and 'made by \\"exec\\".py' in text
