"""Profiles of Proton, Triton's profiler: `tree` reads `.hatchet`, `trace` reads `.chrome_trace`.

`events` and `kernels` serve the traces, `regions` the instrumentation inside kernels, `frames` both formats.
"""
