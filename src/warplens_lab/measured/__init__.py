"""Profiles joined with compiled kernels: `match` finds a kernel's launches, `joining` adds up what they measured.

work computes bytes, FLOPs and the roofline of a launch; tables holds `kernel_measured` and `kernel_stalls`.
"""
