"""Processes of ours as both of their ends see them, with real children."""

from __future__ import annotations

import doctest
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from support import HANG_SECONDS
from warplens_run.base.files import write_whole
from warplens_run.processes import child as child_module
from warplens_run.processes.child import Child, ChildEnded, Ending, environment

Start = Callable[..., Child]
STARTS_ANOTHER = """
    import subprocess, sys, time
    from warplens_run.processes.parent import Parent
    parent = Parent()
    other = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(3600)"])
    parent.send(str(other.pid))
"""


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def started(text: str, *words: str, **options: object) -> Child:
        (tmp_path / "ours.py").write_text(dedent(text))
        return Child("ours", *words, folder=tmp_path, **options)  # type: ignore[arg-type]

    return started


def test_the_examples_hold() -> None:
    results = doctest.testmod(child_module)
    assert results.attempted > 0
    assert results.failed == 0


def is_gone(process: int) -> bool:
    """Whether it ends soon; one that nobody has waited for yet has ended too."""
    deadline = time.monotonic() + HANG_SECONDS
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
            os.kill(process, 0)
        except (OSError, IndexError):
            return True
        time.sleep(0.01)
    return False


def test_lines_go_to_a_child_and_come_from_it_whatever_else_is_printed(start: Start) -> None:
    text = """
        import os, sys
        from warplens_run.processes.parent import Parent
        parent = Parent()
        print("a library speaks")
        os.system("echo and so does another")
        assert sys.stdin.read() == ""
        while True:
            parent.send(parent.receive() + " heard")
    """
    with start(text) as child:
        for line in ("one", "two ü"):
            child.send(line)
            assert child.receive(HANG_SECONDS) == f"{line} heard"


def test_a_silent_child_is_over_when_its_time_is(start: Start) -> None:
    with start("import time\ntime.sleep(3600)") as child:
        with pytest.raises(TimeoutError, match=r"^its process took longer than 0\.1 s and was stopped$"):
            child.receive(0.1)
        with pytest.raises(TimeoutError, match=r"^its process took longer than 0\.1 s and was stopped$"):
            child.wait(0.1)
        assert not child.is_running


@pytest.mark.parametrize(("text", "ending", "words"), [
    ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", Ending(-11), "its process was ended by SIGSEGV"),
    ("import os\nos.kill(os.getpid(), 9)", Ending(-9),
     "its process was killed, as the system does where memory runs out"),
    ("import os\nos.kill(os.getpid(), 40)", Ending(-40), "its process was ended by signal 40"),
    ("import sys\nprint('unfinished', end='', flush=True)\nsys.exit('first\\nnot so\\n\\n')", Ending(1, "not so"),
     "its process ended with status 1: not so"),
    ("", Ending(0), "its process ended with status 0"),
], ids=["signal", "killed", "signal without a name", "words", "well"])  # fmt: skip
def test_how_a_child_ended_is_one_description(text: str, ending: Ending, words: str, start: Start) -> None:
    with start(text) as child, pytest.raises(ChildEnded) as ended:
        child.receive(HANG_SECONDS)
    assert (ended.value.ending, str(ended.value)) == (ending, words)
    assert start(text).wait(HANG_SECONDS) == ending


def test_what_it_says_before_it_ends_is_heard_and_nothing_that_it_does_not_finish(start: Start) -> None:
    with start("print('one\\ntwo\\nthr', end='')") as child:
        assert [child.receive(HANG_SECONDS), child.receive(HANG_SECONDS)] == ["one", "two"]
        with pytest.raises(ChildEnded):
            child.receive(HANG_SECONDS)
        child.send("is anybody there?")


def test_a_child_takes_what_it_started_with_it(start: Start) -> None:
    with start(STARTS_ANOTHER + "    time.sleep(3600)") as child:
        grandchild = int(child.receive(HANG_SECONDS))
    assert is_gone(grandchild)
    ended_itself = start(STARTS_ANOTHER)
    grandchild = int(ended_itself.receive(HANG_SECONDS))
    assert ended_itself.wait(HANG_SECONDS) == Ending(0)
    assert is_gone(grandchild)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "killed"])
def test_nothing_is_left_when_the_parent_is_interrupted_or_killed(number: int, tmp_path: Path) -> None:
    (tmp_path / "ours.py").write_text(dedent(STARTS_ANOTHER + "    time.sleep(3600)"))
    program = """
        import signal
        from warplens_run.processes.child import Child
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        with Child("ours") as child:
            print(child._process.pid, child.receive(60), flush=True)
            child.receive(3600)
    """
    with subprocess.Popen([sys.executable, "-c", dedent(program)], cwd=tmp_path, env=environment(), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as parent:  # fmt: skip
        assert parent.stdout is not None
        processes = [int(word) for word in parent.stdout.readline().split()]
        assert len(processes) == 2
        os.killpg(parent.pid, number)
    assert all(map(is_gone, processes))


def test_a_child_without_a_parent_removes_what_it_was_told_to(start: Start, tmp_path: Path) -> None:
    text = """
        import pathlib, time
        from warplens_run.processes.parent import Parent
        parent = Parent()
        parent.at_end = pathlib.Path("scratch").unlink
        parent.send("ready")
        time.sleep(3600)
    """
    write_whole(tmp_path / "scratch", b"")
    with start(text) as child:
        child.receive(HANG_SECONDS)
        child._requests.close()
        child.wait(HANG_SECONDS)
    assert not (tmp_path / "scratch").exists()


def test_its_standard_error_is_shown_where_that_is_wanted(start: Start, capfd: pytest.CaptureFixture[str]) -> None:
    assert start("import sys\nsys.exit('for the user')", shows_errors=True).wait(HANG_SECONDS) == Ending(1)
    assert capfd.readouterr().err == "for the user\n"


def test_a_child_finds_the_warplens_of_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    assert environment()["PYTHONPATH"].split(os.pathsep)[0] == str(child_module.HOME)
    monkeypatch.setenv("PYTHONPATH", f"/other{os.pathsep}{child_module.HOME}{os.pathsep}/another")
    monkeypatch.setenv("RANK", "3")
    variables = environment(without=("RANK",), OMP_NUM_THREADS="1")
    assert variables["PYTHONPATH"] == os.pathsep.join([str(child_module.HOME), "/other", "/another"])
    assert "RANK" not in variables and variables["OMP_NUM_THREADS"] == "1"
    with zipfile.ZipFile(tmp_path / "runner.pyz", "w") as archive:
        archive.writestr("warplens_run/__init__.py", "found = __file__")
    monkeypatch.setattr(child_module, "HOME", tmp_path / "runner.pyz")
    with start("import warplens_run\nprint(warplens_run.found)", variables=environment()) as child:
        assert child.receive(HANG_SECONDS) == str(tmp_path / "runner.pyz" / "warplens_run" / "__init__.py")


def test_what_is_installed_does_not_come_before_the_standard_library(monkeypatch: pytest.MonkeyPatch) -> None:
    import sysconfig

    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(child_module, "HOME", Path(sysconfig.get_path("purelib")).resolve())
    assert "PYTHONPATH" not in environment()


def test_a_python_without_a_path_starts_nothing(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    for executable in (None, "/no/such/python"):
        monkeypatch.setattr(sys, "executable", executable)
        with pytest.raises(FileNotFoundError):
            start("")
