"""Names for what an iteration does, given to the profiling session and to the shape log alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warplens_run.workloads.shape_log import ShapeLog


class PhaseScopes:
    def __init__(self, log: ShapeLog | None = None) -> None:
        self._log = log

    @contextmanager
    def __call__(self, name: str, **metrics: int) -> Iterator[None]:
        """`with phases("prefill", tokens=128):` around the calls that belong together."""
        from warplens_run.capture import scope

        if self._log is not None:
            self._log.phase = name
        with scope(name, metrics=metrics):
            yield

    @contextmanager
    def forward_pass(self, mark: str) -> Iterator[None]:
        """One pass of a model that generates, marked as serving engines mark theirs."""
        from warplens_run.capture.session import annotated

        with annotated(mark):
            yield

    @contextmanager
    def iteration(self, number: int | None) -> Iterator[None]:
        """One iteration, ended by a step; None is a warm-up, which is named so and not logged."""
        from warplens_run.capture import scope, step

        if self._log is not None:
            self._log.iteration = number
        with scope("warmup" if number is None else "iteration"):
            yield
        step()
