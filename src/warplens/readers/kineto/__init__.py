"""PyTorch (Kineto) traces and any other trace-event JSON: `reader` reads a file.

`events` decodes the JSON (`slow_scan` where it is damaged, `halves` on two cores), `columns` turns events into columns;
`records` has what is decoded, `scope_metrics` and `triton_calls` read what PyTorch writes beside its events.
"""
