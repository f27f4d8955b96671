from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

import warm_python
from support import ROOT, RunInside, write_trace

if TYPE_CHECKING:
    import warplens

FIRST_TS = 3_843_680_428_000
# Before Polars is imported. As the command line has it: a second thread costs a twentieth of the CPU time of tests.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

# The same examples in every run, and none fails for taking long: that says how busy the machine is.
settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


# A file's tests stay with one worker, so that the files that take the longest must not be begun last: a worker with one
# of them would be alone at the end. The quick ones fill what is left.
LONGEST = (
    "test_replay_cpp_build.py", "test_profile_cli.py", "test_kernel_static_facts.py", "test_kernel_schedule.py",
    "test_profile_default_cli.py", "test_profile_programs_cli.py", "test_kernel_cuda_facts.py", "test_verbs.py",
    "test_kernel_guide.py", "test_recipes.py", "test_fuzz.py", "test_distribution.py", "test_workload_capture.py",
    "test_kernel_static_compile.py", "test_workload_cli.py", "test_replay_running_plan.py",
)  # fmt: skip
FAST_FOLDERS = ("unit",)
SLOW_FILES = (
    *LONGEST, "test_api.py", "test_bad_values.py", "test_capture_launch.py", "test_categories.py",
    "test_cluster_dask.py", "test_cluster_local.py", "test_costs_torch.py",
    "test_docs.py", "test_gantt.py", "test_lazy_torch.py", "test_planning.py", "test_proof_experiments.py",
    "test_proof_running.py", "test_proton_trace.py", "test_trying.py", "test_workloads.py", "test_xplane.py",
)  # fmt: skip
SLOW_PREFIXES = ("test_kernel_", "test_replay_")
"""In a fast folder, but they start processes, compile, or read every real trace: left to `make test`."""


LEFT_TO_NIGHTLY = pytest.StashKey[int]()


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected stays: looking through it for garbage takes a third of the time, 6 s of CPU in each worker."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--fast"):
        slow = [item for item in items if not _is_fast(item.path)]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if _is_fast(item.path)]
    # A test that is asked for by its name runs.
    if not config.getoption("--nightly") and not any("::" in arg for arg in config.args):
        later = [item for item in items if item.get_closest_marker("nightly")]
        config.hook.pytest_deselected(items=later)
        config.stash[LEFT_TO_NIGHTLY] = len(later)
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: _rank(item, ranks))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells the process that started it, which collects nothing itself."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_to_nightly"] = session.config.stash.get(LEFT_TO_NIGHTLY, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[LEFT_TO_NIGHTLY] = getattr(node, "workeroutput", {}).get("left_to_nightly", 0)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if count := config.stash.get(LEFT_TO_NIGHTLY, 0):
        terminalreporter.write_line(f"{count} tests are left to `make nightly` (--nightly)")


def _rank(item: pytest.Item, ranks: dict[str, int]) -> int:
    is_browsers = item.path.parent.name == "browser"  # the folder takes longest, and a worker has one browser for it
    return -1 if is_browsers else ranks.get(item.path.name, len(ranks) + _is_fast(item.path))


def _is_fast(path: Path) -> bool:
    return path.parent.name in FAST_FOLDERS and path.name not in SLOW_FILES and not path.name.startswith(SLOW_PREFIXES)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="only the tests of `make check`")
    parser.addoption("--nightly", action="store_true", help="also what is slow and rarely finds anything")
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


@pytest.fixture(scope="session", autouse=True)
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Path]]:
    """Names of folders that nobody has made. `mktemp` reads all the names before its own: thousands, for each test.

    What the tests of a file share is made before any test: it must not fill the user's cache either.
    """
    folder = tmp_path_factory.mktemp("caches")
    if "PYTEST_XDIST_WORKER" in os.environ:
        warm_python.share(tmp_path_factory.getbasetemp().parent)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(folder / "home"))
        patched.setenv("WARPLENS_CACHE", str(folder / "shared"))
        yield (folder / str(number) for number in count())


@pytest.fixture(autouse=True)
def _own_surroundings(monkeypatch: pytest.MonkeyPatch, _caches: Iterator[Path]) -> None:
    """No test reads or fills the user's cache, nor depends on the width of a terminal: parallel workers have one of 80."""
    monkeypatch.setenv("WARPLENS_CACHE", str(next(_caches)))
    monkeypatch.delenv("COLUMNS", raising=False)
    # A tree's recording is folded in one piece, however slow the machine is; what is not recorded between two is lost.
    monkeypatch.setenv("WARPLENS_PIECE_SECONDS", "3600")


@pytest.fixture(scope="module")
def _cache_of_the_file(_caches: Iterator[Path]) -> Path:
    return next(_caches)


@pytest.fixture
def one_cache(_cache_of_the_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For files of tests that are not about reading: what one of them has read and computed serves the others."""
    monkeypatch.setenv("WARPLENS_CACHE", str(_cache_of_the_file))


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., warplens.Profile]:
    """Opens events made by hand: `opened([kernel(...)], gap_us=1)`; `header` stands beside the events.

    Their times are written as a real profiler would, far from 0, so that nothing relies on where a trace starts.
    """

    def open_events(
        events: list[dict[str, Any]], header: dict[str, Any] | None = None, **options: Any
    ) -> warplens.Profile:
        import warplens

        moved = [{**event, "ts": event["ts"] + FIRST_TS} if "ts" in event else event for event in events]
        return warplens.open(write_trace(tmp_path / "trace.json", moved, **(header or {})), cache=False, **options)

    return open_events


@pytest.fixture
def run_inside(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunInside:
    """`warplens …` without a process of its own, for what does not depend on one: half a second saved each."""
    monkeypatch.chdir(ROOT)

    def finished(*args: str | Path, **environment: str) -> CompletedProcess[str]:
        from warplens.cli import main

        for name, value in {"COLUMNS": "100", **environment}.items():
            monkeypatch.setenv(name, value)
        words = [str(arg) for arg in args]
        try:
            code = main(words)
        except SystemExit as ended:
            code = int(ended.code or 0)
        captured = capsys.readouterr()
        return CompletedProcess(words, code, captured.out, captured.err)

    return finished


@pytest.fixture(scope="module")
def warm_compiler() -> Iterator[None]:
    """Kernels are compiled, and scripts run for their launches, in processes that need not load PyTorch anew."""
    from warplens_run.processes import child

    with pytest.MonkeyPatch.context() as patched:
        modules = ("warplens_lab.compiling.",)
        patched.setattr(child, "subprocess", warm_python.WarmSubprocess(warm_python.TRITON, modules, child.subprocess))
        yield


@pytest.fixture
def warm_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of plans run, and answers to puzzles are checked, in processes that need not load PyTorch anew."""
    from warplens_run.processes import child

    modules = ("warplens_run.replay.", "warplens_run.proof.", "warplens_lab.puzzles.")
    warm = warm_python.WarmSubprocess(warm_python.TORCH, modules, child.subprocess)
    monkeypatch.setattr(child, "subprocess", warm)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> object:
    """Compares a text with its golden file, or rewrites the file with --update-golden."""

    def compare(name: str, text: str) -> None:
        path = Path(__file__).parent / "golden" / "expected" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert text == path.read_text(), f"{name} differs; `make golden` rewrites it if that is meant"

    return compare
