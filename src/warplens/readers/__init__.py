"""Files → Trace: one registry of formats, one file per format, and the cache of what was read."""
