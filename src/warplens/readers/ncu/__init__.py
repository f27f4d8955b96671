"""Nsight Compute's CSV pages: `reader` reads a file, `rows` and `source_page` its launches, `tables` makes the tables.

`counters` and `labels` list the metrics that are read, `values` converts printed numbers to base units. `report` opens
binary reports with a tool of NVIDIA's: `ncu`, or its Python module, which `report_dump` runs in a process of its own.
"""
