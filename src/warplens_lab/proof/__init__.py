"""Kernels of a recorded run, checked as they were launched, and the experiments of their suggestions."""
