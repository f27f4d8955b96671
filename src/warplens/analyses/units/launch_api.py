"""What can launch a kernel again, from its name and the op around it."""

from __future__ import annotations

import re
from typing import Final

LIBRARY: Final = "library call"
"""A kernel of cuBLAS, cuDNN, CUTLASS, rocBLAS, hipBLASLt, Composable Kernel or a fused attention library."""
ATEN: Final = "ATen op"
"""A kernel of PyTorch itself."""
CUSTOM: Final = "custom CUDA"
"""A kernel of an extension: its library must be imported."""
TRITON: Final = "Triton source"
"""A generated kernel: its source must be compiled."""
COPY: Final = "memcpy/memset"
"""A copy or fill by the driver."""
LIBRARIES: Final = re.compile(
    r"cublas|cudnn|cutlass|nvjet|xmma|cask|gemv|gemm|splitK|dot_kernel|reduce_1Block|flash|fmha|attention|nccl|cusparse|"
    r"cufft|cusolver|magma|Cijk_|MIOpen|miopen|ck::|ck_tile|rocblas|hipblas|bn_(fw|bw)|nhwc|nchw|wgrad|dgrad|implicit_",
    re.IGNORECASE,
)
PYTORCH: Final = re.compile(r"at::|at_cuda_detail|c10::|cub::|thrust::|native::")


def api_of(kernel: str, kind: str, op: str) -> str:
    """
    >>> api_of("void at::native::vectorized_elementwise_kernel<4>(int)", "kernel", "aten::add")
    'ATen op'
    >>> api_of("Memset (Device)", "memset", "aten::zero_"), api_of("nvjet_hsh_64x8", "kernel", "aten::mm")
    ('memcpy/memset', 'library call')
    """
    if kind in ("memcpy", "memset"):
        return COPY
    if kernel.startswith("triton_") or op.startswith("triton_"):
        return TRITON
    name = kernel.removeprefix("void ")
    if PYTORCH.match(name):
        return ATEN
    if op and "::" in op and not op.startswith("aten::"):
        return CUSTOM
    if LIBRARIES.search(kernel):
        return LIBRARY
    return ATEN if op.startswith("aten::") else CUSTOM
