"""The statement of the kernel that an operation belongs to, from the Python frames above it."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType

from warplens_lab.compiling.statements import statement_at
from warplens_lab.tracing.records import Place, Site

OWN_FOLDER = f"{Path(__file__).absolute().parents[1]}{os.sep}"
MOST_HOST_FRAMES = 16


class Sites:
    """Statements run so far. Frames are distinguished by code and instruction: the line is looked up once."""

    def __init__(self, outermost: CodeType) -> None:
        """`outermost` is the interpreter's own function that calls the kernel: frames above it are the host's."""
        self._outermost = outermost
        self._by_frames: dict[tuple[int, ...], int] = {}
        self._sites: list[Site] = []
        self._by_place: dict[tuple[Place, ...], int] = {}
        self._inner: dict[int, bool] = {}
        self._codes: list[CodeType] = []

    def running(self) -> int:
        """Number of the statement that is running; the frames of Triton and of this package are passed over."""
        key: list[int] = []
        frames: list[FrameType] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            inner = self._inner.get(id(code))
            if inner is None:
                inner = self._look_at(code)
            if not inner:
                key += (id(code), frame.f_lasti)
                frames.append(frame)
            elif code is self._outermost:
                break
            frame = frame.f_back
        number = self._by_frames.get(tuple(key))
        if number is None:
            number = self._by_frames[tuple(key)] = self._add(frames)
        return number

    def all(self) -> tuple[Site, ...]:
        return tuple(self._sites)

    def site(self, number: int) -> Site:
        return self._sites[number]

    def line(self, number: int) -> int:
        return self._sites[number].line

    def _look_at(self, code: CodeType) -> bool:
        self._codes.append(code)  # keeps its id from being given to another
        inner = self._inner[id(code)] = is_inner_file(code.co_filename)
        return inner

    def _add(self, frames: list[FrameType]) -> int:
        path = tuple(source_line_of(frame) for frame in reversed(frames))
        number = self._by_place.get(path)
        if number is None:
            file, line, function = path[-1] if path else ("", 0, "")
            number = self._by_place[path] = len(self._sites)
            self._sites.append(Site(file, line, function, statement_at(file, line), path))
        return number


def source_line_of(frame: FrameType) -> Place:
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def host_path() -> tuple[Place, ...]:
    """Where the launch was made: the innermost calls, the outer one first."""
    calls: list[Place] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(calls) < MOST_HOST_FRAMES:
        if not is_inner_file(frame.f_code.co_filename):
            calls.append(source_line_of(frame))
        frame = frame.f_back
    return tuple(reversed(calls))


def is_inner_file(file: str) -> bool:
    """Whether a file is Triton's, NumPy's or this package's."""
    return file.startswith((OWN_FOLDER, *_triton_folders()))


@lru_cache(maxsize=1)
def _triton_folders() -> tuple[str, ...]:
    import numpy
    import triton

    return tuple(os.path.dirname(os.path.abspath(str(module.__file__))) + os.sep for module in (triton, numpy))  # noqa: PTH100, PTH120
