"""PyTorch's switches that choose kernels, set as the plan recorded them. A plan can set none but those named here."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

ATTRIBUTES: Final = (
    "backends.cuda.matmul.allow_tf32",
    "backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
    "backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
    "backends.cudnn.enabled",
    "backends.cudnn.benchmark",
    "backends.cudnn.deterministic",
    "backends.cudnn.allow_tf32",
)
CALLS: Final = {
    # what was read by a call: the call that sets it
    "get_float32_matmul_precision": "set_float32_matmul_precision",
    "are_deterministic_algorithms_enabled": "use_deterministic_algorithms",
    "backends.cuda.flash_sdp_enabled": "backends.cuda.enable_flash_sdp",
    "backends.cuda.mem_efficient_sdp_enabled": "backends.cuda.enable_mem_efficient_sdp",
    "backends.cuda.math_sdp_enabled": "backends.cuda.enable_math_sdp",
    "backends.cuda.cudnn_sdp_enabled": "backends.cuda.enable_cudnn_sdp",
    "backends.cuda.preferred_blas_library": "backends.cuda.preferred_blas_library",
}
VARIABLES: Final = {
    # environment variables of the libraries underneath, which read them when they start: what each may be
    "CUBLAS_WORKSPACE_CONFIG": re.compile(r"(:\d{1,6}:\d{1,4}){1,8}"),
    "CUBLASLT_WORKSPACE_SIZE": re.compile(r"\d{1,9}"),
    "NVIDIA_TF32_OVERRIDE": re.compile(r"[01]"),
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": re.compile(r"[01]"),
    "TORCH_BLAS_PREFER_CUBLASLT": re.compile(r"[01]"),
}
VARIABLE: Final = "variables."
"""How a plan names them among its settings."""
WORDS: Final = {
    "get_float32_matmul_precision": ("highest", "high", "medium"),
    "backends.cuda.preferred_blas_library": ("default", "cublas", "cublaslt", "ck"),
}
NOT_OURS: Final = ("get_num_threads", "backends.cudnn.version", "is_autocast_enabled")
"""Recorded too, but they choose no kernel of an op that is called by its own name with its own inputs."""


def restore_variables(settings: Mapping[str, str | int | float | bool]) -> None:
    """Before PyTorch is loaded; `restore` tells of those that were not set."""
    for name, value in settings.items():
        if name.startswith(VARIABLE) and _is_variable(name, value):
            os.environ[name.removeprefix(VARIABLE)] = str(value)


def _is_variable(name: str, value: str | int | float | bool) -> bool:
    pattern = VARIABLES.get(name.removeprefix(VARIABLE))
    return pattern is not None and pattern.fullmatch(str(value)) is not None


def restore(settings: Mapping[str, str | int | float | bool]) -> tuple[str, ...]:
    """Sets them, and returns a note for each that could not be set."""
    import torch

    notes = []
    # Precisions first: setting one also sets the TF32 switches, which the plan names apart.
    for name in sorted(settings, key=lambda each: each not in CALLS):
        if name in NOT_OURS or (name.startswith(VARIABLE) and _is_variable(name, settings[name])):
            continue
        problem = _set(torch, name, settings[name])
        if problem:
            notes.append(f"setting {name}={settings[name]} was not restored: {problem}")
    return tuple(notes)


def _set(torch: Any, name: str, value: str | int | float | bool) -> str:
    if name not in CALLS and name not in ATTRIBUTES:
        return "not one that is known to choose kernels"
    if name in WORDS:
        # Some are enumerations, recorded as `_BlasBackend.Cublas`.
        value = str(value).rpartition(".")[2].lower()
        if value not in WORDS[name]:
            return f"not one of {', '.join(WORDS[name])}"
    elif not isinstance(value, bool):
        return "not true or false"
    *path, last = CALLS.get(name, name).split(".")
    try:
        for part in path:
            torch = getattr(torch, part)
        if name in CALLS:
            getattr(torch, last)(value)
        else:
            setattr(torch, last, value)
    except Exception as error:  # noqa: BLE001 - a build without that part; each raises its own
        return str(error).partition("\n")[0]
    return ""
