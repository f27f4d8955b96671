"""A script that asks for a GPU where there is none gets the CPU instead, while it runs; afterwards all is as before.

Tensors asked for on a GPU are made on the CPU, copies between the two are copies still, and Triton has a driver. Where
there is a GPU nothing is changed. Needs neither Triton nor PyTorch at import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from warplens_lab.compiling.changing import Change, changed
from warplens_lab.compiling.lazy_torch import import_when_used
from warplens_lab.compiling.stand_in_cards import CARDS, DEFAULT
from warplens_lab.compiling.stand_in_driver import (
    GpuRequest,
    once,
    stand_in_driver,
    torch_cuda_members,
    torch_version_members,
)
from warplens_lab.compiling.stand_in_libraries import library_changes

NOTE: Final = "the script asks for a GPU: its tensors are on the CPU here"
SIGNS: Final = ("CUDA", "cuda", "active drivers", "active GPU", "NVIDIA", "HIP")
"""Words of PyTorch's and Triton's errors about a missing GPU."""
GPU_KINDS: Final = ("cuda", "hip")
DEVICE_FILES: Final = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""Where none of these is, no driver of NVIDIA, AMD or WSL is loaded; Triton would import PyTorch to ask."""
GPU_MARK: Final = "_warplens_is_for_gpu"


def gpu_hint(message: str, line: int | None, request_line: int | None, is_requested: bool) -> str | None:
    """What to say of a script's failure that a missing GPU explains.

    >>> gpu_hint("Torch not compiled with CUDA enabled", 7, None, False)
    'the script asks for a GPU at line 7; there is none here'
    >>> gpu_hint("", 9, 4, True), gpu_hint("no such file", 9, None, False)
    ('the script asks for a GPU at line 4; its tensors are on the CPU here', None)
    """
    if any(sign in message for sign in SIGNS):
        return f"the script asks for a GPU{_at(line)}; there is none here"
    return f"the script asks for a GPU{_at(request_line)}; its tensors are on the CPU here" if is_requested else None


def _at(line: int | None) -> str:
    return f" at line {line}" if line else ""


@contextmanager
def gpu_stand_in(
    script: Path | None = None,
    *,
    target: str = DEFAULT,
    lazy_torch: bool = False,
    also: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Iterator[GpuRequest]:
    """`target` names the architecture that the script sees: "sm90", "gfx942".

    With `lazy_torch` PyTorch, which takes seconds, is imported only when the script uses something of it; `also` is
    entered once it is.
    """
    gpu_request = GpuRequest(script, CARDS[target])
    if not lazy_torch or any(Path(file).exists() for file in DEVICE_FILES):
        with suppress(ImportError):
            import_module("torch")
        if _has_gpu():
            yield gpu_request
            return
    with ExitStack() as stack:
        is_over = False

        def change(torch: Any) -> None:
            if not is_over:
                gpu_request.device = torch.device("cpu")
                stack.enter_context(changed(*_changes(torch, gpu_request)))
                stack.enter_context(_mode(torch, gpu_request))
                stack.enter_context(also())

        stack.enter_context(_driver(gpu_request))
        import_when_used(change)
        try:
            yield gpu_request
        finally:
            is_over = True


def _has_gpu() -> bool:
    try:
        from triton.backends import backends

        return any(backend.driver.is_active() for backend in backends.values())
    except Exception:  # noqa: BLE001 - a driver that cannot even say so is none
        return False


@contextmanager
def _driver(gpu_request: GpuRequest) -> Iterator[None]:
    try:
        from triton.runtime.driver import driver
    except ImportError:
        yield
        return
    before = dict(vars(driver))
    driver.set_active(stand_in_driver(gpu_request))
    try:
        yield
    finally:
        vars(driver).clear()
        vars(driver).update(before)


def _changes(torch: Any, gpu_request: GpuRequest) -> list[Change]:
    changes = [(torch.cuda, name, value) for name, value in torch_cuda_members(torch, gpu_request).items()]
    changes += [(torch, name, value) for name, value in _torch_members(torch, gpu_request).items()]
    changes += [(torch.version, name, value) for name, value in torch_version_members(torch, gpu_request.card).items()]
    changes += [(torch.Tensor, "is_cuda", _is_cuda(torch))]
    changes += library_changes(torch)
    changes += [(torch.cuda.nvtx, name, lambda *args, **kwargs: 0) for name in ("range_push", "range_pop", "mark")]
    try:
        import triton.testing
    except ImportError:
        return changes
    return changes + [(triton.testing, name, once) for name in ("do_bench", "do_bench_cudagraph")]


def _is_cuda(torch: Any) -> property:
    """True for every caller but PyTorch itself, which relies on it.

    It is the tensors' own, so that it holds where PyTorch switches modes off, as inside `torch.library.custom_op`.
    """
    truth = torch._C.TensorBase.is_cuda

    def is_cuda(tensor: Any) -> bool:
        asking = str(sys._getframe(1).f_globals.get("__name__", ""))
        return bool(truth.__get__(tensor)) if asking.partition(".")[0] == "torch" else True

    return property(is_cuda)


def _torch_members(torch: Any, gpu_request: GpuRequest) -> dict[str, Any]:
    """`torch.device("cuda")` is the CPU's, so that it equals that of the tensors made there."""
    device, generator, set_default = torch.device, torch.Generator, torch.set_default_device

    def make_device(*args: Any, **kwargs: Any) -> Any:
        number = [value for value in args if isinstance(value, int)] if len(args) == 1 else []
        return _moved(number[0] if number else device(*args, **kwargs), device, gpu_request)

    def make_generator(*args: Any, **kwargs: Any) -> Any:
        named = {name: _moved(value, device, gpu_request) for name, value in kwargs.items()}
        return generator(*(_moved(value, device, gpu_request) for value in args), **named)

    def set_default_device(requested: Any) -> None:
        set_default(requested if requested is None else _moved(requested, device, gpu_request))

    return {
        "device": _standing_in(device, make_device),
        "Generator": _standing_in(generator, make_generator),
        "set_default_device": set_default_device,
    }


def _standing_in(original: Any, make: Any) -> Any:
    """A class that makes objects of another, whose objects count as its own."""

    class Kind(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return make(*args, **kwargs)

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, original)

        def __subclasscheck__(cls, kind: type) -> bool:
            return issubclass(kind, original)

        def __getattr__(cls, name: str) -> Any:
            return getattr(original, name)

    return Kind(original.__name__, (), {"__module__": original.__module__, "__doc__": original.__doc__})


def _moved(value: Any, device: Any, gpu_request: GpuRequest) -> Any:
    """The CPU for a GPU, whether that is named, numbered or a device; anything else as it is."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if value is gpu_request.device:
        return value
    if is_number or (isinstance(value, (str, device)) and str(value).partition(":")[0] in GPU_KINDS):
        gpu_request.record()
        return gpu_request.device
    return value


def _mode(torch: Any, gpu_request: GpuRequest) -> Any:
    from torch.overrides import TorchFunctionMode

    device, tensor_type = type(torch.empty(0).device), torch.Tensor

    def as_copied(source: Any, result: Any, to_gpu: bool) -> Any:
        """A tensor that moves to another device is a copy."""
        stays = getattr(source, GPU_MARK, False) == to_gpu
        copied = result.clone() if result is source and gpu_request.happened and not stays else result
        return _marked(copied, to_gpu)

    class OnCpu(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name, named = getattr(func, "__name__", ""), dict(kwargs or {})
            if name == "__get__":
                return func(*args, **named)
            is_method = bool(args) and isinstance(args[0], tensor_type)
            if is_method and name == "cuda":
                gpu_request.record()
                return as_copied(args[0], args[0], to_gpu=True)
            if is_method and name == "pin_memory":
                return args[0]
            requested = named.get("device")
            if requested is not None:
                named["device"] = _moved(requested, device, gpu_request)
            if named.get("pin_memory"):
                named["pin_memory"] = False
            if is_method and name in ("to", "cpu"):
                return self._sent(func, args, named)
            if name == "_parse_to":
                return self._device_of_module(func, args, named)
            result = func(*args, **named)
            return _marked(result, True) if named.get("device") is gpu_request.device else result

        def _device_of_module(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
            """What `Module.to` reads from its arguments: device, dtype and more."""
            sent = [_moved(value, device, gpu_request) for value in args]
            parsed, *others = func(*sent, **named)
            is_gpu = any(value is gpu_request.device for value in (*sent, named.get("device")))
            return (gpu_request.device if is_gpu else parsed, *others)

        def _sent(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
            source, *others = args
            sent = [_moved(value, device, gpu_request) for value in others]
            devices = [value for value in (*sent, named.get("device")) if isinstance(value, (str, device))]
            result = func(source, *sent, **named)
            to_gpu = any(target is gpu_request.device for target in devices)
            return as_copied(source, result, to_gpu) if devices or func is tensor_type.cpu else result

    return OnCpu()


def _marked(tensor: Any, to_gpu: bool) -> Any:
    if hasattr(tensor, "untyped_storage"):
        setattr(tensor, GPU_MARK, to_gpu)
    return tensor
