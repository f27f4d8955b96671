"""Nsight Compute's CSV pages: `reader` reads a file, `rows` its launches, `tables` makes the tables.

`counters` and `labels` list the metrics that are read, `values` converts printed numbers to base units.
"""
