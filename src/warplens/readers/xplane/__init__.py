"""JAX / XLA profiles: `reader` reads `.xplane.pb`, `trace_json` the `.trace.json.gz` of the same run.

`planes` decodes the file, `host` and `details` read its events, `hlo` its programs; `calls`, `match`, `paths` and
`scopes` join GPU work to the HLO instruction and the Python code it comes from.
"""
