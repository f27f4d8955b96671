"""What a launch gives back where nothing is launched: Triton's compiled kernel, compiled when a script looks at it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from warplens_lab.compiling.compiler_repairs import skip_hash_of_compiler
from warplens_lab.compiling.records import ScriptLaunchRecord
from warplens_lab.compiling.toolchain import source_of, tool
from warplens_run.base.temporary import temporary_folder

_USAGE: Final = re.compile(r"REG:(\d+) STACK:(\d+)")
THREADS: Final = 1024


class StandInKernel:
    """A script may launch it again, and look at its code, registers and shared memory, to choose a grid for example."""

    n_max_threads = THREADS

    def __init__(
        self,
        function: Any,
        bound: dict[str, Any],
        record: ScriptLaunchRecord,
        launched: Callable[[ScriptLaunchRecord], None],
    ) -> None:
        self.function = function
        self.name = function.fn.__name__
        self._bound = bound
        self._record = record
        self._launched = launched

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        sides = tuple(int(side) for side in (grid if isinstance(grid, (tuple, list)) else (grid,)))

        def launch(*args: Any, **kwargs: Any) -> None:
            self._launched(replace(self._record, grid=sides, is_warmup=False))

        return launch

    def run(self, x: int, y: int, z: int, *args: Any, **kwargs: Any) -> None:
        self[(x, y, z)]()

    def launch_metadata(self, *args: Any, **kwargs: Any) -> None:
        return None

    def _init_handles(self) -> None:
        return None

    def result(self) -> StandInKernel:
        return self

    @cached_property
    def _compiled(self) -> Any:
        import triton
        from triton.runtime.driver import driver

        skip_hash_of_compiler()
        arguments = [argument.argument for argument in self._record.arguments]
        source = source_of(self.function, arguments)
        return triton.compile(source, target=driver.active.get_current_target(), options=dict(self._record.options))

    @property
    def asm(self) -> Any:
        return self._compiled.asm

    @property
    def metadata(self) -> Any:
        return self._compiled.metadata

    @property
    def packed_metadata(self) -> Any:
        return getattr(self._compiled, "packed_metadata", ())

    @property
    def src(self) -> Any:
        return self._compiled.src

    @cached_property
    def _usage(self) -> tuple[int, int]:
        """Registers and bytes of local memory of a thread."""
        program, binary = tool("cuobjdump"), self.asm.get("cubin")
        if program is None or binary is None:
            return 0, 0
        with temporary_folder() as folder:
            (Path(folder) / "cubin").write_bytes(binary)
            command = [program, "-res-usage", str(Path(folder) / "cubin")]
            match = _USAGE.search(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
        return (int(match[1]), int(match[2])) if match else (0, 0)

    @property
    def n_regs(self) -> int:
        return self._usage[0]

    @property
    def n_spills(self) -> int:
        return self._usage[1] // 4
