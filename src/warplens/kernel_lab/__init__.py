"""Triton kernels without a GPU: what the compiler makes of them, and what each program of them touches."""
