"""Libraries of the GPU makers that scripts reach through Triton and PyTorch, answered on the CPU.

Triton's binding of cuBLAS and hipBLAS opens the library when it is made: here products are PyTorch's own.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from warplens_lab.compiling.changing import Change

LIBRARIES: Final = (("nvidia", "cublas", "CublasLt"), ("amd", "hipblas", "HipblasLt"))
"""In Triton's extension: the backend, its module, and the class of the library."""

MX_GROUP: Final = 32
NV_GROUP: Final = 16
FOUR_BITS: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


class StandInBlas:
    """`matmul` and `gemm` as Triton's bindings have them: the second factor is transposed."""

    def __init__(self, workspace: Any = None) -> None:
        self.workspace = workspace

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        c.copy_((a.float() @ b.float().T).to(c.dtype))

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float, beta: float) -> None:
        d.copy_((alpha * (a.float() @ b.float().T) + beta * c.float()).to(d.dtype))

    def block_scaled_matmul_mxfp8(self, a: Any, b: Any, c: Any, a_scale: Any, b_scale: Any) -> None:
        """One scale, a power of two, for 32 elements."""
        factors = [
            values.float() * _spread((codes.view(-1).float() - 127).exp2(), values.shape, MX_GROUP)
            for values, codes in ((a, a_scale), (b, b_scale))
        ]
        c.copy_((factors[0] @ factors[1].T).to(c.dtype))

    def block_scaled_matmul_nvfp4(self, a: Any, b: Any, c: Any, a_scale: Any, b_scale: Any) -> None:
        """One scale of eight bits for 16 elements of four, of which a byte holds two."""
        factors = []
        for packed, scale in ((a, a_scale), (b, b_scale)):
            values = _fours(packed)
            factors.append(values * _spread(scale.view(-1).float(), values.shape, NV_GROUP))
        c.copy_((factors[0] @ factors[1].T).to(c.dtype))


def _spread(scales: Any, shape: Any, group: int) -> Any:
    """Scales lie in blocks of 128 rows by 4 groups, the rows interleaved by 32."""
    rows, columns = shape
    blocks = scales.reshape(rows // 128, columns // group // 4, 32, 4, 4)
    return blocks.permute(0, 3, 2, 1, 4).reshape(rows, columns // group).repeat_interleave(group, 1)


def _fours(packed: Any) -> Any:
    import torch

    table = torch.tensor([*FOUR_BITS, *(-value for value in FOUR_BITS)])
    codes = torch.stack([packed & 15, packed >> 4], -1).flatten(1)
    return table[codes.long()]


def library_changes(torch: Any) -> list[Change]:
    changes: list[Change] = []
    for backend, module, name in LIBRARIES:
        try:
            owner = getattr(getattr(import_module("triton._C.libtriton"), backend), module)
        except (ImportError, AttributeError):
            continue
        if hasattr(owner, name):
            changes.append((owner, name, StandInBlas))
    wrapping = getattr(getattr(torch, "_library", None), "triton", None)
    if hasattr(wrapping, "is_wrap_triton_enabled"):
        # Kernels inside PyTorch's operators are launched, not put into a graph.
        changes.append((wrapping, "is_wrap_triton_enabled", lambda: False))
    if not hasattr(torch._C, "_cuda_getCurrentRawStream"):
        changes.append((torch._C, "_cuda_getCurrentRawStream", lambda device=0: 0))
    if not hasattr(torch.cpu, "set_stream"):
        # Reached as `getattr(torch, device.type).set_stream`.
        changes.append((torch.cpu, "set_stream", lambda stream: None))
    return changes
