"""Benchmarks of a script that is traced: the interpreter's times say nothing, so they are omitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from warplens_lab.compiling.changing import changed

OMITTED: Final = "the benchmark {} is not run: nothing is timed here"
ONE_SIZE: Final = "the benchmark {} runs with its first size only: nothing is timed here"


@contextmanager
def benchmarks_omitted(has_launched: Callable[[], bool], note: Callable[[str], None]) -> Iterator[None]:
    """Of `triton.testing.perf_report`; one that shows the first launch of the script runs with one size."""
    import triton.testing

    def run(self: Any, *args: Any, **kwargs: Any) -> None:
        benchmarks = self.benchmarks if isinstance(self.benchmarks, list | tuple) else [self.benchmarks]
        for benchmark in benchmarks:
            if has_launched():
                note(OMITTED.format(benchmark.plot_name))
            else:
                note(ONE_SIZE.format(benchmark.plot_name))
                _run_once(self.fn, benchmark)

    with changed((triton.testing.Mark, "run", run)):
        yield


def _run_once(function: Callable[..., Any], benchmark: Any) -> None:
    first = next(iter(benchmark.x_vals))
    sizes = first if isinstance(first, list | tuple) else [first] * len(benchmark.x_names)
    for line in benchmark.line_vals:
        function(**dict(zip(benchmark.x_names, sizes, strict=True)), **{benchmark.line_arg: line}, **benchmark.args)
