"""Files → Trace: `inputs` finds what a path leads to, `registry` picks the reader by content, a folder per format.

A reader is a function `read(text, meta, notes)` that fills a `TraceBuilder` (model/builder.py) and returns its trace,
or returns `CallPaths` where the file has no timeline. `shared` serves several formats, `cache` keeps what was read.
"""
