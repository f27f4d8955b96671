"""Served models: which forward pass launched what, what phase it is in, and how many tokens a second that makes.

`spans` finds the passes that the engine marks, `inferring` those of programs that mark none, `iterations` joins GPU
work to them, `steady` finds the stretch that rates are taken from, `rates` sums operations, bytes and cache bytes;
`tables`, `phases` and `latency` make the tables, `restricting` makes the trace of one phase.
"""
