"""Matrix product whose programs are numbered so that neighbours share tiles in the L2 cache."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def tile_of(program, tiles_m, tiles_n, GROUP: tl.constexpr):
    """Columns of GROUP tiles of rows: walk down a group before going one tile to the right."""
    programs_in_group = GROUP * tiles_n
    first = (program // programs_in_group) * GROUP
    height = tl.minimum(tiles_m - first, GROUP)
    inside = program % programs_in_group
    return first + inside % height, inside // height


@triton.jit
def grouped_matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    m_size,
    n_size,
    k_size,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tiles_m = tl.cdiv(m_size, BLOCK_M)
    tiles_n = tl.cdiv(n_size, BLOCK_N)
    tile_m, tile_n = tile_of(tl.program_id(0), tiles_m, tiles_n, GROUP)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    # Wrapping rows and columns keeps the loads inside the tensors without a mask on them.
    a_ptrs = a_ptr + (rows % m_size)[:, None] * k_size + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * n_size + (columns % n_size)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k_size, BLOCK_K):
        a = tl.load(a_ptrs, mask=inner[None, :] < k_size - start, other=0.0)
        b = tl.load(b_ptrs, mask=inner[:, None] < k_size - start, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * n_size
    c_mask = (rows[:, None] < m_size) & (columns[None, :] < n_size)
    tl.store(c_ptr + rows[:, None] * n_size + columns[None, :], total, mask=c_mask)


def inputs(m: int = 72, n: int = 40, k: int = 24) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(m, k), torch.randn(k, n)


def launch(a: torch.Tensor, b: torch.Tensor, block: int = 16, group: int = 2) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n))
    grid = (triton.cdiv(m, block) * triton.cdiv(n, block),)
    sizes = {"BLOCK_M": block, "BLOCK_N": block, "BLOCK_K": block, "GROUP": group}
    grouped_matmul_kernel[grid](a, b, c, m, n, k, **sizes)
    return c


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b
