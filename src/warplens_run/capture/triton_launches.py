"""Launches of Triton kernels that the program makes itself, with their arguments, so that a replay can repeat them.

PyTorch's profiler sees such a kernel run and nothing of what it was given. Triton asks the compiled kernel for the
metadata of each launch and passes it the grid and every argument; that is where this looks. A launch that is known
costs one lookup and one entry in the order of launches (about a microsecond); a new one is described once. Sources are
written out when the recording has ended.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

from warplens_run.capture.triton_arguments import ArgumentWriter
from warplens_run.capture.triton_source import NotWritable, module_text
from warplens_run.capture.triton_tuning import timed_configs
from warplens_run.formats import bundle_files

MOST_VARIANTS: Final = 64
"""Of one kernel with one grid: a value that changes with every launch, a seed or a step, must not fill the memory."""
MOST_LAUNCHES: Final = 4096
"""Of one kernel, with all its grids."""
GENERATED: Final = ("torch._inductor", "torchinductor")
"""In the names of modules of kernels that Inductor writes, which it launches in ops of their own."""
CONFIG: Final = ("num_warps", "num_stages", "num_ctas")
NOT_OPTIONS: Final = ("debug", "instrumentation_mode", "fpsan_homomorphic_casts")
"""Triton adds these to every launch."""
ALL_WARPS: Final = "ttg.total-num-warps"
UNKNOWN: Final = -1


@dataclass(frozen=True)
class _SeenLaunch:
    kernel: Any
    grid: tuple[int, ...]
    arguments: list[dict[str, Any]]


@dataclass
class LaunchRecorder:
    """`is_measuring` says whether what is launched now is in the trace.

    `captured` is where launches go that run only when the graph is replayed that is being captured now, if one is.
    """

    is_measuring: Callable[[], bool]
    captured: Callable[[], list[int] | None] = lambda: None
    order: list[int] = field(default_factory=list)
    """The launches that are in the trace, each by its place in `launches`, -1 for one that is not described."""
    launches: list[_SeenLaunch] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _known: dict[Any, tuple[Callable[[tuple[Any, ...]], Any], Any]] = field(default_factory=dict)
    """By compiled kernel: what takes the numbers out of its arguments, and its launches by grid and numbers."""
    _variants: dict[tuple[Any, ...], list[int]] = field(default_factory=dict)
    _class: Any = None
    _before: Any = None
    _wrapper: Any = None

    def install(self) -> None:
        kernel_class = _compiled_kernel()
        if kernel_class is None or self._wrapper is not None:
            return
        self._class, self._before = kernel_class, kernel_class.launch_metadata
        self._wrapper = self._wrapped(self._before)
        kernel_class.launch_metadata = self._wrapper

    def remove(self) -> None:
        # What was put on top of it since keeps it, and it stays silent.
        if self._wrapper is not None and self._class.launch_metadata is self._wrapper:
            self._class.launch_metadata = self._before
        self._wrapper = None

    def _wrapped(self, before: Callable[..., Any]) -> Callable[..., Any]:
        known, order, is_measuring, learn = self._known, self.order, self.is_measuring, self._learn

        def launch_metadata(kernel: Any, grid: Any, stream: Any, *args: Any) -> Any:
            try:
                # Two products with outputs of one size have one grid, and different inner sizes.
                numbers, launches = known[kernel]
                index = launches.get((grid, numbers(args)))
            except (KeyError, TypeError):  # a new kernel; a grid that is a list
                index = None
            if index is None:
                index = learn(launch_metadata, kernel, grid, args)
            if self._wrapper is launch_metadata:
                held = self.captured()
                if held is not None:
                    held.append(index)
                elif is_measuring():
                    order.append(index)
            return before(kernel, grid, stream, *args)

        return launch_metadata

    def _learn(self, wrapper: Any, kernel: Any, grid: Any, args: tuple[Any, ...]) -> int:
        """The number of a launch that has no entry in the quick table; nothing here may end the program."""
        if wrapper is not self._wrapper:
            return UNKNOWN
        try:
            if kernel not in self._known:
                self._known[kernel] = _numbers(args), {} if not _is_generated(kernel) else _NoLaunches()
            numbers, launches = self._known[kernel]
            sides = tuple(int(side) for side in grid)
            index: int | None = launches.get((sides, numbers(args)))
            return self._describe(launches, (sides, numbers(args)), kernel, args) if index is None else index
        except Exception as error:  # noqa: BLE001 - arguments may be anything, and this is the program's own launch
            if not self.notes:
                self.notes.append(f"a launch of a Triton kernel is not described: {type(error).__name__}: {error}")
            return UNKNOWN

    def _describe(self, launches: dict[Any, int], key: tuple[Any, Any], kernel: Any, args: tuple[Any, ...]) -> int:
        grid = key[0]
        variants = self._variants.setdefault((kernel, grid), [])
        if len(variants) >= MOST_VARIANTS:
            return variants[-1]
        if len(launches) >= MOST_LAUNCHES:
            return UNKNOWN
        writer = ArgumentWriter(may_read=not self.is_measuring() and _may_wait())
        self.launches.append(_SeenLaunch(kernel, grid, writer.written(args)))
        launches[key] = len(self.launches) - 1
        variants.append(launches[key])
        return launches[key]

    def files(self) -> Iterable[tuple[str, Any]]:
        """Name and content of each file of the bundle: those of kernels as text, and the launches as data."""
        used = dict.fromkeys(index for index in self.order if index >= 0)
        if not used:
            return
        texts: dict[str, str] = {}
        kernels: dict[Any, int] = {}
        rows: list[dict[str, Any]] = []
        launches = []
        tuned = _tuned()
        for index in used:
            seen = self.launches[index]
            if seen.kernel not in kernels:
                kernels[seen.kernel] = len(rows)
                rows.append(_kernel_row(seen.kernel, texts))
                timed = tuned.pop(getattr(seen.kernel.src.fn, "fn", None), None)
                if timed:
                    rows[-1]["tuned"] = timed
            launches.append({"kernel": kernels[seen.kernel], "grid": seen.grid, "arguments": seen.arguments})
        places = {index: place for place, index in enumerate(used)}
        order = [places.get(index, UNKNOWN) for index in self.order]
        yield from texts.items()
        yield (
            bundle_files.LAUNCHES,
            {"version": bundle_files.LAUNCHES_VERSION, "kernels": rows, "launches": launches, "order": order},
        )


def _tuned() -> dict[Any, list[dict[str, Any]]]:
    try:
        return timed_configs()
    except Exception:  # noqa: BLE001 - a tuner of another kind has other parts; the launches are what counts
        return {}


class _NoLaunches(dict[Any, int]):
    """Of a kernel that is not recorded: every launch is known, as one that is not described."""

    def get(self, key: Any, default: Any = None) -> int:
        return UNKNOWN


def _numbers(args: tuple[Any, ...]) -> Callable[[tuple[Any, ...]], Any]:
    """Takes the whole numbers out of arguments like these: a compiled kernel has them in the same places."""
    places = [place for place, value in enumerate(args) if value.__class__ is int]
    return itemgetter(*places) if places else lambda args: None


def _kernel_row(kernel: Any, texts: dict[str, str]) -> dict[str, Any]:
    """What is known of a compiled kernel; its texts are added to `texts`."""
    function = kernel.src.fn
    row: dict[str, Any] = {
        "name": str(kernel.name),
        "function": str(function.__name__),
        "parameters": [str(name) for name in function.arg_names],
        "options": _options(kernel, function),
    }
    ttir = kernel.asm.get("ttir") if hasattr(kernel, "asm") else None
    if ttir:
        row["ttir"] = _add_text(texts, function.__name__, "ttir", str(ttir))
    try:
        constants = kernel.src.constants.values()
        text = module_text(function, *[value for value in constants if hasattr(value, "src")])
        row["source"] = _add_text(texts, function.__name__, "py", text)
    except NotWritable as reason:
        row["reason"] = f"its source does not stand alone: {reason}"
    except Exception as error:  # noqa: BLE001 - sources are the program's own, and so are their surprises
        row["reason"] = f"its source cannot be read: {type(error).__name__}: {error}"
    return row


def _add_text(texts: dict[str, str], name: str, suffix: str, text: str) -> str:
    """The name of the file that has it: two kernels of one source share it."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    file = f"{name}-{digest}.{suffix}"
    texts[f"{bundle_files.KERNELS}/{bundle_files.LAUNCHED}/{file}"] = text
    return file


def _options(kernel: Any, function: Any) -> dict[str, int | bool | str]:
    """What the launch chose, and the usual three in any case: another Triton may have other defaults."""
    facts = {name: getattr(kernel.metadata, name, None) for name in CONFIG}
    if ALL_WARPS in kernel.asm.get("ttgir", ""):
        # The sum over its partitions is not what was asked for.
        del facts["num_warps"]
    facts |= _passed_options(kernel, function)
    return {name: value for name, value in facts.items() if isinstance(value, (int, str)) and name not in NOT_OPTIONS}


def _passed_options(kernel: Any, function: Any) -> dict[str, Any]:
    """As they were passed, from the key under which Triton keeps the kernel; {} where it keeps it otherwise."""
    with contextlib.suppress(Exception):
        for kernels, keys, *_ in function.device_caches.values():
            for (_, options), key in keys.items():
                if kernels.get(key) is kernel:
                    passed = ast.literal_eval(options)
                    return passed if isinstance(passed, dict) else {}
    return {}


def _is_generated(kernel: Any) -> bool:
    """A kernel of Inductor's own, not one of the program's in a graph that it compiled."""
    home = str(getattr(getattr(kernel.src, "fn", None), "__module__", ""))
    return kernel.name.startswith("triton_") and any(word in home for word in GENERATED)


def _may_wait() -> bool:
    """Reading values waits for the GPU, which must not happen while a graph is captured."""
    import torch

    return not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


def _compiled_kernel() -> Any:
    """Triton's class of compiled kernels, where it has the method that is wrapped here."""
    try:
        from triton.compiler import CompiledKernel
    except Exception:  # noqa: BLE001 - a broken or older Triton is none
        return None
    return CompiledKernel if callable(getattr(CompiledKernel, "launch_metadata", None)) else None
