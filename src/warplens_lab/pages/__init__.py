"""The pages of traced launches, compiled kernels and layouts."""
