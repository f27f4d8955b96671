"""Triton's interpreter while a trace is open: `routing` sends launches to it, `taps` wraps its operations.

The rest repairs it: arithmetic of bfloat16 and 8-bit floats, libdevice functions, reductions, mistakes of versions.
"""
