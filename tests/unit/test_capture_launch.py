"""A program run by Warplens finds what it would find if Python ran it, and ends as it would; without PyTorch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import warplens
from support import HANG_SECONDS
from warplens_run.base.errors import UsageError
from warplens_run.capture.launch import script

DRIVER = """
import sys
from warplens_run.capture.launch import leave, module, script, supervise
import os
process = os.getpid()
name, *args = sys.argv[1:]
program = module(args[0], args[1:]) if name == "-m" else script(name, args)
outcome = supervise(program)
if os.getpid() != process:
    leave(outcome.exit_code)
print("outcome", outcome.exit_code, outcome.status, outcome.error, sep="|", flush=True)
sys.exit(outcome.exit_code)
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(warplens.__file__).parents[1])}


def launched(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "driver.py").write_text(DRIVER)
    command = [sys.executable, "driver.py", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment(), timeout=HANG_SECONDS)


def plain(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment(), timeout=HANG_SECONDS)


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(textwrap.dedent(text))


WHERE = """
import os, pickle, sys
class Thing: pass
os.chdir("/")
print(__file__, __name__, __package__, getattr(__spec__, "name", None), sys.argv, sys.path[0])
print(type(pickle.loads(pickle.dumps(Thing()))) is Thing, sys.modules["__main__"].__dict__ is globals())
"""


@pytest.mark.parametrize("words", [
    ["a dir ü/train é.py", "--lr", "3"],
    ["-m", "pkg", "x"],
    ["-m", "pkg.inner.mod", "-m", "y"],
], ids=["script", "package", "module"])  # fmt: skip
def test_a_program_sees_what_python_shows_it(tmp_path: Path, words: list[str]) -> None:
    write(tmp_path, "a dir ü/train é.py", "import neighbour\n" + textwrap.dedent(WHERE))
    write(tmp_path, "a dir ü/neighbour.py", "")
    write(tmp_path, "pkg/__init__.py", "")
    write(tmp_path, "pkg/__main__.py", WHERE)
    write(tmp_path, "pkg/inner/__init__.py", "")
    write(tmp_path, "pkg/inner/mod.py", "from ..inner import other\n" + textwrap.dedent(WHERE))
    write(tmp_path, "pkg/inner/other.py", "")
    wanted = plain(tmp_path, *words)
    assert wanted.returncode == 0, wanted.stderr
    found = launched(tmp_path, *words)
    assert found.stdout.splitlines()[:-1] == wanted.stdout.splitlines(), found.stderr


@pytest.mark.parametrize(
    "code", ["None", "''", "'text'", "0", "7", "-1", "256", "2**40", "2**70", "True", "(1, 2)", "3.5"]
)
def test_an_exit_status_is_pythons(tmp_path: Path, code: str) -> None:
    write(tmp_path, "ends.py", f"import sys\nsys.exit({code})\n")
    wanted, found = plain(tmp_path, "ends.py"), launched(tmp_path, "ends.py")
    assert (found.returncode, found.stderr) == (wanted.returncode, wanted.stderr)
    status = "complete" if wanted.returncode == 0 else "failed"
    assert found.stdout.startswith(f"outcome|{wanted.returncode}|{status}|")


def test_a_crash_shows_the_programs_own_frames(tmp_path: Path) -> None:
    write(tmp_path, "crash.py", "def inner():\n    raise ValueError('boom')\ninner()\n")
    wanted, found = plain(tmp_path, "crash.py"), launched(tmp_path, "crash.py")
    assert found.stderr == wanted.stderr
    assert found.stdout == "outcome|1|crashed|ValueError: boom\n"
    write(tmp_path, "syntax.py", "def (\n")
    assert launched(tmp_path, "syntax.py").stderr == plain(tmp_path, "syntax.py").stderr


def test_the_programs_own_way_to_show_a_crash_is_used(tmp_path: Path) -> None:
    write(tmp_path, "hook.py", "import sys\nsys.excepthook = lambda *error: print('mine', error[1])\n1 / 0\n")
    assert launched(tmp_path, "hook.py").stdout.startswith("mine division by zero\n")
    write(tmp_path, "hook.py", "import sys\nsys.excepthook = None\n1 / 0\n")
    found = launched(tmp_path, "hook.py")
    assert "ZeroDivisionError" in found.stderr
    assert found.returncode == 1


def test_threads_and_executors_are_waited_for_and_handlers_run_after_that(tmp_path: Path) -> None:
    write(tmp_path, "threads.py", """
        import atexit, concurrent.futures, threading, time
        printed = threading.Event()
        def work(name):
            printed.wait()
            time.sleep(0.2)  # the program is at its end by now, or, on a slow machine, nearly
            print(name)
        atexit.register(print, "handler")
        threading.Thread(target=work, args=("thread",)).start()
        threading.Thread(target=threading.Event().wait, daemon=True).start()  # for ever, so that it is not waited for
        concurrent.futures.ThreadPoolExecutor(1).submit(work, "executor")
        print("main")
        printed.set()
    """)  # fmt: skip
    lines = launched(tmp_path, "threads.py").stdout.splitlines()
    assert lines[0] == "main"
    before = "".join(lines[1 : lines.index("outcome|0|complete|")])  # threads may print into one line
    assert "thread" in before
    assert "executor" in before
    assert lines[-1] == "handler"


def test_a_forked_child_ends_by_itself(tmp_path: Path) -> None:
    write(tmp_path, "forks.py", """
        import atexit, os, signal, sys, time
        atexit.register(lambda: print("handler", os.getpid() == parent, flush=True))
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        for _ in range(50):
            child = os.fork()
            if child == 0:
                time.sleep(3600)
                os._exit(9)
            os.kill(child, signal.SIGTERM)
            ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert ended == -signal.SIGTERM, ended
    """)  # fmt: skip
    found = launched(tmp_path, "forks.py")
    assert found.stdout.splitlines() == ["handler False", "3", "outcome|0|complete|", "handler True"], found.stderr


@pytest.mark.parametrize(("number", "told"), [
    (signal.SIGINT, "outcome|130|interrupted|"),
    (signal.SIGTERM, "outcome|143|terminated|"),
    (signal.SIGHUP, "outcome|129|terminated|"),
])  # fmt: skip
def test_a_signal_ends_the_program_and_not_what_follows_it(tmp_path: Path, number: int, told: str) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("this signal is ignored here, as under nohup, and a child inherits that")
    write(tmp_path, "waits.py", """
        import threading, time
        threading.Thread(target=time.sleep, args=(2,)).start()
        try:
            print("waiting", flush=True)
            time.sleep(3600)
        finally:
            print("finally", flush=True)
    """)  # fmt: skip
    (tmp_path / "driver.py").write_text(DRIVER)
    process = subprocess.Popen([sys.executable, "driver.py", "waits.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
                               env=environment(), preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(number)
    out, _ = process.communicate(timeout=HANG_SECONDS)
    assert out.splitlines() == ["finally", told]


def test_a_program_that_handles_the_signal_itself_goes_on(tmp_path: Path) -> None:
    write(tmp_path, "handles.py", """
        import os, signal
        signal.signal(signal.SIGTERM, lambda *_: print("mine"))
        os.kill(os.getpid(), signal.SIGTERM)
        print("goes on")
    """)  # fmt: skip
    assert launched(tmp_path, "handles.py").stdout.splitlines() == ["mine", "goes on", "outcome|0|complete|"]


@pytest.mark.parametrize(("words", "told"), [
    (["-m", "pkg"], "'pkg' is a package without a __main__"),
    (["-m", "nowhere"], "no module 'nowhere'"),
    (["-m", "nowhere.at.all"], "no module 'nowhere.at.all'"),
    (["-m", "math"], "no module 'math' with Python code"),
])  # fmt: skip
def test_what_cannot_be_run_is_said(tmp_path: Path, words: list[str], told: str) -> None:
    write(tmp_path, "pkg/__init__.py", "")
    assert told in launched(tmp_path, *words).stderr


def test_a_script_that_is_none_is_said(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere.py", Path("bad\0name")):
        with pytest.raises(UsageError):
            script(str(path), [])
