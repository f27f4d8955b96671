"""A product of two matrices in fp16, whose rows are padded to a multiple of 16."""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, m, n, k, a_stride, b_stride, c_stride,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + rows[:, None] * a_stride + inner, mask=(rows[:, None] < m) & (inner < k), other=0.0)
        b = tl.load(b_ptr + inner[:, None] * b_stride + columns, mask=(inner[:, None] < k) & (columns < n), other=0.0)
        total = tl.dot(a, b, total)
    at = rows[:, None] * c_stride + columns
    tl.store(c_ptr + at, total, mask=(rows[:, None] < m) & (columns < n))


def padded(matrix: torch.Tensor) -> torch.Tensor:
    """With zeros below and beside it: products stay what they are."""
    rows, columns = matrix.shape
    return torch.nn.functional.pad(matrix, (0, -columns % 16, 0, -rows % 16))


def main() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(100, 72, dtype=torch.float16), torch.randn(72, 90, dtype=torch.float16)
    left, right = padded(a), padded(b)
    (m, k), n = left.shape, right.shape[1]
    c = torch.empty(m, n, dtype=torch.float16)
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 64))
    matmul_kernel[grid](left, right, c, m, n, k, left.stride(0), right.stride(0), c.stride(0), **blocks)
    assert torch.allclose(c[:100, :90], (a.float() @ b.float()).half(), atol=1e-2, rtol=1e-2)


if __name__ == "__main__":
    main()
