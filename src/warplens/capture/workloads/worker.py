"""Where a workload runs: device, rank, number of ranks; and the errors where it cannot."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warplens.capture.workloads.options import WorkloadOptions
from warplens.errors import UsageError, WarplensError

NVIDIA_NODES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg")
AMD_NODES = ("/dev/kfd",)
GET_TORCH = "install the torch build for your driver (https://pytorch.org/get-started/locally)"


@dataclass(frozen=True)
class Worker:
    device: Any
    """A torch.device."""
    rank: int = 0
    world: int = 1

    @property
    def gpu(self) -> bool:
        return bool(self.device.type == "cuda")


class RanksError(UsageError):
    """A run over several ranks that torchrun did not start with as many ranks."""


@dataclass(frozen=True)
class Ranks:
    """What torchrun says through the environment; one rank where it was not used."""

    rank: int = 0
    local_rank: int = 0
    world: int = 1
    local_world: int = 1


def read_ranks(environment: Mapping[str, str]) -> Ranks:
    def number(name: str, default: int) -> int:
        try:
            return int(environment.get(name, default))
        except ValueError:
            raise UsageError(f"{name} is {environment[name]!r}, not a number", hint="torchrun sets it") from None

    world, rank = number("WORLD_SIZE", 1), number("RANK", 0)
    return Ranks(rank, number("LOCAL_RANK", rank), world, number("LOCAL_WORLD_SIZE", world))


@contextmanager
def open_worker(torch: Any, options: WorkloadOptions, say: Callable[[str], None]) -> Iterator[Worker]:
    """The worker of this process, with its process group up while the block runs."""
    ranks = read_ranks(os.environ)
    kind = choose_device(torch, options, say if ranks.rank == 0 else lambda text: None)
    if options.cuda_graph and kind == "cpu":
        raise UsageError("cuda_graph needs a GPU", hint="omit it on a CPU", options=("cuda_graph",))
    check_ranks(options, ranks, gpus=torch.cuda.device_count() if kind == "cuda" else None)
    device = torch.device("cuda", ranks.local_rank) if kind == "cuda" else torch.device("cpu")
    if kind == "cuda":
        torch.cuda.set_device(device)
    with _process_group(torch, device, ranks, options):
        yield Worker(device, ranks.rank, ranks.world)


@contextmanager
def _process_group(torch: Any, device: Any, ranks: Ranks, options: WorkloadOptions) -> Iterator[None]:
    if ranks.world == 1 or torch.distributed.is_initialized():
        yield
        return
    how = {"backend": "nccl", "device_id": device} if device.type == "cuda" else {"backend": "gloo"}
    try:
        torch.distributed.init_process_group(**how)
    except (ValueError, RuntimeError) as error:
        raise WarplensError(f"the ranks cannot connect: {error}", hint="start every rank with torchrun") from error
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def check_ranks(options: WorkloadOptions, ranks: Ranks, *, gpus: int | None) -> None:
    """As many ranks as `tp` asks for, and a GPU for each; `gpus` is None on a CPU."""
    local_ranks = ranks.local_world if ranks.world > 1 else options.tp
    if gpus is not None and gpus < local_ranks:
        raise WarplensError(
            f"{local_ranks} ranks need {local_ranks} GPUs, and torch sees {gpus}",
            hint=f"use tp {gpus}, check CUDA_VISIBLE_DEVICES, or try tiny on the device cpu",
            options=("tp", "tiny", "device"),
        )
    if ranks.world == options.tp:
        return
    if options.tp == 1:
        raise UsageError(
            f"{ranks.world} ranks were started, and tp is 1",
            hint=f"set tp to {ranks.world}, or start it without torchrun",
            options=("tp",),
        )
    launch = "without torchrun" if ranks.world == 1 else f"with {ranks.world} ranks"
    raise RanksError(f"tp is {options.tp}, started {launch}", hint=f"start it with torchrun, {options.tp} processes")


def choose_device(torch: Any, options: WorkloadOptions, say: Callable[[str], None]) -> str:
    """`cuda` or `cpu`; only a tiny model falls back to the CPU by itself, and says so."""
    if options.device == "cpu":
        return "cpu"
    trouble = gpu_trouble(torch)
    if trouble is None:
        return "cuda"
    if options.device == "auto" and options.tiny:
        say(f"{trouble.message}: the tiny model runs on the CPU")
        return "cpu"
    if options.tiny:
        hint = "without the device cuda the tiny model runs on the CPU"
        raise WarplensError(trouble.message, hint=hint, options=("device",))
    raise trouble


def gpu_trouble(
    torch: Any,
    *,
    nvidia_nodes: Sequence[str] = NVIDIA_NODES,
    amd_nodes: Sequence[str] = AMD_NODES,
    environment: Mapping[str, str] = os.environ,
) -> WarplensError | None:
    """Why torch can use no GPU here; None where it can."""
    if torch.cuda.is_available():
        return _architecture_trouble(torch)
    nvidia, amd = _first_existing(nvidia_nodes), _first_existing(amd_nodes)
    for node, built_for in ((nvidia, torch.version.cuda), (amd, torch.version.hip)):
        if node and not built_for:
            build = "for the other make of GPU" if torch.version.cuda or torch.version.hip else "without GPU support"
            return WarplensError(f"torch {torch.__version__} is built {build}, but {node} is there", hint=GET_TORCH)
    hidden = {name: environment[name] for name in _HIDING if name in environment}
    if nvidia or amd:
        why = "; ".join(f"{name} is {value!r}" for name, value in hidden.items()) or "is the driver too old for it?"
        return WarplensError(f"no GPU visible to torch {torch.__version__}, but {nvidia or amd} is there", hint=why)
    return WarplensError(
        "no GPU visible",
        hint="tiny runs a small model, the device cpu runs the whole one slowly; "
        "with a GPU, check the driver, CUDA_VISIBLE_DEVICES and the build of torch",
        options=("tiny", "device"),
    )


_HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def _first_existing(nodes: Sequence[str]) -> str:
    return next((node for node in nodes if Path(node).exists()), "")


def _architecture_trouble(torch: Any) -> WarplensError | None:
    """A build whose kernels do not run on this GPU: torch would say so only at the first kernel."""
    if torch.version.hip:
        return None
    major, minor = torch.cuda.get_device_capability()
    built_for = torch.cuda.get_arch_list()
    if runs_on((major, minor), built_for):
        return None
    return WarplensError(
        f"torch {torch.__version__} has no kernels for {torch.cuda.get_device_name()} (sm_{major}{minor}), "
        f"only for {' '.join(built_for)}",
        hint=GET_TORCH,
    )


def runs_on(capability: tuple[int, int], built_for: Sequence[str]) -> bool:
    """Binary code runs on the same major version from its minor on, PTX (`compute_`) on everything later."""
    if not built_for:
        return True
    for name in built_for:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)[af]?", name)
        if match is None:
            continue
        built = (int(match[2]), int(match[3]))
        if built <= capability and (match[1] == "compute" or built[0] == capability[0]):
            return True
    return False


def default_dtype(torch: Any, worker: Worker) -> str:
    """bfloat16 where the GPU computes in it, float16 on older ones, float32 on a CPU."""
    if not worker.gpu:
        return "float32"
    modern = torch.version.hip or torch.cuda.get_device_capability(worker.device)[0] >= 8
    return "bfloat16" if modern else "float16"


def device_name(torch: Any, worker: Worker) -> str:
    name = torch.cuda.get_device_name(worker.device) if worker.gpu else "cpu"
    return f"{worker.world} × {name}" if worker.world > 1 else str(name)
