"""What `warplens.open` and `warplens.diff` return: one file per kind, all of them with the names of `Opened`.

`opened` has the protocol, `on_demand` what the kinds share (tables made once, SQL), `sql` the query.
"""
