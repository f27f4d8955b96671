"""NVIDIA's management library: `library` calls it without a package, `devices` finds the GPU that CUDA means.

What meters energy (`replay`) and what records counters beside a profile (`capture`) share it.
"""
