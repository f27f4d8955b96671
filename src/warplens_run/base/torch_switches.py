"""PyTorch's switches that choose kernels: known to `capture`, which records them, and to `replay`, which sets them.

Names are those under `torch`. A plan can set none but the ones listed here.
"""

from __future__ import annotations

import re
from typing import Final

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
    # what is read by a call: the call that sets it
    "get_float32_matmul_precision": "set_float32_matmul_precision",
    "are_deterministic_algorithms_enabled": "use_deterministic_algorithms",
    "backends.cuda.flash_sdp_enabled": "backends.cuda.enable_flash_sdp",
    "backends.cuda.mem_efficient_sdp_enabled": "backends.cuda.enable_mem_efficient_sdp",
    "backends.cuda.math_sdp_enabled": "backends.cuda.enable_math_sdp",
    "backends.cuda.cudnn_sdp_enabled": "backends.cuda.enable_cudnn_sdp",
    "backends.cuda.preferred_blas_library": "backends.cuda.preferred_blas_library",
}
ONLY_READ: Final = ("get_num_threads", "backends.cudnn.version", "is_autocast_enabled")
"""Recorded too, but they choose no kernel of an op that is called by its own name with its own inputs."""
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
