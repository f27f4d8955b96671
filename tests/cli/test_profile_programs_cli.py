"""`warplens profile` and programs that do as they please: processes, threads, profilers and endings of their own."""

from __future__ import annotations

import gzip
import importlib.util
import json
import textwrap
from functools import partial
from pathlib import Path

import pytest

import warm_python
import warplens
from profiled import environment, events, manifest, names, notes, run

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")


def tree(folder: Path) -> dict[tuple[str, ...], float]:
    """Path → how often a kernel or scope with the metric `n` was there."""
    found = warplens.open(folder, cache=False)
    assert not isinstance(found, warplens.Profile)
    paths = found.paths.tree
    return {tuple(paths.path(node)): float(paths.metrics["n"][node]) for node in range(len(paths))}


def test_a_program_that_leaves_its_folder_and_ends_in_its_own_way(tmp_path: Path) -> None:
    """Directory, handlers at exit, threads that nobody joins, and a session of its own."""
    done = run(tmp_path, """
        import atexit, os, sys, threading, time, torch, warplens
        def late():
            time.sleep(0.3)
            print("thread ends")
        atexit.register(lambda: print("handler sees", sorted(os.listdir(sys.argv[1]))))
        os.makedirs("elsewhere")
        os.chdir("elsewhere")
        session = warplens.start("mine")
        with warplens.scope("work"):
            torch.ones(2) + 1
        print(os.path.basename(warplens.finalize(session)), warplens.finalize())
        torch.ones(2) * 2
        print("compiler loaded:", "torch._inductor" in sys.modules)
        threading.Thread(target=late).start()
        sys.argv[2:] = ["changed"]
    """, "--steps", "all", args=(str(tmp_path), "--api-key", "hidden"))  # fmt: skip
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    assert done.stdout.splitlines() == [
        f"out {out}",
        "compiler loaded: False",
        "thread ends",
        "handler sees ['elsewhere', 'out', 'program.py']",
    ]
    assert not list((tmp_path / "elsewhere").iterdir())
    assert "\nwrote out\nnext: warplens report out\n" in done.stderr, "as the user wrote it"
    assert "the program's own warplens.start was ignored" in notes(out)
    assert {"aten::add.Tensor", "aten::mul.Tensor"} <= {event.get("name") for event in events(out)}, "all is recorded"
    command = ["profile", "-o", "out", "--steps", "all", "program.py", str(tmp_path), "--api-key", "***"]
    assert manifest(out)["command"][1:] == command
    assert str(tmp_path) not in gzip.decompress((out / "trace.json.gz").read_bytes()).decode(), "no place of the user's"


@pytest.mark.parametrize("data", ["trace", "tree"])
def test_a_program_that_profiles_itself(tmp_path: Path, data: str) -> None:
    """PyTorch allows one profiler at a time, and crashes where that is not heeded."""
    done = run(tmp_path, """
        import torch, warplens
        with warplens.scope("before", {"n": 1}):
            torch.ones(2) + 1
        with torch.profiler.profile() as profiler:
            torch.ones(2) * 2
        print(sorted({event.key for event in profiler.key_averages()} & {"aten::add", "aten::mul"}))
        with warplens.scope("after"):
            torch.ones(2) - 1
    """, "--data", data)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "['aten::mul']\n"), done.stderr
    assert "the program's own PyTorch profiler was started" in notes(tmp_path / "out")
    found = names(tmp_path / "out") if data == "trace" else {path[-1] for path in tree(tmp_path / "out") if path}
    assert "before" in found
    assert "after" not in found


def test_processes_of_the_program_are_left_alone(tmp_path: Path) -> None:
    done = run(tmp_path, """
        import multiprocessing, os, sys, time, torch, warplens
        class Items(torch.utils.data.Dataset):
            def __len__(self):
                return 12
            def __getitem__(self, index):
                with warplens.scope("item", {"n": 100}):
                    return torch.ones(2) * index
        def square(number):
            with warplens.scope("child"):
                return float((torch.ones(1) * number**2).sum())
        if __name__ == "__main__":
            for batch in torch.utils.data.DataLoader(Items(), batch_size=2, num_workers=2):
                with warplens.scope("batch", {"n": 1}):
                    batch.sum()
            for method in ("fork", "spawn"):
                context = multiprocessing.get_context(method)
                with context.Pool(1) as pool:
                    print(method, pool.map(square, [2, 3]))
            sleeper = multiprocessing.get_context("fork").Process(target=time.sleep, args=(3600,))
            sleeper.start()
            sleeper.terminate()
            sleeper.join()
            print(sleeper.exitcode)
            child = os.fork()
            if child == 0:
                sys.exit(3)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """, "--data", "tree")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["fork [4.0, 9.0]", "spawn [4.0, 9.0]", "-15", "3"]
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".py"] == ["out"], (
        "one bundle, and nothing beside"
    )
    found = tree(tmp_path / "out")
    assert sum(found.values()) == 6, "the six batches, and none of the workers' items"
    assert not any("item" in path or "child" in path for path in found)


def test_scopes_of_threads(tmp_path: Path) -> None:
    program = """
        import threading, torch, warplens, warplens_run.capture.session
        def work():
            with warplens.scope("in a thread", {"n": 1}):
                torch.ones(2) + 1
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        with warplens.scope("in the main one", {"n": 1}):
            torch.ones(2) * 2
        if warplens_run.capture.session._sessions:
            warplens.deactivate()
            warplens.activate()
    """
    done = run(tmp_path, program, "--steps", "all")
    assert names(tmp_path / "out") == ["in the main one"], done.stderr
    assert "scopes on 1 other thread were not recorded" in notes(tmp_path / "out")
    done = run(tmp_path, program, "--steps", "all", "--threads", "--force")
    assert sorted(names(tmp_path / "out")) == ["in a thread", "in the main one"], done.stderr
    assert "cannot pause while it records all threads" in notes(tmp_path / "out")
    found = warplens.open(tmp_path / "out", cache=False)
    assert isinstance(found, warplens.Profile)
    assert found.trace.metrics["value"].to_list() == [1, 1]


@pytest.mark.parametrize("data", ["trace", "tree"])
def test_names_and_metrics_of_any_kind(tmp_path: Path, data: str) -> None:
    done = run(tmp_path, """
        import torch, warplens
        for name in ('q"uote', "new\\nline", "back\\\\slash", "größe 空 🚀", "<b>", "", 5, "x" * 5000):
            with warplens.scope(name, {"n": torch.tensor(1.0), 'the "n"': 2, "lost": float("nan")}):
                torch.ones(2) + 1
        for bad in ("many", [1], torch.ones(2), 10**400):
            try:
                with warplens.scope("bad", {"n": bad}):
                    pass
            except warplens.UsageError as error:
                print("not a number" in str(error))
    """, "--data", data)  # fmt: skip
    assert (done.returncode, done.stdout.split()) == (0, ["True"] * 4), done.stderr
    wanted = {'q"uote', "new\nline", "back\\slash", "größe 空 🚀", "<b>", "(unnamed)", "5", "x" * 5000}
    assert "8 values of scopes' metrics are not finite" in notes(tmp_path / "out")
    if data == "tree":
        assert {path[0] for path, count in tree(tmp_path / "out").items() if count == 1} == wanted
        return
    assert set(names(tmp_path / "out")) == wanted
    found = warplens.open(tmp_path / "out", cache=False)
    assert isinstance(found, warplens.Profile)
    by_metric = found.trace.metrics.group_by("metric").sum()
    assert dict(by_metric.select("metric", "value").iter_rows()) == {"n": 8, 'the "n"': 16}
    assert "header" not in {row["code"] for row in found.table("quality").to_dicts()}


TRAIN = """
    import sys, torch
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(int(sys.argv[1])):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


NIGHTLY = partial(pytest.param, marks=pytest.mark.nightly)


@pytest.mark.parametrize(("options", "turns", "marks", "arguments"), [
    NIGHTLY(["--steps", "2", "--wait", "0"], 4, [0, 1], True),
    (["--steps", "2", "--wait", "0"], 2, [0, 1], False),
    NIGHTLY(["--steps", "1", "--wait", "1", "--warmup", "2"], 4, [3], True),
    NIGHTLY(["--steps", "1", "--wait", "2", "--warmup", "1", "--execution-trace", "none"], 4, [3], None),
    (["--steps", "5", "--wait", "2"], 4, [2, 3], True),
    (["--steps", "all"], 4, [1, 2, 3], None),
])  # fmt: skip
def test_steps_are_whole_and_apart(
    tmp_path: Path, options: list[str], turns: int, marks: list[int], arguments: bool | None
) -> None:
    done = run(tmp_path, TRAIN, *options, args=(str(turns),), libraries=warm_python.OPTIMIZER)
    assert done.returncode == 0, done.stderr
    found = warplens.open(tmp_path / "out", cache=False)
    assert isinstance(found, warplens.Profile)
    assert found.table("steps").frame["step"].to_list() == marks, "what follows the last step is none"
    assert "improper_nesting" not in {row["code"] for row in found.table("quality").to_dicts()}
    assert (tmp_path / "out" / "execution_trace.json.gz").exists() == bool(arguments)
    assert ("no ExecutionTrace: the program ended" in notes(tmp_path / "out")) == (arguments is False)
    if arguments:
        assert len(found.table("arguments"))


@pytest.mark.parametrize("mark", ["optimizer.step()", "warplens.step()"])
def test_steps_around_the_recorded_ones_are_timed(tmp_path: Path, mark: str) -> None:
    program = TRAIN.replace("import sys, torch", "import sys, torch, warplens").replace("optimizer.step()", mark)
    done = run(tmp_path, program, "--steps", "2", "--wait", "5", args=("13",), libraries=warm_python.OPTIMIZER)
    assert done.returncode == 0, done.stderr
    timing = json.loads((tmp_path / "out" / "timing.json").read_text())
    # The first step and the one of the ExecutionTrace do not count, nor the first after the recorded ones.
    windows = [(window["position"], window["steps"]) for window in timing["windows"]]
    assert windows == [("before", 3), ("after", 2), ("after", 3)]
    for window in timing["windows"]:
        assert sum(window["step_seconds"]) == pytest.approx(window["seconds"])
        assert window["seconds"] > 0
    assert timing["light_marks_ns"] == [], "no GPU here"
    assert "light" not in notes(tmp_path / "out")
    opened = warplens.open(tmp_path / "out", cache=False)
    assert opened.meta.plain_step_ns == pytest.approx(1e9 * timing["windows"][0]["seconds"] / 3)


def test_a_long_run_is_folded_in_pieces_inside_its_scopes(tmp_path: Path) -> None:
    """No mark and no scope that ends: the pieces end by the clock, and each is shown inside the scope it ran in."""
    done = run(tmp_path, """
        import time, torch, warplens
        from warplens_run.capture import session, torch_backend
        torch_backend.PIECE_SECONDS = torch_backend.LONGEST_SECONDS = 0.1
        (recorded,) = session._sessions.values()
        folded = recorded.backend._folder
        with warplens.scope("all of it", {"n": 1}):
            while folded.pieces < 4:
                torch.ones(2) + 1
                time.sleep(0.01)
            print(folded.recorded_seconds > 0, folded.skipped_seconds > 0, folded.lost_pieces)
    """, "--data", "tree")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True True 0\n"
    found = tree(tmp_path / "out")
    assert found["all of it",] == 1, "its metrics are told once"
    assert {path[0] for path in found if path} == {"all of it"}
    assert ("all of it", "aten::add.Tensor") in found
    assert set(manifest(tmp_path / "out")["files"]) == {"environment.json", "tree.hatchet.gz"}


@pytest.mark.parametrize(("code", "status"), [(0, 1), (3, 3)])
def test_a_bundle_that_cannot_be_written_is_one_line_and_the_status_stays(
    tmp_path: Path, code: int, status: int
) -> None:
    done = run(tmp_path, f"""
        import sys, torch
        from warplens_run.formats import bundle
        def full(*args):
            raise OSError(28, "No space left on device")
        bundle.compress_trace = full
        torch.ones(2) + 1
        sys.exit({code})
    """)  # fmt: skip
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert done.stderr.count(f"error: cannot write {tmp_path / 'out'}: No space left on device") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"], "nothing half-written is left"


def test_a_failure_in_the_midst_of_the_program_does_not_end_it(tmp_path: Path) -> None:
    done = run(tmp_path, """
        import torch, warplens
        from warplens_run.capture import session, torch_backend
        torch_backend.PIECE_SECONDS = 0.0
        def broken(self, path):
            raise RuntimeError("no more")
        with warplens.scope("kept", {"n": 1}):
            torch.ones(2) + 1
        torch.profiler._KinetoProfile.export_chrome_trace = broken
        while not session._sessions[1].backend._failure:
            with warplens.scope("lost", {"n": 1}):
                torch.ones(2) + 1
        print("the program ends")
    """, "--data", "tree")  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "the program ends\n"), done.stderr
    assert "the recording ended early: no more" in notes(tmp_path / "out")
    assert {path[0] for path in tree(tmp_path / "out") if path} == {"kept"}


def test_an_error_of_warplens_in_the_program_is_the_programs_crash(tmp_path: Path) -> None:
    done = run(tmp_path, "import torch, warplens\ntorch.ones(2) + 1\nwarplens.deactivate(99)\n")
    assert done.returncode == 1
    assert 'program.py", line 3' in done.stderr
    assert manifest(tmp_path / "out")["status"] == "crashed"
    assert "aten::add.Tensor" in {event.get("name") for event in events(tmp_path / "out")}


def test_a_program_without_pytorch_is_told(tmp_path: Path) -> None:
    done = run(tmp_path, "print(input())\n", "--steps", "2", "--wait", "1")
    assert done.returncode == 1
    assert "wrote out (the program crashed, status 1), which contains no profile\n" in done.stderr
    assert "next:" not in done.stderr
    (tmp_path / "out").rename(tmp_path / "first")
    done = run(tmp_path, "print(sum(range(10)))\n", "--ranks", "0")
    assert (done.returncode, done.stdout) == (0, "45\n")
    assert "note: the program ran no PyTorch op while it was recorded" in done.stderr
    done = run(tmp_path, "print(sum(range(10)))\n", "--ranks", "3", "--force")
    assert "note: rank 0 is not recorded (--ranks 3)" in done.stderr


def test_sessions_of_a_program_on_its_own(tmp_path: Path) -> None:
    """A decorated function called again, one that fails, sessions that end inside scopes, and ranks."""
    (tmp_path / "own.py").write_text(textwrap.dedent("""
        import sys, torch, warplens
        @warplens.profile(data="trace")
        def work(number):
            if number < 0:
                raise ValueError("boom")
            return work(number - 1) if number else torch.ones(2).sum().item()
        print(work(0), work(2))
        try:
            work(-1)
        except ValueError as error:
            print(error)
        with warplens.scope("around"):
            session = warplens.start("inside")
            with warplens.scope("kept"):
                torch.ones(2) + 1
                warplens.finalize(session)
        print(torch._C._autograd._profiler_enabled())
        with torch.profiler.profile():
            try:
                warplens.start("second")
            except warplens.WarplensError as error:
                print(error)
        for options in ({"backend": "proton"}, {"backend": "jax", "data": "trace"}, {"wat": 1}):
            try:
                warplens.start("none", **options)
                print("started")
            except warplens.WarplensError as error:
                print(str(error)[:30])
    """))  # fmt: skip
    done = warm_python.run(["own.py"], tmp_path, environment())
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:4] == ["2.0 2.0", "boom", "False", lines[3]]
    assert "recording already" in lines[3]
    assert lines[6] == "no option 'wat'"
    bundles = {path.name for path in tmp_path.iterdir() if path.is_dir()} - {"none.warplens"}  # where JAX is installed
    assert bundles == {"inside.warplens", "work-2.warplens", "work-3.warplens", "work.warplens"}
    assert manifest(tmp_path / "work-3.warplens")["error"] == "ValueError: boom"
    assert manifest(tmp_path / "work.warplens")["command"] == ["python", "own.py"]
