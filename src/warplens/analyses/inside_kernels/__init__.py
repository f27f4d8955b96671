"""What other profilers know of single kernels: counters, measured times, regions, warps."""
