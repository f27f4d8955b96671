"""Units of Triton kernels that a program launched itself."""
