"""What several formats use: `stored_file` unpacks a file, `sqlite_tables` and `protobuf_wire` read containers,
`vendor_tool` runs what only the vendor's tool reads.

`microseconds` rounds times of trace-event JSON to nanoseconds, `event_damage` says what is damaged in such files,
`gc_pause` stops the garbage collector while events are decoded, `nearest_word` searches the text around many places.
"""
