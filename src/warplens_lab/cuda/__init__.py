"""CUDA C++: kernels of a `.cu` file compiled with NVRTC for GPUs that are not here, and what the texts say of them.

`checking.check_cuda` is the way in. source reads the file; compiling and worker run NVRTC in a child process; ptx,
flow, lanes and evaluating work out what each lane of a warp computes; facts makes the same records as of a Triton
kernel.
"""
