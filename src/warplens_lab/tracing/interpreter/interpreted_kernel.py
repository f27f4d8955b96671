"""What a launch or `warmup` gives back where kernels are interpreted: it stands for the compiled kernel.

It can be launched again, as libraries do that keep compiled kernels, and answers what scripts ask of one: registers,
shared memory, assembly. Such a question compiles the kernel, for the GPU that stands in.
"""

from __future__ import annotations

import subprocess
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from warplens_lab.compiling.toolchain import tool
from warplens_run.base.temporary import temporary_folder

if TYPE_CHECKING:
    from warplens_lab.facts.resources import Resources

_REGISTER_COLUMN: Final = "REG:"
Run = Callable[..., Any]


class InterpretedKernel:
    """`run` launches the function in the interpreter, `compile` gives Triton's compiled kernel."""

    def __init__(self, function: Any, run: Run, compile_: Run, args: tuple[Any, ...], options: Mapping[str, Any]):
        self.__dict__.update(
            _function=function, _run=run, _compile=compile_, _args=args, _options=dict(options), _compiled=None
        )

    @property
    def name(self) -> str:
        return str(self._function.fn.__name__)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def launch(*args: Any, stream: Any = None, **kwargs: Any) -> Any:
            return self._run(self._function, grid=grid, warmup=False, **self._bound(args), **kwargs)

        return launch

    def _bound(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """Arguments by name: all of the kernel's, or without its constants, which are then those of this kernel.

        The order of a compiled kernel's arguments has differed between versions of Triton in just that.
        """
        parameters = list(self._function.params)
        names = [parameter.name for parameter in parameters]
        constants = {parameter.name for parameter in parameters if parameter.is_constexpr}
        own = {**dict(zip(names, self._args, strict=False)), **self._options}
        positional = names if len(args) == len(names) else [name for name in names if name not in constants]
        return {**own, **dict(zip(positional, args, strict=False))}

    def _init_handles(self) -> None:
        """Loads the kernel onto the GPU, of which there is none."""

    @property
    def n_regs(self) -> int:
        return self._resources().registers

    @property
    def n_spills(self) -> int:
        return self._resources().spill_store_bytes // 4

    @property
    def n_max_threads(self) -> int:
        return 1024

    def _resources(self) -> Resources:
        from warplens_lab.facts.resources import from_amdgcn

        assembly = self._kernel().asm
        if "amdgcn" in assembly:
            return from_amdgcn(str(assembly["amdgcn"]))
        return _of_cubin(assembly["cubin"])

    def _kernel(self) -> Any:
        if self._compiled is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the compiler's advice is for those who run what it makes
                compiled = self._compile(self._function, *self._args, grid=(1,), warmup=True, **self._options)
            self.__dict__["_compiled"] = compiled
        return self._compiled

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel(), name)


def _of_cubin(cubin: bytes) -> Resources:
    from warplens_lab.facts.resources import Resources

    program = tool("cuobjdump")
    if program is None:
        return Resources()
    with temporary_folder() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        command = [program, "-res-usage", str(file)]
        text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    counts = [int(word.removeprefix(_REGISTER_COLUMN)) for word in text.split() if word.startswith(_REGISTER_COLUMN)]
    return Resources(max(counts, default=0))
