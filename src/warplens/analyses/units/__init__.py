"""Units of replay: op calls that launched GPU work and can run again.

`calls` groups the op calls of a trace into units, `unique` counts kernels by each definition of unique,
`launch_api` says what can launch a kernel again, `replayed` makes the tables of a replay's result.
"""
