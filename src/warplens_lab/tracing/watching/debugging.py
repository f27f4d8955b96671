"""Stop in chosen programs: a debugger opens at the first line of the kernel in each of them."""

from __future__ import annotations

import pdb
import sys
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import IO, Any

Program = tuple[int, int, int]


class ProgramDebugger:
    """Opens pdb when one of `programs` starts. `continue` goes on to the next of them, `quit` ends the launch.

    In the debugger a tensor of the kernel prints as its values (`p x`, `p x.handle.data.max()`).
    """

    def __init__(
        self, programs: Iterable[tuple[int, ...]], stdin: IO[str] | None = None, stdout: IO[str] | None = None
    ) -> None:
        self.programs = frozenset(padded(program) for program in programs)
        self._streams: dict[str, Any] = {"stdin": stdin, "stdout": stdout} if stdin or stdout else {}
        self._debugger: pdb.Pdb | None = None

    def begin_program(self, program: Program, kernel: CodeType) -> None:
        if program not in self.programs:
            return
        self._debugger = pdb.Pdb(nosigint=True, **self._streams)
        self._debugger.use_rawinput = not self._streams
        self._debugger.prompt = f"(program {', '.join(map(str, program))}) "
        sys.settrace(self._waiting_for(kernel, self._debugger))

    def end(self) -> None:
        if self._debugger is not None:
            sys.settrace(None)
            self._debugger = None

    def _waiting_for(self, kernel: CodeType, debugger: pdb.Pdb) -> Any:
        def on_call(frame: FrameType, event: str, argument: Any) -> Any:
            if event != "call" or frame.f_code is not kernel:
                return None
            debugger.reset()
            debugger.botframe = frame
            debugger.set_step()
            sys.settrace(debugger.trace_dispatch)
            return debugger.trace_dispatch(frame, event, argument)

        return on_call


def padded(program: tuple[int, ...]) -> Program:
    """Program ids of one to three dimensions as three.

    >>> padded((3,)), padded((1, 2))
    ((3, 0, 0), (1, 2, 0))
    """
    x, y, z = (*program, 0, 0)[:3]
    return int(x), int(y), int(z)
