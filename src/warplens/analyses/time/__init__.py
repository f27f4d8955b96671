"""When the GPU worked and when it waited.

Tables: `timeline`, `steps`, `phases`, `gaps` (and `idle`), `activity`, `durations`. `host_activity` says what a host
thread did at a moment, `host_times` how long each host event took without those it called.
"""
