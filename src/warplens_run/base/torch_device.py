"""Whether PyTorch can use a GPU here, and where it cannot, why and what helps: asked before anything is built or run.

`capture` and `replay` ask it of the torch that their process has loaded.
"""

from __future__ import annotations

import os
import platform
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from warplens_run.base.errors import WarplensError

NVIDIA_NODES: Final = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg")
AMD_NODES: Final = ("/dev/kfd",)
HIDING: Final = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
GET_TORCH: Final = "install the torch build for your driver (https://pytorch.org/get-started/locally)"
NO_KERNEL: Final = "no kernel image is available"
"""CUDA's words for a program whose kernels were built for other GPUs."""
ASK_SLURM: Final = "srun --gres=gpu:1"
WHEELS: Final = (
    # compute capabilities, from and up to: PyTorch's wheels that have kernels for them, and for which CUDA these are
    ((3, 7), (3, 7), "torch<2.8", "cu118"),
    ((5, 0), (9, 0), "torch<2.15", "cu126"),
    ((10, 0), (12, 1), "torch>=2.9", "cu130"),
)
"""From the matrix of PyTorch's releases: wheels for CUDA 12.8 and later have left out Maxwell and Pascal, and since
2.11 Volta; those for CUDA 12.6 have them in every release from 2.6 to 2.14."""


def gpu_trouble(
    torch: Any,
    device: int = 0,
    *,
    nvidia_nodes: Sequence[str] = NVIDIA_NODES,
    amd_nodes: Sequence[str] = AMD_NODES,
    environment: Mapping[str, str] = os.environ,
) -> WarplensError | None:
    """Why torch can use no GPU here, or not this one of those that it sees; None where it can."""
    # What torch itself warns of fills a screen: it is in the messages made here, or its first sentence is.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if torch.cuda.is_available():
            return _build_trouble(torch, device)
    nvidia, amd = _first_existing(nvidia_nodes), _first_existing(amd_nodes)
    for node, built_for in ((nvidia, torch.version.cuda), (amd, torch.version.hip)):
        if node and not built_for:
            build = "for the other make of GPU" if torch.version.cuda or torch.version.hip else "without GPU support"
            return WarplensError(f"torch {torch.__version__} is built {build}, but {node} is there", hint=GET_TORCH)
    hidden = [f"{name} is {environment[name]!r}" for name in HIDING if name in environment]
    if nvidia or amd:
        warned = [str(warning.message).split(". ")[0] for warning in caught]
        why = "; ".join(hidden) or next(iter(warned), "is the driver too old for it?")
        return WarplensError(f"no GPU visible to torch {torch.__version__}, but {nvidia or amd} is there", hint=why)
    return WarplensError("no GPU visible", hint="; ".join([*hidden, where_gpus_are(environment)]))


def has_gpu() -> bool:
    """Whether this machine has one that a driver knows, visible to this process or not."""
    return bool(_first_existing([*NVIDIA_NODES, *AMD_NODES]))


def where_gpus_are(environment: Mapping[str, str] = os.environ) -> str:
    """What to do on a machine without a GPU: mostly it is a cluster's, and another of its machines has some."""
    if "SLURM_JOB_ID" in environment:
        return f"this job was given no GPU: start it with {ASK_SLURM}, or #SBATCH --gres=gpu:1"
    return f"login nodes of clusters have none: put {ASK_SLURM} before the command"


def _first_existing(nodes: Sequence[str]) -> str:
    return next((node for node in nodes if Path(node).exists()), "")


def _build_trouble(torch: Any, device: int) -> WarplensError | None:
    """A build whose kernels do not run on this GPU: torch would say so only at the first kernel."""
    if torch.version.hip or device >= torch.cuda.device_count():
        return None
    try:
        capability = torch.cuda.get_device_capability(device)
    except Exception as error:  # noqa: BLE001 - a driver may say no in many ways
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        message = f"torch {torch.__version__} cannot start the GPU: {reason}"
        return WarplensError(message, hint="does nvidia-smi show it, free for this process?")
    built_for = torch.cuda.get_arch_list()
    if runs_on(capability, built_for):
        return None
    name = torch.cuda.get_device_name(device)
    return WarplensError(
        f"torch {torch.__version__} has no kernels for {name} (sm_{capability[0]}{capability[1]}), "
        f"only for {' '.join(built_for)}",
        hint=_remedy(capability),
    )


def _remedy(capability: tuple[int, int]) -> str:
    build = "build PyTorch from source with TORCH_CUDA_ARCH_LIST={}.{}".format(*capability)
    for first, last, version, cuda in WHEELS:
        if first <= capability <= last and platform.machine().lower() in ("x86_64", "amd64"):
            wheel = (
                f"install a wheel of {version} for {cuda}: pytorch.org/get-started/previous-versions has the command"
            )
            return f"{wheel}; or {build}"
    return build


def runs_on(capability: tuple[int, int], built_for: Sequence[str]) -> bool:
    """Binary code runs on the same major version from its minor on, PTX (`compute_`) on everything later.

    Code for one architecture (`sm_90a`) runs on that alone, code for a family (`sm_100f`) on its major version.

    >>> runs_on((6, 1), ["sm_60", "sm_70"]), runs_on((6, 1), ["sm_75", "compute_120"]), runs_on((6, 1), ["compute_50"])
    (True, False, True)
    """
    if not built_for:
        return True
    for name in built_for:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", name)
        if match is None:
            continue
        built = (int(match[2]), int(match[3]))
        is_family = built <= capability and built[0] == capability[0]
        is_later = built <= capability and match[1] == "compute" and not match[4]
        if built == capability or (is_family and match[4] != "a") or is_later:
            return True
    return False
