"""Notes what a script launches instead of launching it, as Triton's own just-in-time compiler would specialise it.

Triton binds and specialises the arguments itself, for the GPU that stands in where there is none, so whatever it takes
is taken here: tuples, descriptors, layouts of Gluon, functions. Nothing is computed: results stay as they were.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from warplens_lab.compiling.changing import changed
from warplens_lab.compiling.describing import (
    constant,
    def_line,
    described_config,
    described_parameters,
    is_option,
)
from warplens_lab.compiling.plain_values import is_plain, plain_value
from warplens_lab.compiling.records import LaunchArgument, LaunchedKernel, OptionValue, ScriptLaunchRecord
from warplens_lab.compiling.signature import CONSTEXPR, TUPLE, KernelArgument
from warplens_lab.compiling.stand_in_kernel import StandInKernel
from warplens_lab.compiling.triton_version import FORKED

NOT_OPTIONS: Final = ("warmup", "grid", "debug", "instrumentation_mode", "fpsan_homomorphic_casts", "device", "stream")
"""Keywords of every launch."""
MOST_CAPTURED: Final = 200


@dataclass
class LaunchLog:
    """Each way of launching once, with how often; `after_each` may end the script."""

    ways: dict[bytes, tuple[ScriptLaunchRecord, int]] = field(default_factory=dict)
    """By their bytes: True, 1 and 1.0 are equal, and compiled differently."""
    notes: dict[str, None] = field(default_factory=dict)
    functions: dict[tuple[str, str, str], Any] = field(default_factory=dict)
    """By file, qualified name and what they capture: the kernels that were launched."""
    known: set[tuple[str, str]] = field(default_factory=set)
    """Kernels that were launched outside of benchmarks."""
    kernels: dict[tuple[int, bool], tuple[Any, LaunchedKernel]] = field(default_factory=dict)
    """What is known of each kernel already, with its function, which keeps the number its own."""
    benchmarks: int = 0
    """The benchmarks that run now, one inside another."""
    total: int = 0
    after_each: Callable[[LaunchLog], None] = lambda log: None

    def add(self, record: ScriptLaunchRecord, function: Any) -> None:
        kernel = (record.kernel.file, record.kernel.name)
        if self.benchmarks and kernel in self.known:
            return
        if not self.benchmarks:
            self.known.add(kernel)
        self.functions.setdefault((*kernel, record.kernel.captured or ""), function)
        encoded = msgspec.msgpack.encode(record)
        self.ways[encoded] = (record, self.ways.get(encoded, (record, 0))[1] + 1)
        self.total += 1
        self.after_each(self)


@contextmanager
def launches_noted(log: LaunchLog) -> Iterator[None]:
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    tuning = _Tuning(log)

    def run(self: Any, *args: Any, grid: Any = None, warmup: bool = False, **kwargs: Any) -> Any:
        for hook in getattr(self, "pre_run_hooks", ()):
            hook(*args, **kwargs)
        return _noted(self, args, kwargs, grid, bool(warmup), log, tuning)

    def run_interpreted(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Of a script that switches the interpreter on: the same kernel, compiled."""
        given = {name: value for name, value in self.kwargs.items() if name != "interpret"}
        return run(JITFunction(self.fn, **given), *args, **kwargs)

    with changed(
        (JITFunction, "run", run),
        (InterpretedFunction, "run", run_interpreted),
        *((kind, "run", tuning.run) for kind in (Autotuner, *_kinds_of(Autotuner)) if "run" in vars(kind)),
        (Autotuner, "__init_subclass__", classmethod(tuning.take_over)),
    ):
        yield


def _kinds_of(kind: Any) -> Iterator[Any]:
    """The classes that are derived from it already, by libraries that were imported before."""
    for derived in kind.__subclasses__():
        yield derived
        yield from _kinds_of(derived)


class _Tuning:
    """Nothing can be timed here, so the first config stands for all; of a library's own tuner, too."""

    def __init__(self, log: LaunchLog) -> None:
        self.log = log
        self.open: list[Any] = []
        self.run = self._runner()

    def _runner(self) -> Callable[..., Any]:
        tuning = self

        def first_config(self: Any, *args: Any, **kwargs: Any) -> Any:
            self.nargs = dict(zip(self.arg_names, args, strict=False))
            config = (list(self.prune_configs(kwargs)) or self.configs)[0]
            # Pruning may leave the first one out.
            chosen = "the first" if config is self.configs[0] else "one"
            if len(self.configs) > 1:
                text = f"{self.base_fn.__name__}: {chosen} of {len(self.configs)} configs of its autotune"
                tuning.log.notes[text] = None
            self.best_config = config
            if config.pre_hook is not None:
                config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
            tuning.open.append(self)
            try:
                return self.fn.run(*args, **kwargs, **config.all_kwargs())
            finally:
                tuning.open.pop()

        return first_config

    def take_over(self, kind: Any, /, **kwargs: Any) -> None:
        if "run" in vars(kind):
            kind.run = self.run


def _noted(
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    grid: Any,
    warmup: bool,
    log: LaunchLog,
    tuning: _Tuning,
) -> Any:
    _refuse_forked(kwargs, function.arg_names)
    named = {name: value for name, value in kwargs.items() if name in function.arg_names}
    inspect.getcallargs(function.fn, *args, **named)  # raises what the launch itself would where one is missing
    binder = function.device_caches[_device()][-1]
    bound, specialisation, _ = binder(*args, **{**kwargs, **_added(function, kwargs)})
    arguments = tuple(
        _argument(parameter.name, *_pair(special), value, function.fn, parameter.is_constexpr)
        for parameter, special, value in zip(function.params, specialisation, bound.values(), strict=False)
    )
    record = ScriptLaunchRecord(
        _known_kernel(function, tuning), arguments, _grid(grid, dict(bound), warmup), _options(kwargs), warmup
    )
    log.add(record, function)
    return StandInKernel(function, dict(bound), record, lambda again: log.add(again, function))


def _device() -> Any:
    from triton.runtime.driver import driver

    return driver.active.get_current_device()


def _added(function: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """What Triton's own launch adds to the options."""
    return {"debug": bool(kwargs.get("debug", getattr(function, "debug", False)))}


def _pair(special: Any) -> tuple[Any, Any]:
    return (special[0], special[1]) if isinstance(special, (tuple, list)) and len(special) == 2 else (special, None)


def _argument(name: str, kind: Any, key: Any, value: Any, function: Any, is_constexpr: bool) -> LaunchArgument:
    if isinstance(kind, tuple):
        keys = key if isinstance(key, tuple) else (None,) * len(kind)
        parts = [
            _argument(f"{name}[{at}]", *part, function, False)
            for at, part in enumerate(zip(kind, keys, value, strict=False))
        ]
        unknown = next((part.unknown for part in parts if part.unknown), "")
        return LaunchArgument(KernelArgument(name, TUPLE, items=tuple(part.argument for part in parts)), unknown)
    if kind != CONSTEXPR:
        return LaunchArgument(KernelArgument(name, str(kind), divisible="D" in str(key or "")))
    if not is_constexpr and value is not None and isinstance(value, int) and value == 1:
        return LaunchArgument(KernelArgument(name, "i32", is_one=True))
    written = constant(value, function)
    is_known = written is not None or is_plain(value)
    return LaunchArgument(KernelArgument(name, CONSTEXPR, written), "" if is_known else _kind_of(value))


def _kind_of(value: Any) -> str:
    return type(getattr(value, "value", value)).__name__


def _known_kernel(function: Any, tuning: _Tuning) -> LaunchedKernel:
    key, kernels = (id(function), bool(tuning.open)), tuning.log.kernels
    if key not in kernels:
        kernels[key] = function, _kernel(function, tuning.open)
    return kernels[key][1]


def _kernel(function: Any, tuners: list[Any]) -> LaunchedKernel:
    own = function.fn
    captured = inspect.getclosurevars(own).nonlocals if "<locals>" in own.__qualname__ else None
    configs = [config for tuner in tuners for config in tuner.configs if tuner.base_fn is own]
    return LaunchedKernel(
        str(Path(own.__code__.co_filename).resolve()),
        own.__qualname__,
        described_parameters(function),
        def_line(own),
        tuple(described_config(config, function) for config in configs),
        captured=None if captured is None else captured_text(captured),
    )


def captured_text(captured: Mapping[str, Any]) -> str:
    """What tells two kernels of one function apart; objects are the same wherever their address is."""
    plain = {
        name: plain_value(value) if is_plain(value) else type(value).__name__
        for name, value in sorted(captured.items())
    }
    return ", ".join(f"{name}={value}" for name, value in plain.items())[:MOST_CAPTURED]


def _refuse_forked(kwargs: dict[str, Any], parameters: list[str]) -> None:
    """Raises what the launch itself would for options of other versions, which a config may have among its values."""
    from warplens_lab.compiling.triton_options import is_option_name

    for name in FORKED:
        if name in kwargs and name not in parameters and not is_option_name(name):
            raise KeyError(f"Keyword argument {name} was specified but unrecognised")


def _options(kwargs: dict[str, Any]) -> tuple[tuple[str, OptionValue], ...]:
    from warplens_lab.compiling.triton_options import is_option_name

    given = {name: value for name, value in kwargs.items() if is_option_name(name) and is_option(value)}
    return tuple(sorted((name, value) for name, value in given.items() if name not in NOT_OPTIONS))


def _grid(grid: Any, bound: dict[str, Any], warmup: bool) -> tuple[int, ...]:
    if warmup or grid is None:
        return ()
    extents = grid(bound) if callable(grid) else grid
    return tuple(int(extent) for extent in (extents if isinstance(extents, (tuple, list)) else [extents]))
