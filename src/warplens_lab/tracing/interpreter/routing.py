"""Makes the interpreter run every kernel while a trace is open, whenever it was decorated.

Triton chooses between compiler and interpreter when a function is decorated, its own library included, from the
variable TRITON_INTERPRET. Here a compiled kind of function runs through the interpreter instead until the trace ends.
The interpreter changes `triton.language` in place and, where a kernel calls another function, does not change it back;
here each module is changed once per launch, and all of it is undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final

from warplens_lab.compiling.changing import Change, changed
from warplens_lab.compiling.triton_version import refuse_old
from warplens_lab.tracing.interpreter.interpreted_kernel import InterpretedKernel
from warplens_lab.tracing.interpreter.kernel_text import text_changes
from warplens_lab.tracing.interpreter.language import language_runs
from warplens_lab.tracing.interpreter.repairs import repairs
from warplens_lab.tracing.watching.values import decoded
from warplens_run.base.errors import MissingExtra, UsageError

NEEDED: Final = (
    "interpreter_builder.create_masked_load",
    "interpreter_builder.create_masked_store",
    "interpreter_builder.set_grid_idx",
    "interpreter_builder.set_grid_dim",
    "GridExecutor._init_args_hst",
    "InterpretedFunction",
    "TensorHandle",
    "_implicit_cvt",
    "_patch_lang",
)
PURPOSE: Final = "tracing a kernel"


def load_interpreter() -> Any:
    """Triton's interpreter module."""
    try:
        import triton
        from triton.runtime import interpreter
    except ImportError as error:
        raise MissingExtra("Triton", "triton", PURPOSE) from error
    refuse_old(str(triton.__version__), PURPOSE)
    try:
        import torch  # noqa: F401 - the kernels' tensors are PyTorch's
    except ImportError as error:
        raise MissingExtra("PyTorch", "triton", PURPOSE) from error
    lacking = [name for name in NEEDED if not _has(interpreter, name)]
    if lacking:
        versions = "Triton 3.6 to 3.9 have it"
        raise UsageError(f"this Triton's interpreter has no {', '.join(lacking)}, which a trace needs", hint=versions)
    return interpreter


def _has(interpreter: Any, name: str) -> bool:
    owner, _, member = name.rpartition(".")
    return hasattr(getattr(interpreter, owner, None) if owner else interpreter, member)


@contextmanager
def interpreting(interpreter: Any) -> Iterator[None]:
    """All kernels run in the interpreter; autotuners take their first configuration without timing any."""
    from triton.runtime.jit import JITFunction

    functions: dict[int, Any] = {}
    compiled, interpreted_run = JITFunction.run, interpreter.InterpretedFunction.run

    def interpreted(function: Any) -> Any:
        # By the Python function: a JIT function's own hash reads the source of all it calls.
        wrapper = functions.get(id(function.fn))
        if wrapper is None:
            wrapper = functions[id(function.fn)] = interpreter.InterpretedFunction(function.fn)
            wrapper.kernel = function
        return wrapper

    def run(self: Any, *args: Any, grid: Any = None, warmup: bool = False, **kwargs: Any) -> Any:
        if not warmup:
            for hook in self.pre_run_hooks:
                hook(*args, **kwargs)
            interpreted(self).run(*args, grid=grid, warmup=False, **kwargs)
        return InterpretedKernel(self, JITFunction.run, compiled, args, kwargs)

    def run_decorated(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        """Of a function that was decorated for the interpreter, which gives nothing back."""
        interpreted_run(self, *args, grid=grid, warmup=warmup, **kwargs)
        kernel = getattr(self, "kernel", None)
        return InterpretedKernel(kernel or JITFunction(self.fn), run_by_name, compiled, args, kwargs)

    def run_by_name(function: Any, *args: Any, **kwargs: Any) -> Any:
        return JITFunction.run(function, *args, **kwargs)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return interpreted(self)(*args, **kwargs)

    changes: list[Change] = [
        (JITFunction, "run", run),
        (JITFunction, "__call__", call),
        (interpreter.InterpretedFunction, "run", run_decorated),
        *text_changes(interpreter),
    ]
    if hasattr(interpreter.InterpretedFunction, "rewritten_fn"):
        changes.append((interpreter.InterpretedFunction, "rewritten_fn", {}))  # of kernels whose text is read otherwise
    with language_runs(), changed(*changes), _tuners_untimed():
        yield


@contextmanager
def _tuners_untimed() -> Iterator[None]:
    """Autotuners take their first configuration, and have their own times again afterwards."""
    from triton.runtime.autotuner import Autotuner

    caches: list[tuple[Any, dict[Any, Any]]] = []

    def bench(self: Any, *args: Any, **kwargs: Any) -> list[float]:
        if isinstance(self.cache, dict) and all(self is not tuner for tuner, _ in caches):
            caches.append((self, dict(self.cache)))
        return [1.0, 1.0, 1.0]

    def not_kept(self: Any, tuning_key: Any, configs: Any, bench_fn: Callable[[], Any]) -> bool:
        """Times that nothing has measured do not go to the cache on the disk."""
        bench_fn()
        return False

    changes: list[Change] = [(Autotuner, "_bench", bench)]
    if hasattr(Autotuner, "check_disk_cache"):
        changes.append((Autotuner, "check_disk_cache", not_kept))
    with changed(*changes):
        try:
            yield
        finally:
            for tuner, cache in caches:
                tuner.cache = cache


@contextmanager
def one_launch(interpreter: Any) -> Iterator[None]:
    """Triton is set to interpret during one launch only: what is decorated meanwhile keeps its own kind."""
    import triton

    runtime = triton.knobs.runtime
    with runtime.scope():
        runtime.interpret = True
        with changed(*repairs(interpreter, str(triton.__version__))), _patched_once(interpreter):
            yield


@contextmanager
def _patched_once(interpreter: Any) -> Iterator[None]:
    """`triton.language` is prepared once per module, and put back when the launch ends."""
    if not hasattr(interpreter, "_LangPatchScope"):
        yield
        return
    language = interpreter.tl
    original: Callable[[Any], Any] = interpreter._patch_lang
    patched: set[frozenset[int]] = set()
    scopes: list[Any] = []

    class Scopes:
        def restore(self) -> None:
            while scopes:
                scopes.pop().restore()
            patched.clear()

    def patch(function: Any) -> Any:
        # Of a function that does not name the language: its operators need the change all the same.
        seen = [value for value in function.__globals__.values() if value is language or value is language.core]
        modules = frozenset(map(id, seen))
        if modules not in patched:
            scope = original(function if seen else SimpleNamespace(__globals__={"tl": language}))
            for name in ("__repr__", "__str__"):
                scope.set_attr(language.tensor, name, _tensor_text)
            scopes.append(scope)
            patched.add(modules)
        return Scopes()

    with changed((interpreter, "_patch_lang", patch)):
        try:
            yield
        finally:
            Scopes().restore()


def _tensor_text(tensor: Any) -> str:
    """A tensor of the kernel as its values, in the debugger and in `print`."""
    return repr(decoded(tensor.handle.data, str(tensor.handle.dtype)))
