"""PyTorch (Kineto) traces and any other trace-event JSON: `reader` reads a file.

`events` decodes the JSON into `records` (`slow_scan` where it is damaged), `adding` adds them to the builder;
`scope_metrics` and `triton_calls` read facts that are not events.
"""
