"""One launch from call to record: its arguments are found, its programs watched, its results put together."""

from __future__ import annotations

import inspect
import random
from bdb import BdbQuit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from traceback import walk_tb
from typing import Any

import numpy as np

from warplens_lab.compiling.statements import statement_at
from warplens_lab.tracing.interpreter.routing import one_launch
from warplens_lab.tracing.interpreter.taps import Taps, tagged
from warplens_lab.tracing.records import Array, KeptValues, TracedLaunch
from warplens_lab.tracing.watching.debugging import ProgramDebugger
from warplens_lab.tracing.watching.exposed import ExposedTensors
from warplens_lab.tracing.watching.faults import KernelFault, program_text
from warplens_lab.tracing.watching.judging import lost_bits
from warplens_lab.tracing.watching.recorder import Recorder, RecordingOptions
from warplens_lab.tracing.watching.sites import host_path, is_inner_file
from warplens_lab.tracing.watching.undefined import UndefinedMemory

BITS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}


class LaunchTrace:
    """Stands in for the executor's call while one launch runs."""

    def __init__(
        self,
        interpreter: Any,
        options: RecordingOptions,
        index: int,
        undefined: UndefinedMemory,
        debugger: ProgramDebugger | None,
        exposed: ExposedTensors,
    ) -> None:
        self.exposed = exposed
        self.interpreter = interpreter
        self.options = options
        self.index = index
        self.undefined = undefined
        self.debugger = debugger
        self.launch: TracedLaunch | None = None
        self.program: tuple[int, int, int] | None = None
        self.before: tuple[Array, ...] = ()
        self._numbers: dict[int, int] = {}
        self._callers: dict[int, tuple[int, Any]] = {}

    def run(self, call: Callable[..., Any], executor: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.recorder = Recorder(self.options, call.__code__)
        self.kernel = executor.fn
        self.constants: dict[str, str] = {}
        taps = Taps(self.interpreter, self.recorder, self._owner_of)
        path = host_path()
        try:
            with self.undefined.pausing(), one_launch(self.interpreter), self._watching(executor):
                taps.install()
                try:
                    self._called(call, executor, args, kwargs)
                finally:
                    taps.remove()
        finally:
            self.recorder.memory.write_back_undefined(whole=self.recorder.chosen is None)
            self.launch = self._finish(path)

    def _called(self, call: Callable[..., Any], executor: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Runs the launch; a fault or a debugger's exit comes out as itself, any other error with its statement."""
        error_type = self.interpreter.InterpreterError
        try:
            call(executor, *args, **kwargs)
        except error_type as error:
            cause: BaseException = error
            while isinstance(cause, error_type) and cause.__cause__ is not None:
                cause = cause.__cause__
            if isinstance(cause, KernelFault | BdbQuit):
                raise cause from None
            raise error_type(self._error_text(cause)) from cause

    def _error_text(self, cause: BaseException) -> str:
        """The error with the program and the innermost statement of the kernel that it came from."""
        text = f"{program_text(self.recorder.program)}: {self._reason(cause)}"
        frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(cause.__traceback__)]
        own = [frame_line for frame_line in frames if not is_inner_file(frame_line[0])]
        file, line = own[-1] if own else ("", 0)
        return f"{text}\n  {file}:{line}: {statement_at(file, line)}" if own else text

    def _reason(self, cause: BaseException) -> str:
        if isinstance(cause, AttributeError) and cause.obj is self.interpreter.interpreter_builder:
            import triton

            return f"Triton {triton.__version__}'s interpreter has no {cause.name}, which this statement needs"
        return f"{type(cause).__name__}: {cause}"

    @contextmanager
    def _watching(self, executor: Any) -> Iterator[None]:
        """Observes the arguments once they are on the host, each conversion to a pointer, and each program."""
        builder, interpreter = self.interpreter.interpreter_builder, self.interpreter
        to_host, convert = executor._init_args_hst, interpreter._implicit_cvt
        set_dim, set_index = builder.set_grid_dim, builder.set_grid_idx
        options = builder.options

        def init_args_hst(*args: Any, **kwargs: Any) -> Any:
            result = to_host(*args, **kwargs)
            self._callers.update(_callers_storages(list(args), list(result)))
            self._learn_arguments(executor, *result)
            return result

        def implicit_cvt(argument: Any) -> Any:
            converted = convert(argument)
            number = self._numbers.get(id(argument))
            if number is not None:
                converted.handle.dtype = tagged(converted.handle.dtype, number)
            return converted

        def set_grid_dim(x: int, y: int, z: int) -> None:
            self.recorder.grid = (int(x), int(y), int(z))
            self.recorder.chosen = sampled(self.options, self.index, int(x) * int(y) * int(z))
            set_dim(x, y, z)

        def set_grid_idx(x: int, y: int, z: int) -> None:
            set_index(x, y, z)
            self.program = (x, y, z)
            self.recorder.begin_program(x, y, z)
            if self.debugger is not None:
                self.debugger.begin_program((x, y, z), self.kernel.__code__)

        executor._init_args_hst = init_args_hst
        interpreter._implicit_cvt = implicit_cvt
        builder.set_grid_dim, builder.set_grid_idx = set_grid_dim, set_grid_idx
        if self.options.checks and hasattr(options, "debug"):
            builder.options = replace(options, debug=True)  # else device_assert does nothing
        try:
            yield
        finally:
            builder.options = options
            del builder.set_grid_dim, builder.set_grid_idx
            interpreter._implicit_cvt = convert
            if self.debugger is not None:
                self.debugger.end()

    def _learn_arguments(self, executor: Any, args: Any, kwargs: Any) -> None:
        self._alive_arguments = (args, kwargs)  # their ids must not be reused while the launch runs
        for name, value in inspect.getcallargs(executor.fn, *args, **kwargs).items():
            self._learn(name, value)
        self.recorder.memory.close()
        self.before = self._tensor_values()

    def _learn(self, name: str, value: Any) -> None:
        if isinstance(value, tuple):
            for position, part in enumerate(value):
                self._learn(f"{name}[{position}]", part)
        elif hasattr(value, "block_shape") and hasattr(value, "base"):
            self._learn(name, value.base)
        elif hasattr(value, "data_ptr"):
            tensor = self.interpreter._unwrap_tensor(value)
            undefined = self.undefined.flags(tensor.untyped_storage())
            identity = self._callers.get(id(value))
            self._numbers[id(value)] = self.recorder.memory.add(name, tensor, undefined, identity)
        else:
            self.constants[name] = str(value)

    def _owner_of(self, address: int) -> int | None:
        """The tensor that an address found in memory leads to: an argument, or one that the script gave away so."""
        memory = self.recorder.memory
        number, storage = memory.owner(None, address)
        if storage is not None:
            return number
        found = self.exposed.at(address)
        if found is None:
            return None
        name, tensor = found
        number = memory.add(name, tensor, self.undefined.flags(tensor.untyped_storage()))
        memory.close()
        if self.options.values:
            self.before = (*self.before, _bits(tensor))
        return number

    def _tensor_values(self) -> tuple[Array, ...]:
        if not self.options.values:
            return ()
        return tuple(_bits(tensor) for tensor in self.recorder.memory.host_tensors)

    def _finish(self, path: Any) -> TracedLaunch:
        recorder, code = self.recorder, self.kernel.__code__
        sites = recorder.sites.all()
        lost = lost_bits(recorder.numbers, [site.line for site in sites], narrow=recorder.narrow_growth)
        keep = self.options.mode == "record"
        values = KeptValues(tuple(recorder.values), self.before, self._tensor_values()) if self.options.values else None
        return TracedLaunch(
            index=self.index,
            kernel=self.kernel.__name__,
            file=code.co_filename,
            line=code.co_firstlineno,
            grid=recorder.grid,
            traced_programs=recorder.traced_programs,
            constants=tuple(self.constants.items()),
            called_from=path,
            tensors=tuple(recorder.memory.tensors),
            sites=sites,
            accesses=recorder.totals(),
            elementwise_flop=recorder.elementwise_flop,
            reuse=recorder.memory.reuse() if self.options.checks else (),
            faults=(*recorder.faults.all(), *lost),
            numbers=recorder.numbers,
            ordered_by_atomics=recorder.ordered_by_atomics,
            patterns=tuple(recorder.book.patterns) if keep else (),
            masks=tuple(recorder.book.masks) if keep else (),
            events=recorder.events(),
            values=values,
        )


def sampled(options: RecordingOptions, launch: int, programs: int) -> frozenset[int] | None:
    """Programs to trace: all (None), that many, or that share of them, at least one. The same for the same seed.

    >>> some, share = (RecordingOptions(sample=sample, seed=1) for sample in (3, 0.03))
    >>> sampled(some, 0, 100) == sampled(share, 0, 100)
    True
    """
    if options.sample is None:
        return None
    count = options.sample if options.sample >= 1 else max(1, round(options.sample * programs))
    chosen = random.Random(f"{options.seed}:{launch}").sample(range(programs), min(int(count), programs))
    return frozenset(chosen)


def _callers_storages(given: Any, on_host: Any) -> Iterator[tuple[int, tuple[int, Any]]]:
    """By the id of each host tensor: address and weak reference of the storage it stands for."""
    from torch.multiprocessing.reductions import StorageWeakRef

    if isinstance(given, dict):
        given, on_host = list(given.values()), list(on_host.values())
    if isinstance(given, list | tuple):
        for own, copied in zip(given, on_host, strict=True):
            yield from _callers_storages(own, copied)
    elif hasattr(given, "block_shape") and hasattr(given, "base"):
        yield from _callers_storages(given.base, on_host.base)
    elif hasattr(given, "data_ptr"):
        storage = getattr(given, "base", given).untyped_storage()
        yield id(on_host), (storage.data_ptr(), StorageWeakRef(storage))


def _bits(tensor: Any) -> Array:
    """The tensor's bytes as numbers NumPy has: bfloat16 and float8 as unsigned integers of their size."""
    import torch

    whole = tensor.detach().contiguous()
    try:
        return np.array(whole.numpy())
    except TypeError:
        return np.array(whole.view(getattr(torch, BITS[whole.element_size()])).numpy())
