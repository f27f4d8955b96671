"""Runs a user's script in a process of its own, on CPU tensors through Triton's interpreter, and notes each launch.

Standard library, msgspec, Triton and whatever the script imports. Takes a request and leaves an answer.
"""

from __future__ import annotations

import inspect
import runpy
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from warplens.kernel_lab.compiling.gpu_stand_in import gpu_stand_in
from warplens.kernel_lab.compiling.plain_values import is_plain, plain_value
from warplens.kernel_lab.compiling.records import (
    LaunchArgument,
    ScriptAnswer,
    ScriptFailure,
    ScriptLaunchRecord,
    ScriptRequest,
    read_record,
    write_record,
)
from warplens.kernel_lab.compiling.signature import CONSTEXPR, DIVISOR, KernelArgument
from warplens.kernel_lab.compiling.specialising import DTYPES, number_argument
from warplens.kernel_lab.compiling.stand_in_driver import GpuRequest
from warplens.kernel_lab.tracing.interpreter.arithmetic import put_right
from warplens.kernel_lab.tracing.interpreter.libdevice import libdevice_runs
from warplens.kernel_lab.tracing.interpreter.repairs import repairs, without_gluon
from warplens.kernel_lab.tracing.watching.script import failure_of


def main(request_path: str) -> int:
    request = read_record(Path(request_path), ScriptRequest)
    launches: list[ScriptLaunchRecord] = []
    notes: list[str] = []
    _record_launches(launches, notes, request.execute)
    failure: ScriptFailure | None = None
    script = Path(request.script)
    sys.argv = [str(script), *request.arguments]
    sys.path.insert(0, str(script.parent))
    gpu_request = GpuRequest(script)
    try:
        with gpu_stand_in(script) as gpu_request, libdevice_runs():
            runpy.run_path(str(script), run_name="__main__")
    except SystemExit as error:
        if error.code not in (None, 0):
            message = f"the script ended with {error.code!r}"
            failure = ScriptFailure(f"{script.name}: {message}", message, None, may_want_gpu=True)
    except BaseException as error:  # noqa: BLE001 - whatever the script raises is part of the answer
        failure = failure_of(error, script, gpu_request)
    answer = ScriptAnswer(tuple(launches), tuple(dict.fromkeys(notes)), failure, gpu_request.happened, gpu_request.line)
    write_record(Path(request.answer), answer)
    return 0


def _record_launches(launches: list[ScriptLaunchRecord], notes: list[str], execute: bool) -> None:
    import triton
    from triton.runtime import interpreter
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    original = interpreter.InterpretedFunction.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not kwargs.get("warmup"):
            launches.append(_launch(self, args, kwargs))
        if not execute:
            return None
        with _plain_torch():
            return original(self, *args, **kwargs)

    def first_config(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Nothing can be timed here, so the first config stands for all."""
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        config = (self.prune_configs(kwargs) or self.configs)[0]
        # Pruning may leave the first one out.
        chosen = "the first" if config is self.configs[0] else "one"
        notes.append(f"{self.base_fn.__name__}: {chosen} of {len(self.configs)} configs of its autotune")
        self.best_config = config
        if config.pre_hook is not None:
            config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
        return self.fn.run(*args, **kwargs, **config.all_kwargs())

    interpreter.InterpretedFunction.run = run
    for owner, name, value in repairs(interpreter, triton.__version__):
        setattr(owner, name, value)
    Autotuner.run = first_config
    JITFunction.run = without_gluon(JITFunction.run)
    put_right(interpreter)


def _plain_torch() -> Any:
    """The interpreter's own work on tensors is not the script's: it is left as it is."""
    try:
        import torch
    except ImportError:
        return nullcontext()
    return torch._C.DisableTorchFunction()


def _launch(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ScriptLaunchRecord:
    signature = inspect.signature(function.fn)
    named = {name: value for name, value in kwargs.items() if name in signature.parameters}
    inspect.getcallargs(function.fn, *args, **named)  # raises what the launch itself would where one is missing
    bound = signature.bind_partial(*args, **named)
    bound.apply_defaults()
    values = bound.arguments
    plain = set(_plain_names(function, list(signature.parameters)))
    arguments = [
        _argument(name, values.get(name), "constexpr" in str(parameter.annotation), name not in plain)
        for name, parameter in signature.parameters.items()
    ]
    options = {name: kwargs[name] for name in kwargs if name not in named and isinstance(kwargs[name], int)}
    return ScriptLaunchRecord(
        str(Path(function.fn.__code__.co_filename).resolve()),
        function.fn.__qualname__,
        tuple(arguments),
        _grid(kwargs.get("grid"), values),
        tuple(sorted((name, value) for name, value in options.items() if name != "warmup")),
    )


def _plain_names(function: Any, names: list[str]) -> list[str]:
    """Parameters that the kernel's decorator says are not to be specialised."""
    entries = getattr(function, "kwargs", {}).get("do_not_specialize") or []
    return [names[entry] if isinstance(entry, int) else str(entry) for entry in entries]


def _grid(grid: Any, values: dict[str, Any]) -> tuple[int, ...]:
    extents = grid(values) if callable(grid) else grid
    return tuple(int(extent) for extent in (extents if isinstance(extents, (tuple, list)) else [extents]))


def _argument(name: str, value: Any, is_constexpr: bool, specialised: bool) -> LaunchArgument:
    """As Triton's just-in-time compiler would specialise it."""
    if is_constexpr or value is None:
        if not is_plain(value):
            return LaunchArgument(KernelArgument(name, CONSTEXPR), type(getattr(value, "value", value)).__name__)
        return LaunchArgument(KernelArgument(name, CONSTEXPR, plain_value(value)))
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        dtype = DTYPES.get(str(value.dtype).rpartition(".")[2])
        if dtype is None:
            return LaunchArgument(KernelArgument(name, CONSTEXPR), str(value.dtype))
        is_divisible = specialised and value.data_ptr() % DIVISOR == 0
        return LaunchArgument(KernelArgument(name, f"*{dtype}", divisible=is_divisible))
    if hasattr(value, "block_shape") and hasattr(value, "base"):
        dtype = DTYPES.get(str(value.base.dtype).rpartition(".")[2], "?")
        return LaunchArgument(KernelArgument(name, f"tensordesc<{dtype}[{','.join(map(str, value.block_shape))}]>"))
    number = number_argument(name, value, specialised=specialised)
    return LaunchArgument(number or KernelArgument(name, CONSTEXPR), "" if number else type(value).__name__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
