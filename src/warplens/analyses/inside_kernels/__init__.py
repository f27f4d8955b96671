"""What other profilers know of single kernels.

`counters` joins Nsight Compute's counters to the kernels of a trace, `measured` lists the measured kernels of any
profile for the kernel lab, `regions` and `warp_regions` sum what Proton records inside kernels.
"""
