"""PyTorch's ExecutionTrace: `reader` opens one alone, `join` and `step` add its arguments to a trace.

`nodes` decodes the file, whatever its version.
"""
