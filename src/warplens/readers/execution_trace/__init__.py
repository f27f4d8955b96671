"""PyTorch's ExecutionTrace: `join` and `step` add its arguments to a trace, `collectives` what it says of those.

`nodes` decodes the file, whatever its version. Alone it has no times, and no kernels.
"""
