"""Arguments of a launch as Triton's just-in-time compiler specialises a kernel for them. Standard library only."""

from __future__ import annotations

from typing import Final

from warplens.kernel_lab.compiling.signature import DIVISOR, KernelArgument

DTYPES: Final = {
    # as PyTorch names them: as Triton does
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "bool": "i1",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "float8_e4m3fnuz": "fp8e4b8",
    "float8_e5m2fnuz": "fp8e5b16",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}


def number_argument(name: str, value: object, *, specialised: bool = True) -> KernelArgument | None:
    """None for what is not a number.

    >>> number_argument("n", 1024).text(), number_argument("n", 1).text(), number_argument("n", 1 << 31).text()
    ('i32:16', 'i32:1', 'i64:16')
    """
    if isinstance(value, bool):
        return KernelArgument(name, "u1")
    if isinstance(value, int):
        kind = "i32" if -(2**31) <= value < 2**31 else "i64" if value < 2**63 else "u64"
        is_one = specialised and value == 1
        is_divisible = specialised and not is_one and value % DIVISOR == 0
        return KernelArgument(name, kind, divisible=is_divisible, is_one=is_one)
    if isinstance(value, float):
        return KernelArgument(name, "fp32")
    return None
