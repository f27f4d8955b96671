"""Facts about the machine and the settings a run was made under: what a replay must restore and a reader must know."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from typing import Any, Final

from warplens_run.base.torch_switches import ATTRIBUTES, CALLS, ONLY_READ
from warplens_run.capture.masking import SECRET_VARIABLE, masked

PACKAGES: Final = (
    "torch", "triton", "pytorch-triton", "jax", "jaxlib", "transformers", "torchvision", "numpy", "flash-attn",
    "transformer-engine", "deepspeed", "accelerate", "vllm", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13",
)  # fmt: skip
SHOWN_VARIABLES: Final = re.compile(
    r"(CUDA|NCCL|RCCL|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|OMP|MKL|XLA|JAX|HIP|ROCR|HSA|CUBLAS|CUDNN|NVIDIA)(_|$).*"
    r"|(RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE)"
)
CLOCK_FIELDS: Final = (
    "index", "name", "driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem", "power.draw",
    "power.limit", "temperature.gpu", "pstate", "clocks_event_reasons.active",
)  # fmt: skip
CLOCKS_SECONDS: Final = 10
DEVICE_FACTS: Final = (
    "name", "major", "minor", "total_memory", "multi_processor_count", "L2_cache_size", "warp_size",
    "max_threads_per_multi_processor", "regs_per_multiprocessor", "shared_memory_per_multiprocessor", "gcnArchName",
)  # fmt: skip


def facts() -> dict[str, Any]:
    """What is known of the machine now; a part that cannot be asked is left out."""
    machine: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "packages": versions(),
        "variables": variables(),
    }
    # Only what the program itself has loaded: asking must not start a framework that it does not use.
    torch = sys.modules.get("torch")
    if torch is not None:
        machine["torch"] = torch_facts(torch)
    return machine


def versions() -> dict[str, str]:
    installed = {}
    for package in PACKAGES:
        try:
            installed[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


def variables() -> dict[str, str]:
    """The environment variables that steer GPU software, less anything that could be a secret."""
    return {
        name: masked(value)
        for name, value in sorted(os.environ.items())
        if SHOWN_VARIABLES.fullmatch(name) and not SECRET_VARIABLE.search(name)
    }


def seconds_from(variable: str, default: float) -> float:
    """A time that an environment variable sets; the default where it is absent or not a positive number."""
    try:
        seconds = float(os.environ.get(variable, ""))
    except ValueError:
        return default
    return seconds if seconds > 0 else default


def torch_facts(torch: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"cuda": torch.version.cuda, "hip": getattr(torch.version, "hip", None)}
    facts["settings"] = {name: value for name in ATTRIBUTES if (value := _value(torch, name)) is not None}
    for name in (*CALLS, *ONLY_READ):
        function = _value(torch, name)
        try:
            value = function() if callable(function) else None
        except Exception:  # noqa: BLE001 - a build without that part; each raises its own
            continue
        if value is not None:
            facts["settings"][name] = value if isinstance(value, (bool, int, float, str)) else str(value)
    facts["devices"] = _devices(torch)
    return facts


def _value(torch: Any, path: str) -> Any:
    try:
        return _attribute(torch, path.split("."))
    except Exception:  # noqa: BLE001 - some settings raise where the build has no such part
        return None


def _attribute(start: Any, names: list[str]) -> Any:
    for name in names:
        start = getattr(start, name)
    return start


def _devices(torch: Any) -> list[dict[str, Any]]:
    if not torch.cuda.is_available():
        return []
    listed = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        device_facts = {name: getattr(properties, name) for name in DEVICE_FACTS if hasattr(properties, name)}
        listed.append({"index": index, **device_facts})
    return listed


def clocks() -> list[dict[str, str]]:
    """Clocks, power and throttling of the NVIDIA GPUs as they are now; nothing where the driver's tool is missing."""
    command = ["nvidia-smi", f"--query-gpu={','.join(CLOCK_FIELDS)}", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=CLOCKS_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split(", ") for line in answer.stdout.splitlines() if line.strip()]
    return [dict(zip(CLOCK_FIELDS, row, strict=True)) for row in rows if len(row) == len(CLOCK_FIELDS)]
