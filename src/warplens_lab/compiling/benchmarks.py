"""Benchmarks of a script that is only checked: each runs once, and comparisons of results that nobody computed hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from importlib import import_module
from typing import Any, Final

from warplens_lab.compiling.changing import Change, changed
from warplens_lab.compiling.launch_recording import LaunchLog

TIMINGS: Final = ("do_bench", "do_bench_cudagraph")
MILLISECONDS: Final = 1.0
"""The time that a benchmark gets: nothing is timed, and a rate computed from it must not divide by zero."""
SKIPPED: Final = "{}: one of {} sizes of its benchmark; {} not run"
PROFILING: Final = ("start", "activate", "deactivate", "finalize")
"""Of Proton, Triton's own profiler."""
COMPARISONS: Final = {
    "torch": ("allclose", "equal"),
    "torch.testing": ("assert_close", "assert_allclose"),
    "triton.testing": ("assert_close",),
    "numpy.testing": ("assert_allclose", "assert_array_equal", "assert_equal", "assert_almost_equal"),
    "numpy": ("allclose", "array_equal"),
}


@contextmanager
def benchmarks_once(log: LaunchLog) -> Iterator[None]:
    """`triton.testing`'s and PyTorch's benchmarks, of which one size and one run show what they launch.

    Kernels that the script has launched before are not noted again there.
    """
    changes: list[Change] = []
    with suppress(ImportError):
        testing = import_module("triton.testing")
        changes += [(testing, name, _once(log)) for name in TIMINGS if hasattr(testing, name)]
        changes += [(testing.Mark, "run", _first_sizes(log))]
    with suppress(ImportError):
        timer = import_module("torch.utils.benchmark").Timer
        timeit = timer.timeit
        changes += [(timer, "timeit", _timed(timeit, log))]
        changes += [(timer, name, _timed(timeit, log)) for name in ("blocked_autorange", "adaptive_autorange")]
    with suppress(ImportError):
        profiler = import_module("triton.profiler")
        changes += [(profiler, name, _nothing) for name in PROFILING if hasattr(profiler, name)]
    with changed(*changes):
        yield


def _nothing(*args: Any, **kwargs: Any) -> None:
    """In place of a profiler, which needs the GPU's driver."""


@contextmanager
def _inside(log: LaunchLog) -> Iterator[None]:
    log.benchmarks += 1
    try:
        yield
    finally:
        log.benchmarks -= 1


def _once(log: LaunchLog) -> Callable[..., Any]:
    def do_bench(
        fn: Callable[[], Any], *args: Any, quantiles: Any = None, return_mode: str = "mean", **rest: Any
    ) -> Any:
        with _inside(log):
            fn()
        if quantiles is not None:
            return [MILLISECONDS] * len(quantiles) if len(quantiles) > 1 else MILLISECONDS
        return [MILLISECONDS] if return_mode == "all" else MILLISECONDS

    return do_bench


def _first_sizes(log: LaunchLog) -> Callable[..., Any]:
    def run(self: Any, show_plots: Any = False, print_data: Any = False, save_path: Any = "", **kwargs: Any) -> None:
        kwargs.pop("return_df", None)
        kwargs.pop("diff_col", None)
        kwargs.pop("save_precision", None)
        for benchmark in self.benchmarks if isinstance(self.benchmarks, (list, tuple)) else [self.benchmarks]:
            sizes = list(benchmark.x_vals)
            name = benchmark.plot_name or getattr(self.fn, "__name__", "a benchmark")
            if len(sizes) > 1:
                log.notes[SKIPPED.format(name, len(sizes), len(sizes) - 1)] = None
            for size in sizes[:1]:
                _run_lines(self.fn, benchmark, size, kwargs, log)

    return run


def _run_lines(fn: Callable[..., Any], benchmark: Any, size: Any, kwargs: dict[str, Any], log: LaunchLog) -> None:
    names = list(benchmark.x_names)
    values = size if isinstance(size, (list, tuple)) else [size] * len(names)
    for line in benchmark.line_vals:
        given = {**dict(zip(names, values, strict=True)), benchmark.line_arg: line, **benchmark.args, **kwargs}
        with _inside(log):
            fn(**given)


def _timed(timeit: Callable[..., Any], log: LaunchLog) -> Callable[..., Any]:
    @wraps(timeit)
    def once(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _inside(log):
            return timeit(self, 1)

    return once


@contextmanager
def comparisons_hold(log: LaunchLog) -> Iterator[None]:
    """From the first launch on, what compares results says that they agree."""
    changes: list[Change] = []
    for module_name, names in COMPARISONS.items():
        with suppress(ImportError):
            module = import_module(module_name)
            changes += [
                (module, name, _agreeing(getattr(module, name), log)) for name in names if hasattr(module, name)
            ]
    with suppress(ImportError):
        tensor = import_module("torch").Tensor
        changes += [(tensor, name, _agreeing(getattr(tensor, name), log)) for name in COMPARISONS["torch"]]
    with changed(*changes):
        yield


def _agreeing(compare: Callable[..., Any], log: LaunchLog) -> Callable[..., Any]:
    asserts = compare.__name__.startswith("assert")

    @wraps(compare)
    def agree(*args: Any, **kwargs: Any) -> Any:
        if log.total:
            return None if asserts else True
        return compare(*args, **kwargs)

    return agree
