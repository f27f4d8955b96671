"""Where a workload runs: device, rank, number of ranks; and the errors where it cannot."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.base.torch_device import gpu_trouble
from warplens_run.workloads.options import WorkloadOptions

NEEDED_CAPABILITIES = {
    # option: the least compute capability, and what needs it
    "compile": ((7, 0), "Triton"),
    "load_in_8bit": ((7, 5), "LLM.int8()"),
}


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
    kind = choose_device(torch, options, say if ranks.rank == 0 else lambda text: None, ranks.local_rank)
    if options.cuda_graph and kind == "cpu":
        raise UsageError("cuda_graph needs a GPU", hint="omit it on a CPU", options=("cuda_graph",))
    check_ranks(options, ranks, gpus=torch.cuda.device_count() if kind == "cuda" else None)
    device = torch.device("cuda", ranks.local_rank) if kind == "cuda" else torch.device("cpu")
    if kind == "cuda":
        check_capability(torch, options, ranks.local_rank)
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


def choose_device(torch: Any, options: WorkloadOptions, say: Callable[[str], None], local_rank: int = 0) -> str:
    """`cuda` or `cpu`; only a tiny model falls back to the CPU by itself, and says so."""
    if options.device == "cpu":
        return "cpu"
    trouble = gpu_trouble(torch, local_rank)
    if trouble is None:
        return "cuda"
    if options.device == "auto" and options.tiny:
        say(f"{trouble.message}: the tiny model runs on the CPU")
        return "cpu"
    without = "without the device cuda the tiny model runs on the CPU"
    if not options.tiny:
        without = "tiny runs a small model, the device cpu the whole one, slowly"
    names = ("device",) if options.tiny else ("tiny", "device")
    raise WarplensError(trouble.message, hint=f"{trouble.hint}; {without}", options=names)


def check_capability(torch: Any, options: WorkloadOptions, device: int) -> None:
    """Options that this GPU is too old for, before a compiler or a library fails on it in its own way."""
    if torch.version.hip:
        return
    capability = torch.cuda.get_device_capability(device)
    for option, (least, what) in NEEDED_CAPABILITIES.items():
        if getattr(options, option) and capability < least:
            name = f"{torch.cuda.get_device_name(device)} (sm_{capability[0]}{capability[1]})"
            raise WarplensError(
                f"{option} needs a GPU of compute capability {least[0]}.{least[1]} or later for {what}, not {name}",
                hint="omit it",
                options=(option,),
            )


def default_dtype(torch: Any, worker: Worker, options: WorkloadOptions) -> str:
    """bfloat16 where the GPU computes in it, float16 on older ones and beside 8 bits, float32 on a CPU."""
    if not worker.gpu:
        return "float32"
    if options.load_in_8bit:
        return "float16"
    modern = torch.version.hip or torch.cuda.get_device_capability(worker.device)[0] >= 8
    return "bfloat16" if modern else "float16"


def device_name(torch: Any, worker: Worker) -> str:
    name = torch.cuda.get_device_name(worker.device) if worker.gpu else "cpu"
    return f"{worker.world} × {name}" if worker.world > 1 else str(name)
